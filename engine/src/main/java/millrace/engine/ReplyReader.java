package millrace.engine;

import java.util.List;

/// Reads the text of one completion as its chat format means it: what is answer, what reasoning, what a call of a tool.
///
/// The text may come in any pieces: the parts together, and the reply, depend on the whole text only. Markup is never
/// part of a part, and what may be the beginning of markup is held back until the next piece decides. Not for use by two
/// threads at once; after a restart of the generation a new reader begins.
public interface ReplyReader {
    /// Takes more text, whole code points.
    ///
    /// @return what has become certain with it, maybe nothing
    List<ReplyPart> feed(String delta);

    /// No more text will come. A second call says nothing more.
    ///
    /// @return what was held back
    List<ReplyPart> end();

    /// All parts so far, put together.
    Reply reply();

    /// The reply once no more text will come; the same as [#end] and then [#reply].
    default Reply finish() {
        end();
        return reply();
    }

    /// Reads a text at once.
    default Reply read(String text) {
        feed(text);
        return finish();
    }

    /// A reader for what is no conversation: everything is content, at once.
    static ReplyReader plain() {
        return new ReplyReader() {
            private final StringBuilder content = new StringBuilder();

            @Override
            public List<ReplyPart> feed(String delta) {
                content.append(delta);
                return delta.isEmpty() ? List.of() : List.of(new ReplyPart.Content(delta));
            }

            @Override
            public List<ReplyPart> end() {
                return List.of();
            }

            @Override
            public Reply reply() {
                return new Reply(content.toString(), null, List.of());
            }
        };
    }
}

package millrace.streams;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.TextEngine;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.ToolCall;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The deltas of one generation: reads its text as the chat format means it, and numbers what comes of it.
///
/// Used by the thread that sends. A number that is taken is never used again, so that what is lost afterwards leaves a hole.
final class PreviewStream {
    /// Chars of one delta; a longer text is cut into several.
    static final int MAX_CHARS = 16_384;

    private static final Logger LOG = LoggerFactory.getLogger(PreviewStream.class);

    private final Previews.Shown request;
    private final TextEngine engine;
    private final long attempt;
    private final StringBuilder unread = new StringBuilder();
    private @Nullable ReplyReader reader;
    private boolean unreadable;
    private long next;
    private int tokens;
    private long sampledUs;

    PreviewStream(Previews.Shown request, TextEngine engine, long attempt) {
        this.request = request;
        this.engine = engine;
        this.attempt = attempt;
    }

    Source source() {
        return request.source();
    }

    String requestId() {
        return request.prompt().getRequestId();
    }

    /// Takes text that [#deltas] will make deltas of.
    void append(String text, int tokensSoFar, long atUs) {
        unread.append(text);
        tokens = tokensSoFar;
        sampledUs = atUs;
    }

    /// Deltas of what was appended, in order; none while all of it may still be markup.
    List<Delta> deltas() {
        List<Delta> deltas = new ArrayList<>();
        if (!unread.isEmpty() && !unreadable) {
            String text = unread.toString();
            unread.setLength(0);
            try {
                add(reader().feed(text), deltas);
            } catch (RuntimeException e) {
                giveUp(e);
            }
        }
        unread.setLength(0);
        return deltas;
    }

    /// What was shown is void: it begins again.
    ///
    /// @param lost pieces that did not get as far as here
    Delta restart(long lost, long atUs) {
        next += lost;
        reader = null;
        unreadable = false;
        unread.setLength(0);
        tokens = 0;
        sampledUs = atUs;
        return delta(DeltaKind.RESTART, "", null);
    }

    /// The last deltas.
    ///
    /// @param lost pieces that did not get as far as here
    List<Delta> end(long lost, int tokensInAll) {
        List<Delta> deltas = new ArrayList<>(deltas());
        if (lost == 0 && !unreadable) {
            try {
                add(reader().end(), deltas);
            } catch (RuntimeException e) {
                giveUp(e);
            }
        }
        next += lost;
        tokens = tokensInAll;
        deltas.add(delta(DeltaKind.END, "", null));
        return deltas;
    }

    private ReplyReader reader() {
        ReplyReader now = reader;
        if (now == null) {
            now = engine.replies(request.prepared());
            reader = now;
        }
        return now;
    }

    /// A reader that fails on a model's text must not cost others their previews, nor this one its completion.
    private void giveUp(RuntimeException e) {
        unreadable = true;
        next++;
        LOG.warn("{}: its text cannot be previewed: {}", source().position(), e.getClass().getName());
    }

    private void add(List<ReplyPart> parts, List<Delta> deltas) {
        for (ReplyPart part : parts) {
            switch (part) {
                case ReplyPart.Content content -> addText(DeltaKind.CONTENT, content.text(), deltas);
                case ReplyPart.Reasoning reasoning -> addText(DeltaKind.REASONING, reasoning.text(), deltas);
                case ReplyPart.Call call -> deltas.add(delta(DeltaKind.TOOL_CALL, "",
                        new ToolCall(call.call().id(), call.call().name(), call.call().arguments())));
            }
        }
    }

    private void addText(DeltaKind kind, String text, List<Delta> deltas) {
        for (int from = 0; from < text.length();) {
            int to = Math.min(text.length(), from + MAX_CHARS);
            if (to < text.length() && Character.isHighSurrogate(text.charAt(to - 1))) {
                to--;
            }
            deltas.add(delta(kind, text.substring(from, to), null));
            from = to;
        }
    }

    private Delta delta(DeltaKind kind, String text, @Nullable ToolCall call) {
        return new Delta(
                requestId(), request.prompt().getTenant(), attempt, next++, kind, text, call, tokens, sampledUs);
    }
}

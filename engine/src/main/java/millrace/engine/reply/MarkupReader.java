package millrace.engine.reply;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// Reads a text with markup, each character once.
///
/// ```
///  buffer  [ …released… | … white space | <tool_ca ]
///                     from    ink          at         what is before `ink` may be released, what is at `at` not be told yet
/// ```
///
/// White space between a text and a marker is dropped: after the marker at once, before it by being held back. Where a
/// marker parts two texts of one kind, a line break stands for it. A call is held back until it ends; one that cannot be read
/// is content, without its markup.
public final class MarkupReader implements ReplyReader {
    private enum Place {
        CONTENT,
        REASONING,
        CALL
    }

    private final Markup markup;
    private final List<Marker> inReasoning;
    private final boolean protectsStrings;
    private final List<Marker> inCall;
    private final List<Marker> inValue;
    private final CallReader calls;
    private final StringBuilder buffer = new StringBuilder();
    private final StringBuilder content = new StringBuilder();
    private final StringBuilder reasoning = new StringBuilder();
    private final List<ToolCall> toolCalls = new ArrayList<>();
    private List<ReplyPart> parts = new ArrayList<>();
    private Place place;
    private int from;
    private int ink;
    private int at;
    private boolean afterMarker;
    private boolean ended;
    private boolean valueOpen;
    private boolean inString;
    private boolean escaped;

    /// @param held whether the text was held to the form of calls, see [#held]
    private MarkupReader(Markup markup, CallReader calls, boolean reasoning, boolean afterMarker, boolean held) {
        this.markup = markup;
        inReasoning = held ? markup.thoughts() : markup.inReasoning();
        protectsStrings = held ? markup.hasStrings() : markup.protectsStrings();
        inCall = markup.inCall();
        inValue = markup.inValue();
        this.calls = calls;
        this.afterMarker = afterMarker;
        place = reasoning ? Place.REASONING : Place.CONTENT;
    }

    /// A reader for the answer to a conversation.
    ///
    /// @param thinks whether the format has reasoning
    /// @param opened whether the prompt has opened it already
    /// @param history the conversation so far: ids of calls go on from there
    /// @param tools the tools that may be called, a JSON array as text; without any nothing is a call
    public static ReplyReader of(
            boolean thinks, boolean opened, CallForm form, List<ChatMessage> history, @Nullable String tools) {
        if (!thinks && form == CallForm.NONE) {
            return ReplyReader.plain();
        }
        return new MarkupReader(
                Markup.of(thinks, form), CallReader.of(form, ToolSchemas.of(tools), history), opened, thinks, false);
    }

    /// A reader for a text whose calls were held to their form: reasoning ends where it says so, and whatever a JSON string of
    /// the arguments holds is that string, since no call can have been left open. Instead of this one, which has read nothing.
    public ReplyReader held() {
        return new MarkupReader(markup, calls, place == Place.REASONING, afterMarker, true);
    }

    @Override
    public List<ReplyPart> feed(String delta) {
        if (ended) {
            throw new IllegalStateException("reply: expected no text after the end, got some");
        }
        buffer.append(delta);
        return scan();
    }

    @Override
    public List<ReplyPart> end() {
        if (ended) {
            return List.of();
        }
        ended = true;
        return scan();
    }

    @Override
    public Reply reply() {
        return new Reply(content.toString(), reasoning.isEmpty() ? null : reasoning.toString(), toolCalls);
    }

    private List<ReplyPart> scan() {
        boolean more = true;
        while (more) {
            more = place == Place.CALL ? scanCall() : scanText();
        }
        buffer.delete(0, from);
        at -= from;
        ink = Math.max(0, ink - from);
        from = 0;
        List<ReplyPart> found = List.copyOf(parts);
        parts = new ArrayList<>();
        return found;
    }

    /// Reads on to the next marker.
    ///
    /// @return whether there was one
    private boolean scanText() {
        List<Marker> counting = place == Place.CONTENT ? markup.markers() : inReasoning;
        while (at < buffer.length()) {
            char c = buffer.charAt(at);
            Marker marker = c == '<' ? Markup.at(buffer, at, counting) : null;
            if (marker != null) {
                if (isWhole(marker)) {
                    release(ink);
                    from = at + marker.length();
                    at = from;
                    enter(marker);
                    return true;
                }
                if (!ended) {
                    break;
                }
            }
            if (!ended && Character.isHighSurrogate(c) && at + 1 == buffer.length()) {
                break;
            }
            at++;
            ink = Blank.is(c) ? ink : at;
        }
        release(ended ? buffer.length() : ink);
        return false;
    }

    private boolean isWhole(Marker marker) {
        return at + marker.length() <= buffer.length();
    }

    private void enter(Marker marker) {
        place = switch (marker.kind()) {
            case THINK -> Place.REASONING;
            case CALL -> Place.CALL;
            case END_THINK, SECTION, END_CALL, INNER, VALUE, END_VALUE -> Place.CONTENT;
        };
        afterMarker = true;
        valueOpen = false;
        inString = false;
        escaped = false;
    }

    /// Gives out the text up to there.
    private void release(int end) {
        if (end > from) {
            emit(buffer.substring(from, end));
            from = end;
        }
    }

    private void emit(String text) {
        String shown = afterMarker ? Blank.stripLeft(text) : text;
        if (shown.isEmpty()) {
            return;
        }
        StringBuilder all = place == Place.REASONING ? reasoning : content;
        shown = afterMarker && !all.isEmpty() ? "\n" + shown : shown;
        afterMarker = false;
        all.append(shown);
        parts.add(place == Place.REASONING ? new ReplyPart.Reasoning(shown) : new ReplyPart.Content(shown));
    }

    /// Reads on to the end of the call.
    ///
    /// @return whether it was reached
    private boolean scanCall() {
        while (at < buffer.length()) {
            char c = buffer.charAt(at);
            if (protectsStrings && isInString(c)) {
                at++;
                continue;
            }
            Marker marker = c == '<' ? Markup.at(buffer, at, valueOpen ? inValue : inCall) : null;
            if (marker == null) {
                at++;
                continue;
            }
            if (!isWhole(marker)) {
                if (!ended) {
                    return false;
                }
                at++;
                continue;
            }
            switch (marker.kind()) {
                case CALL, SECTION -> {
                    finishCall(at, true);
                    return true;
                }
                case END_CALL -> {
                    int end = at;
                    at += marker.length();
                    finishCall(end, true);
                    return true;
                }
                case THINK, END_THINK, INNER, VALUE, END_VALUE -> {
                    valueOpen = marker.kind() == Marker.Kind.VALUE;
                    at += marker.length();
                }
            }
        }
        if (ended) {
            finishCall(at, false);
        }
        return ended;
    }

    /// Whether this character belongs to a JSON string, its quotes included.
    private boolean isInString(char c) {
        if (!inString) {
            inString = c == '"';
            return inString;
        }
        if (escaped) {
            escaped = false;
        } else if (c == '\\') {
            escaped = true;
        } else {
            inString = c != '"';
        }
        return true;
    }

    /// @param whole whether markup ended it, and not the text
    private void finishCall(int end, boolean whole) {
        String text = buffer.substring(from, end);
        from = at;
        ink = at;
        place = Place.CONTENT;
        ToolCall call = calls.read(text, whole);
        if (call == null) {
            emitWithoutMarkup(text);
        } else {
            toolCalls.add(call);
            parts.add(new ReplyPart.Call(call));
        }
        afterMarker = true;
    }

    private void emitWithoutMarkup(String text) {
        int piece = 0;
        for (int i = 0; i < text.length(); ) {
            Marker marker = text.charAt(i) == '<' ? Markup.at(text, i, markup.markers()) : null;
            if (marker == null || i + marker.length() > text.length()) {
                i++;
                continue;
            }
            emitPiece(text.substring(piece, i));
            i += marker.length();
            piece = i;
        }
        emitPiece(text.substring(piece));
    }

    private void emitPiece(String text) {
        afterMarker = true;
        emit(Blank.strip(text));
    }
}

package millrace.engine.tokenizer;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;

/// Reads a completion that was held to a form: reasoning, if it begins so, up to the first `</think>`, and the document behind it
/// as it stands, whatever is in its strings.
public final class DocumentReader implements ReplyReader {
    private final StringBuilder buffer = new StringBuilder();
    private final StringBuilder reasoning = new StringBuilder();
    private final StringBuilder content = new StringBuilder();
    private Reasoning expected;
    private boolean begun;

    private DocumentReader(Reasoning expected) {
        this.expected = expected;
    }

    /// @param reasoning what the completion begins with
    public static ReplyReader of(Reasoning reasoning) {
        return new DocumentReader(reasoning);
    }

    @Override
    public List<ReplyPart> feed(String delta) {
        buffer.append(delta);
        List<ReplyPart> parts = new ArrayList<>();
        if (expected == Reasoning.POSSIBLE) {
            decide();
        }
        if (expected == Reasoning.OPEN) {
            reason(parts);
        }
        if (expected == Reasoning.NONE) {
            document(parts);
        }
        return parts;
    }

    /// Whether the text begins with the marker, as soon as that is certain.
    private void decide() {
        int at = 0;
        while (at < buffer.length() && isBlank(buffer.charAt(at))) {
            at++;
        }
        String ink = buffer.substring(at);
        if (ink.startsWith(Reasoning.OPENING)) {
            buffer.delete(0, at + Reasoning.OPENING.length());
            expected = Reasoning.OPEN;
        } else if (!Reasoning.OPENING.startsWith(ink)) {
            expected = Reasoning.NONE;
        }
    }

    private void reason(List<ReplyPart> parts) {
        int end = buffer.indexOf(Reasoning.CLOSING);
        int certain = end >= 0 ? end : buffer.length();
        if (end < 0) {
            for (int held = Reasoning.CLOSING.length() - 1; held > 0; held--) {
                if (buffer.length() >= held && Reasoning.CLOSING.startsWith(buffer.substring(buffer.length() - held))) {
                    certain = buffer.length() - held;
                    break;
                }
            }
        }
        // White space around the reasoning is not part of it; inside it is told with what follows.
        int ink = certain;
        while (ink > 0 && isBlank(buffer.charAt(ink - 1))) {
            ink--;
        }
        tell(buffer.substring(0, ink), parts);
        buffer.delete(0, end >= 0 ? end + Reasoning.CLOSING.length() : ink);
        if (end >= 0) {
            expected = Reasoning.NONE;
            begun = false;
        }
    }

    private void tell(String text, List<ReplyPart> parts) {
        String shown = begun ? text : strippedLeft(text);
        if (!shown.isEmpty()) {
            begun = true;
            reasoning.append(shown);
            parts.add(new ReplyPart.Reasoning(shown));
        }
    }

    private void document(List<ReplyPart> parts) {
        String shown = begun ? buffer.toString() : strippedLeft(buffer.toString());
        buffer.setLength(0);
        if (!shown.isEmpty()) {
            begun = true;
            content.append(shown);
            parts.add(new ReplyPart.Content(shown));
        }
    }

    private static String strippedLeft(String text) {
        int at = 0;
        while (at < text.length() && isBlank(text.charAt(at))) {
            at++;
        }
        return text.substring(at);
    }

    private static boolean isBlank(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
    }

    /// A text that was cut in the reasoning has no document.
    @Override
    public List<ReplyPart> end() {
        List<ReplyPart> parts = new ArrayList<>();
        if (expected == Reasoning.OPEN) {
            tell(buffer.toString().stripTrailing(), parts);
        } else if (expected == Reasoning.POSSIBLE) {
            document(parts);
        }
        buffer.setLength(0);
        return parts;
    }

    @Override
    public Reply reply() {
        return new Reply(content.toString(), reasoning.isEmpty() ? null : reasoning.toString(), List.of());
    }
}

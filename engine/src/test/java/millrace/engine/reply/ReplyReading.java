package millrace.engine.reply;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;

/// Reads a text in every way it can come, and asserts that it means the same.
public final class ReplyReading {
    private ReplyReading() {}

    /// The reply to a text, the same whether it comes at once, character by character, or cut in two anywhere.
    public static Reply of(Supplier<ReplyReader> readers, String text) {
        Reply whole = readers.get().read(text);
        assertThat(inPieces(readers.get(), characters(text))).as("one character at a time: " + text).isEqualTo(whole);
        int[] points = text.codePoints().toArray();
        for (int cut = 0; cut <= points.length; cut++) {
            String first = new String(points, 0, cut);
            String second = new String(points, cut, points.length - cut);
            assertThat(inPieces(readers.get(), List.of(first, second))).as("cut: " + first + "✂" + second).isEqualTo(whole);
        }
        return whole;
    }

    private static List<String> characters(String text) {
        return text.codePoints().mapToObj(Character::toString).toList();
    }

    /// The reply as its parts tell it, which is the same as the reader's own.
    public static Reply inPieces(ReplyReader reader, List<String> pieces) {
        StringBuilder content = new StringBuilder();
        StringBuilder reasoning = new StringBuilder();
        List<ToolCall> calls = new ArrayList<>();
        List<ReplyPart> parts = new ArrayList<>();
        pieces.forEach(piece -> parts.addAll(reader.feed(piece)));
        parts.addAll(reader.end());
        assertThat(reader.end()).isEmpty();
        for (ReplyPart part : parts) {
            switch (part) {
                case ReplyPart.Content(String text) -> content.append(notEmpty(text));
                case ReplyPart.Reasoning(String text) -> reasoning.append(notEmpty(text));
                case ReplyPart.Call(ToolCall call) -> calls.add(call);
            }
        }
        Reply told = new Reply(content.toString(), reasoning.isEmpty() ? null : reasoning.toString(), calls);
        assertThat(told).as("what the parts tell").isEqualTo(reader.finish());
        return told;
    }

    private static String notEmpty(String text) {
        assertThat(text).isNotEmpty();
        assertThat(Character.isHighSurrogate(text.charAt(text.length() - 1))).isFalse();
        return text;
    }
}

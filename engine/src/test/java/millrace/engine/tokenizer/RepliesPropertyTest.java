package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.Reply;
import millrace.engine.ToolCall;
import millrace.engine.reply.ReplyReading;
import org.junit.jupiter.api.Test;

/// Markup in any order, cut anywhere: never an exception, never markup in what the user sees, always the same reply, and
/// nothing lost that is not markup or white space around it.
class RepliesPropertyTest {
    private static final int ROUNDS = Integer.getInteger("millrace.replies.rounds", 1_500);
    private static final List<String> BITS = List.of(
            "get_weather", "functions.get_time:0", "{\"city\":\"Paris\"}", "{\"name\":\"get_time\",\"arguments\":{}}", "{", "}", "\"", "\\",
            "<", ">", "</", "<|", "<think", "_begin|>", " ", "\n", "\t\n ", "text", "日本", "😀", "3", "[1,2]", "null", "call_1", "city");

    @Test
    void anythingIsReadTheSameWayInAnyPieces() {
        for (Map.Entry<String, List<String>> format : RepliesTest.markup().entrySet()) {
            for (int round = 0; round < ROUNDS; round++) {
                check(format.getKey(), format.getValue(), new SplittableRandom(round));
            }
        }
    }

    private static void check(String id, List<String> markers, SplittableRandom random) {
        var text = new StringBuilder();
        for (int i = 0, n = random.nextInt(14); i < n; i++) {
            List<String> from = random.nextInt(5) < 2 ? BITS : markers;
            text.append(from.get(random.nextInt(from.size())));
        }
        Boolean thinking = random.nextBoolean() ? null : false;
        var options = new ChatOptions(random.nextInt(4) == 0 ? null : RepliesTest.TOOLS, thinking, null, true);
        var history = List.of(ChatMessage.of("user", "Hi"));
        ChatFormat format = ChatFormats.byId(id);
        Reply whole = format.replies(history, options).read(text.toString());
        String seen = id + ": " + text;
        assertThat(ReplyReading.inPieces(format.replies(history, options), pieces(text.toString(), random))).as(seen).isEqualTo(whole);
        for (String marker : markers) {
            assertThat(whole.content()).as(seen).doesNotContain(marker);
        }
        for (ToolCall call : whole.toolCalls()) {
            assertThat(Conversation.arguments(call).isObject()).as(seen).isTrue();
            assertThat(options.tools()).as(seen).isNotNull();
        }
        assertThat(whole.toolCalls().stream().map(ToolCall::id)).as(seen).doesNotHaveDuplicates();
        if (whole.toolCalls().isEmpty()) {
            long ink = ink(bare(whole.content(), markers)) + ink(bare(whole.reasoning() == null ? "" : whole.reasoning(), markers));
            assertThat(ink).as(seen).isEqualTo(ink(bare(text.toString(), markers)));
        }
    }

    private static String bare(String text, List<String> markers) {
        String bare = text;
        for (String marker : markers) {
            bare = bare.replace(marker, "\n");
        }
        return bare;
    }

    private static long ink(String text) {
        return text.chars().filter(c -> !Character.isWhitespace(c)).count();
    }

    private static List<String> pieces(String text, SplittableRandom random) {
        List<String> pieces = new ArrayList<>();
        int[] points = text.codePoints().toArray();
        for (int from = 0; from < points.length; ) {
            int length = Math.min(points.length - from, random.nextInt(6));
            pieces.add(new String(points, from, length));
            from += length;
        }
        return pieces;
    }
}

package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class DocumentReaderTest {
    private static final String STRING = "{\"a\":\"<think>x</think><tool_call>f</tool_call>\"}";

    private static Reply read(Reasoning reasoning, String text, SplittableRandom random) {
        ReplyReader reader = DocumentReader.of(reasoning);
        StringBuilder content = new StringBuilder();
        StringBuilder thought = new StringBuilder();
        for (int at = 0; at < text.length(); ) {
            int to = Math.min(text.length(), at + 1 + random.nextInt(9));
            collect(reader.feed(text.substring(at, to)), content, thought);
            at = to;
        }
        collect(reader.end(), content, thought);
        Reply reply = reader.reply();
        assertThat(content.toString()).isEqualTo(reply.content());
        assertThat(thought.toString()).isEqualTo(reply.reasoning() == null ? "" : reply.reasoning());
        return reply;
    }

    private static void collect(List<ReplyPart> parts, StringBuilder content, StringBuilder thought) {
        for (ReplyPart part : parts) {
            switch (part) {
                case ReplyPart.Content(String text) -> content.append(text);
                case ReplyPart.Reasoning(String text) -> thought.append(text);
                case ReplyPart.Call call -> throw new AssertionError("a call");
            }
        }
    }

    @Test
    void aDocumentIsTakenAsItStandsInAnyPieces() {
        for (int seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            assertThat(read(Reasoning.NONE, "\n " + STRING, random)).isEqualTo(new Reply(STRING, null, List.of()));
            assertThat(read(Reasoning.OPEN, "\nwhy < 3\n</th ink \n</think>\n\n" + STRING, random))
                    .isEqualTo(new Reply(STRING, "why < 3\n</th ink", List.of()));
            assertThat(read(Reasoning.POSSIBLE, "\n<think>\nso\n</think>\n" + STRING, random))
                    .isEqualTo(new Reply(STRING, "so", List.of()));
            assertThat(read(Reasoning.POSSIBLE, STRING, random)).isEqualTo(new Reply(STRING, null, List.of()));
            assertThat(read(Reasoning.OPEN, "cut in the middle </thi", random))
                    .isEqualTo(new Reply("", "cut in the middle </thi", List.of()));
        }
    }

    /// What the reader and the guide are told is what the prompt ends with.
    @ParameterizedTest
    @ValueSource(strings = {"glm-plain", "glm-4.5", "glm-4.7", "glm-5", "kimi-plain", "kimi-k2", "kimi-k2-thinking", "kimi-k2.5", "kimi-k2.7",
        "qwen3", "qwen2.5", "chatml", "llama3", "deepseek-v3"})
    void reasoningIsOpenWhereThePromptOpensIt(String id) {
        ChatFormat format = java.util.Objects.requireNonNull(ChatFormats.byId(id));
        Tokenizer tokenizer = Samples.withMarkers(format.markers());
        for (Boolean thinking : new Boolean[] {null, true, false}) {
            ChatOptions options = new ChatOptions(null, thinking, null, true);
            String prompt = format.render(List.of(ChatMessage.of("user", "Hi")), options, tokenizer).text().stripTrailing();
            Reasoning reasoning = format.reasoning(options);
            assertThat(reasoning == Reasoning.OPEN).as("%s", thinking).isEqualTo(prompt.endsWith("<think>"));
            if (prompt.endsWith("</think>")) {
                assertThat(reasoning).isEqualTo(Reasoning.NONE);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"glm-4.5, POSSIBLE", "kimi-k2-thinking, POSSIBLE", "qwen3, POSSIBLE", "glm-5, OPEN", "kimi-k2.7, OPEN", "llama3, NONE", "kimi-k2, NONE"})
    void formatsSayWhetherAnswersBeginWithReasoning(String id, Reasoning reasoning) {
        ChatFormat format = java.util.Objects.requireNonNull(ChatFormats.byId(id));
        assertThat(format.reasoning(ChatOptions.DEFAULT)).isEqualTo(reasoning);
        assertThat(format.reasoning(new ChatOptions(null, null, null, false))).isEqualTo(Reasoning.NONE);
    }
}

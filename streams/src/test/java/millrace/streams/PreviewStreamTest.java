package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import millrace.engine.PreparedPrompt;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.Prompt;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class PreviewStreamTest {
    /// Letters are content, capitals reasoning, `!` a call, `_` may be markup and is held back, `#` fails.
    private static final class Reader implements ReplyReader {
        private String held = "";

        @Override
        public List<ReplyPart> feed(String delta) {
            if (delta.contains("#")) {
                throw new IllegalStateException("a reader with an error");
            }
            String text = held + delta;
            int keep = text.endsWith("_") ? 1 : 0;
            held = text.substring(text.length() - keep);
            String sure = text.substring(0, text.length() - keep);
            if (sure.isEmpty()) {
                return List.of();
            }
            return List.of(switch (sure) {
                case "!" -> new ReplyPart.Call(new ToolCall("c", "f", "{}"));
                default -> Character.isUpperCase(sure.charAt(0)) ? new ReplyPart.Reasoning(sure) : new ReplyPart.Content(sure);
            });
        }

        @Override
        public List<ReplyPart> end() {
            return held.isEmpty() ? List.of() : List.of(new ReplyPart.Content(held));
        }

        @Override
        public Reply reply() {
            return new Reply("", null, List.of());
        }
    }

    private static PreviewStream stream() {
        ScriptedEngine engine = new ScriptedEngine();
        engine.replies = prompt -> new Reader();
        Prompt prompt = Prompt.newBuilder().setRequestId("r").setTenant("t").setPrompt("q").setPreview(true).build();
        Source source = new Source("llm.prompts", 1, 7, 0, null, new byte[0], new RecordHeaders());
        PreparedPrompt prepared = new PreparedPrompt(
                millrace.engine.GenerationRequest.greedy("r", new millrace.engine.PromptInput.Text("q"), 8), "q", new int[] {1});
        return new PreviewStream(new Previews.Shown(source, prompt, prepared, false), engine, 42);
    }

    private static List<String> lines(List<Delta> deltas) {
        return deltas.stream().map(d -> d.getSeq() + " " + d.getKind() + " " + d.getText() + " " + d.getTokens()).toList();
    }

    private static List<Delta> feed(PreviewStream stream, String text, int tokens) {
        stream.append(text, tokens, 1_000 + tokens);
        return stream.deltas();
    }

    @Test
    void numbersWhatTheTextMeans() {
        PreviewStream stream = stream();
        assertThat(lines(feed(stream, "Think", 1))).containsExactly("0 REASONING Think 1");
        assertThat(feed(stream, "_", 2)).as("held back").isEmpty();
        stream.append("x", 3, 1_003);
        stream.append("y", 4, 1_004);
        List<Delta> together = stream.deltas();
        assertThat(lines(together)).as("what waits together is one delta, at the time of its last token").containsExactly("1 CONTENT _xy 4");
        assertThat(together.getFirst().getSampledUs()).isEqualTo(1_004);
        Delta call = feed(stream, "!", 5).getFirst();
        assertThat(call.getToolCall().getName()).isEqualTo("f");
        assertThat(call.getAttempt()).isEqualTo(42);
        assertThat(call.getTenant()).isEqualTo("t");
        feed(stream, "_", 6);
        assertThat(lines(stream.end(0, 7))).containsExactly("3 CONTENT _ 6", "4 END  7");
    }

    @Test
    void leavesAHoleWhereTextWasLost() {
        PreviewStream stream = stream();
        feed(stream, "a", 1);
        stream.append("b", 2, 1_002);
        assertThat(lines(stream.end(3, 9))).containsExactly("1 CONTENT b 2", "5 END  9");
    }

    @Test
    void beginsAgainInTheSameNumbers() {
        PreviewStream stream = stream();
        feed(stream, "a_", 2);
        assertThat(lines(List.of(stream.restart(2, 5)))).containsExactly("3 RESTART  0");
        assertThat(lines(feed(stream, "x", 1))).as("with a reader of its own").containsExactly("4 CONTENT x 1");
    }

    @Test
    void cutsLongTextsBetweenCodePoints() {
        PreviewStream stream = stream();
        String text = "a" + "\uD83D\uDE80".repeat(PreviewStream.MAX_CHARS);
        List<Delta> deltas = feed(stream, text, 1);
        assertThat(deltas).hasSize(3).allSatisfy(d -> {
            assertThat(d.getText().length()).isLessThanOrEqualTo(PreviewStream.MAX_CHARS);
            assertThat(Character.isHighSurrogate(d.getText().charAt(d.getText().length() - 1))).isFalse();
        });
        assertThat(String.join("", deltas.stream().map(Delta::getText).toList())).isEqualTo(text);
        assertThat(deltas).extracting(Delta::getSeq).containsExactly(0L, 1L, 2L);
    }

    @Test
    void endsQuietlyWhereItsReaderFails() {
        PreviewStream stream = stream();
        feed(stream, "a", 1);
        assertThat(feed(stream, "#", 2)).isEmpty();
        assertThat(feed(stream, "b", 3)).isEmpty();
        List<Delta> end = stream.end(0, 3);
        assertThat(end).extracting(Delta::getKind).containsExactly(DeltaKind.END);
        assertThat(end.getFirst().getSeq()).as("a hole").isEqualTo(2);
    }
}

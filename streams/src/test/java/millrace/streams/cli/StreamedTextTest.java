package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.util.List;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Reply;
import millrace.schemas.Timings;
import millrace.schemas.ToolCall;
import millrace.schemas.Usage;
import org.junit.jupiter.api.Test;

class StreamedTextTest {
    private final StringWriter written = new StringWriter();
    private final StreamedText text = new StreamedText(new PrintWriter(written));

    private static Delta delta(DeltaKind kind, String text) {
        ToolCall call = kind == DeltaKind.TOOL_CALL ? new ToolCall("c", "weather", "{\"city\":\"Paris\"}") : null;
        return new Delta("r", null, 1L, 0L, kind, text, call, 1, 1L);
    }

    private static Completion completion(String raw, String content) {
        return Completion.newBuilder().setRequestId("r").setModel("m").setModelDigest("d").setText(raw).setFinishReason(FinishReason.stop)
                .setUsage(new Usage(1, 1, 0)).setTimings(new Timings(1L, 1L, 1L)).setSeed(1)
                .setAudit(new AuditPosition("o", 0, 0L, new Hash(new byte[32]))).setSalt(ByteBuffer.allocate(32))
                .setReply(content == null ? null : new Reply(content, null, List.of())).build();
    }

    private String shown() {
        return written.toString().replace(System.lineSeparator(), "\n");
    }

    @Test
    void showsEachKindOnLinesOfItsOwn() {
        text.onDelta(delta(DeltaKind.REASONING, "Hm"));
        text.onDelta(delta(DeltaKind.REASONING, "."));
        text.onDelta(delta(DeltaKind.CONTENT, "Pa"));
        text.onDelta(delta(DeltaKind.CONTENT, "ris"));
        text.onDelta(delta(DeltaKind.TOOL_CALL, ""));
        text.onDelta(delta(DeltaKind.END, ""));
        assertThat(text.showed(completion("<think>Hm.</think>Paris", "Paris"))).isTrue();
        assertThat(shown()).isEqualTo("Hm.\nParis\nweather({\"city\":\"Paris\"})\n");
    }

    @Test
    void knowsWhereTheCompletionMustBeShownAsWell() {
        text.onDelta(delta(DeltaKind.CONTENT, "Par"));
        assertThat(text.showed(completion("Paris", null))).as("cut short").isFalse();
        StreamedText holed = new StreamedText(new PrintWriter(new StringWriter()));
        holed.onDelta(delta(DeltaKind.CONTENT, "Paris"));
        holed.onGap(1);
        assertThat(holed.showed(completion("Paris", null))).as("with a hole").isFalse();
        StreamedText none = new StreamedText(new PrintWriter(new StringWriter()));
        assertThat(none.showed(completion("Paris", null))).as("without previews").isFalse();
    }

    @Test
    void beginsAgain() {
        text.onDelta(delta(DeltaKind.CONTENT, "Lon"));
        text.onRestart();
        text.onDelta(delta(DeltaKind.CONTENT, "Paris"));
        assertThat(text.showed(completion("Paris", null))).isTrue();
        assertThat(shown()).isEqualTo("Lon\n[it begins again; what stands above is void]\nParis\n");
    }
}

package millrace.streams.gateway;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.node.ObjectNode;
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

class ChoiceStreamTest {
    private final ChoiceStream stream = new ChoiceStream(false);
    private final StringBuilder sent = new StringBuilder();

    private void hear(String text) {
        send(stream.preview(Delta.newBuilder().setRequestId("r").setAttempt(1).setSeq(0).setKind(DeltaKind.CONTENT).setText(text)
                .setTokens(1).setSampledUs(0).build()));
    }

    private void send(List<ObjectNode> deltas) {
        deltas.forEach(delta -> sent.append(delta.path("content").asText()));
    }

    private static Completion attested(String content, ToolCall... calls) {
        return Completion.newBuilder().setRequestId("r").setModel("m").setModelDigest("sha256:" + "0".repeat(64)).setText("raw")
                .setFinishReason(FinishReason.stop).setUsage(new Usage(1, 1, 0)).setTimings(new Timings(0L, 0L, 0L)).setSeed(0)
                .setAudit(new AuditPosition("o", 0, 0L, new Hash(new byte[32]))).setSalt(ByteBuffer.allocate(32))
                .setReply(new Reply(content, null, List.of(calls))).build();
    }

    @Test
    void aSecondAttemptSaysNothingTwice() {
        hear("Once ");
        hear("upon ");
        stream.restart();
        hear("Once upon a ");
        hear("time");
        assertThat(sent.toString()).isEqualTo("Once upon a time");
        assertThat(stream.agrees(attested("Once upon a time."))).isTrue();
        send(stream.rest(attested("Once upon a time.")));
        assertThat(sent.toString()).isEqualTo("Once upon a time.");
    }

    @Test
    void whatPreviewsLostComesFromTheCompletion() {
        hear("Once ");
        stream.gap();
        hear("a time");
        assertThat(sent.toString()).isEqualTo("Once ");
        send(stream.rest(attested("Once upon a time")));
        assertThat(sent.toString()).isEqualTo("Once upon a time");
    }

    @Test
    void anAttemptThatSaysSomethingElseIsNotSentAndTheCompletionDecides() {
        hear("Once ");
        stream.restart();
        hear("Twice upon");
        assertThat(sent.toString()).isEqualTo("Once ");
        assertThat(stream.agrees(attested("Once upon"))).isTrue();
        assertThat(stream.agrees(attested("Twice upon"))).as("what was sent cannot be taken back").isFalse();
    }

    @Test
    void callsAreSentOnce() {
        ToolCall call = new ToolCall("1", "f", "{}");
        Delta delta = Delta.newBuilder().setRequestId("r").setAttempt(1).setSeq(0).setKind(DeltaKind.TOOL_CALL).setToolCall(call)
                .setTokens(1).setSampledUs(0).build();
        assertThat(stream.preview(delta)).hasSize(1);
        stream.restart();
        assertThat(stream.preview(delta)).isEmpty();
        assertThat(stream.rest(attested("", call))).isEmpty();
        assertThat(stream.rest(attested("", call, new ToolCall("2", "g", "{}")))).singleElement()
                .satisfies(more -> assertThat(more.at("/tool_calls/0/index").asInt()).isEqualTo(1));
        assertThat(stream.agrees(attested("", new ToolCall("1", "other", "{}")))).isFalse();
    }
}

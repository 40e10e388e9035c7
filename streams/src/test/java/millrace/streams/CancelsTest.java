package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.FinishReason;
import millrace.streams.simulation.LogCapture;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Cancellations through the whole topology; over crashes see InferenceProcessorTest and the simulation.
class CancelsTest {
    @TempDir
    private Path directory;

    private ServiceDriver service;

    private void start(Map<String, String> settings) {
        service = new ServiceDriver(directory, settings);
    }

    private void start() {
        start(Map.of());
    }

    @AfterEach
    void theLogVerifies() {
        service.verify();
        service.close();
    }

    private double cancels(String result) {
        return service.counter("millrace.cancels", "result", result);
    }

    @Test
    void endsAPromptInFlightWithWhatItHasSoFar() {
        start();
        service.send(prompt("r-1", "a long story").setTenant("acme").build());
        service.cancel("acme", "r-1");
        assertThat(service.completions).as("the engine has not stopped yet").isEmpty();
        service.engine.stop("r-1", "Once upon");
        service.turn();

        Completion completion = service.completion(0);
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.cancelled);
        assertThat(completion.getText()).isEqualTo("Once upon");
        assertThat(completion.getUsage().getCompletionTokens()).isEqualTo(1);
        assertThat(completion.getErrorCode()).isNull();
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.INFERENCE);
        assertThat(leaf.getFinish()).isEqualTo(FinishReason.cancelled);
        assertThat(leaf.getVerdict()).isEqualTo(AuditVerdict.OK);
        assertThat(service.pending()).isZero();
        assertThat(cancels("cancelled")).isEqualTo(1);
        assertThat(service.counter("millrace.completions", "result", "cancelled", "code", "")).isEqualTo(1);
    }

    @Test
    void givesTheAnswerWhereItWasFinishedFirst() {
        start();
        service.send(prompt("r-1", "q").build());
        service.cancel(null, "r-1");
        service.answerAll();
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.stop);
        service.pass(120_000);
        assertThat(service.completions).hasSize(1);
    }

    @Test
    void endsAPromptThatWaitsForItsMicroBatchWithoutTheEngine() {
        start(Map.of("batch.max.wait.ms", "1000", "batch.max.size", "8"));
        service.send(prompt("r-1", "first").build());
        service.send(prompt("r-2", "second").build());
        service.cancel(null, "r-1");
        assertThat(service.completion(0).getRequestId()).isEqualTo("r-1");
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.cancelled);
        assertThat(service.completion(0).getUsage().getPromptTokens()).isEqualTo("first".length());
        service.pass(1_000);
        assertThat(service.engine.submittedIds()).containsExactly("r-2");
        service.answerAll();
        assertThat(service.completions).hasSize(2);
    }

    @Test
    void endsAPromptThatComesAfterItsCancellation() {
        start();
        service.cancel("acme", "r-1");
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-1", "q").setTenant("acme").build());
        assertThat(service.engine.submitted).as("the other tenant's").hasSize(1);
        assertThat(service.completion(0).getTenant()).isEqualTo("acme");
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.cancelled);
        assertThat(service.completion(0).getText()).isEmpty();
        assertThat(cancels("early")).isEqualTo(1);

        service.send(prompt("r-1", "q").setTenant("acme").build());
        assertThat(service.completions).as("it is answered, and answered once").hasSize(1);
        service.answerAll();
        assertThat(service.completion(1).getFinishReason()).isEqualTo(FinishReason.stop);
    }

    @Test
    void forgetsACancellationWithItsPromptsEndSoThatTheIdCanBeUsedAgain() {
        start(Map.of("intake.dedup.retention.ms", "60000"));
        service.send(prompt("r-1", "q").build());
        service.pass(50_000);
        service.cancel(null, "r-1");
        service.engine.stop("r-1", "");
        service.turn();
        service.pass(20_000);
        service.send(prompt("r-1", "again").build());
        service.answerAll();
        assertThat(service.completion(1).getFinishReason()).isEqualTo(FinishReason.stop);
    }

    @Test
    void doesNothingForWhatHasEndedOrIsAnothers() {
        start();
        service.send(prompt("r-1", "q").setTenant("acme").build());
        for (String tenant : new String[] {null, "acme-eu", ""}) {
            service.cancel(tenant, "r-1");
        }
        assertThat(service.engine.submitted.getFirst().cancelled).isFalse();
        service.answerAll();
        service.cancel("acme", "r-1");
        assertThat(service.completions).hasSize(1);
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.stop);
        assertThat(cancels("late")).isEqualTo(1);
        assertThat(cancels("early")).isEqualTo(3);
    }

    @Test
    void passesOverWhatIsNoCancellation() {
        start();
        service.send(prompt("r-1", "q").setTenant("acme").build());
        RecordHeaders other = new RecordHeaders();
        other.add("tenant", "mallory".getBytes(StandardCharsets.UTF_8));
        service.cancelRaw(service.encode(Cancellation.of("acme", "r-1", 0)), other);
        Control.Builder order = Control.newBuilder().setRequestId("r-1").setTenant("acme").setIssuedMs(0);
        for (ControlKind kind : List.of(ControlKind.ERASE_TENANT, ControlKind.NEW_EPOCH, ControlKind.UNKNOWN)) {
            service.cancelRaw(service.encode(order.setKind(kind).build()), new RecordHeaders());
        }
        byte[] good = service.encode(Cancellation.of("acme", "r-1", 0));
        byte[] unknown = good.clone();
        unknown[3] = 99;
        for (byte[] value : new byte[][] {null, {}, {0, 0}, {9, 9, 9, 9, 9, 9}, java.util.Arrays.copyOf(good, good.length - 3), unknown}) {
            service.cancelRaw(value, new RecordHeaders());
        }
        assertThat(cancels("refused")).isEqualTo(4);
        assertThat(cancels("unreadable")).isEqualTo(6);
        assertThat(service.engine.submitted.getFirst().cancelled).isFalse();
        service.answerAll();
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.stop);
        assertThat(service.leavesOf(AuditEvent.RETRACT)).as("orders go elsewhere").isEmpty();
    }

    @Test
    void answersARepeatedCancellationOnce() {
        start();
        service.send(prompt("r-1", "q").build());
        service.cancel(null, "r-1");
        service.cancel(null, "r-1");
        service.engine.stop("r-1", "");
        service.turn();
        service.cancel(null, "r-1");
        assertThat(service.completions).hasSize(1);
        assertThat(cancels("late")).isEqualTo(1);
    }

    @Test
    void saysNothingOfWhatTheEngineNoLongerTrusts() {
        start();
        service.send(prompt("r-1", "q").build());
        service.cancel(null, "r-1");
        service.engine.distrusted = result -> !result.text().isEmpty();
        service.engine.stop("r-1", "rubbish");
        service.turn();
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.cancelled);
        assertThat(service.completion(0).getText()).isEmpty();
        assertThat(service.leaf(0).getVerdict()).isEqualTo(AuditVerdict.OK_RECOMPUTED);
    }

    @Test
    void refusesWhatCouldNotBeServedThoughItWasCancelled() {
        start();
        service.cancel(null, "r-1");
        service.send(prompt("r-1", "q").setModel("another").build());
        assertThat(service.completion(0).getErrorCode()).isEqualTo("MODEL_UNKNOWN");
    }

    /// Clients write the topic: none may fill the log, and none may be passed over for ever without a word.
    @Test
    void tellsAgainOfWhatItCannotReadAfterHalfAMinute() {
        start();
        try (LogCapture logs = new LogCapture()) {
            service.cancelRaw(new byte[] {1}, new RecordHeaders());
            service.cancelRaw(new byte[] {2}, new RecordHeaders());
            assertThat(warnings(logs)).isEqualTo(1);
            service.pass(30_000);
            service.cancelRaw(new byte[] {3}, new RecordHeaders());
            assertThat(warnings(logs)).isEqualTo(1);
        }
        assertThat(cancels("unreadable")).isEqualTo(3);
    }

    private static long warnings(LogCapture logs) {
        return logs.take().stream().filter(line -> line.startsWith("WARN cancellation ")).count();
    }
}

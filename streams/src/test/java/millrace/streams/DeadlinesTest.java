package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Deadlines wherever they pass, priorities, and what else a stream of prompts may bring: poison among them, and clocks
/// that jump. Deadlines that pass while the service is down: InferenceProcessorTest.
class DeadlinesTest {
    @TempDir
    private Path directory;

    private ServiceDriver service;

    private void start(Map<String, String> settings) {
        service = new ServiceDriver(directory, settings);
    }

    @AfterEach
    void theLogVerifies() {
        service.verify();
        service.close();
    }

    /// Produces a prompt that was written so long ago.
    private void sendWritten(Prompt prompt, long msAgo) {
        service.sendRaw(prompt.getRequestId().getBytes(StandardCharsets.UTF_8), service.encode(prompt), new RecordHeaders(),
                service.clock.millis() - msAgo);
    }

    private void isDeadline(Completion completion) {
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.deadline);
        assertThat(completion.getText()).isEmpty();
        assertThat(completion.getErrorCode()).isNull();
        assertThat(completion.getUsage().getPromptTokens()).isPositive();
        assertThat(completion.getUsage().getCompletionTokens()).isZero();
    }

    @Test
    void aDeadlineThatPassedWhileThePromptWaitedInKafkaIsAnsweredAsOne() {
        start(Map.of());
        sendWritten(prompt("r-1", "q").setDeadlineMs(service.clock.millis() - 1).build(), 10_000);
        isDeadline(service.completion(0));
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.INFERENCE);
        assertThat(leaf.getFinish()).isEqualTo(FinishReason.deadline);
        assertThat(leaf.getVerdict()).isEqualTo(AuditVerdict.OK);
        assertThat(service.engine.submitted).as("no time of the engine is spent on it").isEmpty();

        sendWritten(prompt("r-2", "q").setDeadlineMs(service.clock.millis() - 20_000).build(), 10_000);
        assertThat(service.completion(1).getErrorCode()).as("a mistake of who wrote it").isEqualTo("DEADLINE");
        sendWritten(prompt("r-1", "q").setDeadlineMs(service.clock.millis() - 1).build(), 10_000);
        assertThat(service.completions).as("it is answered, and answered once").hasSize(2);
    }

    @Test
    void aDeadlineThatPassesInTheMicroBatchIsAnsweredWithoutTheEngine() {
        start(Map.of("batch.max.wait.ms", "1000", "batch.max.size", "8"));
        service.send(prompt("r-1", "q").setDeadlineMs(service.clock.millis() + 500).build());
        service.send(prompt("r-2", "q").setDeadlineMs(service.clock.millis() + 5_000).build());
        service.pass(1_000);
        assertThat(service.engine.submittedIds()).containsExactly("r-2");
        isDeadline(service.completion(0));
        service.answerAll();
        assertThat(service.completions).hasSize(2);
    }

    @Test
    void deadlineAndPriorityGoToTheEngineThatOrdersByThem() {
        start(Map.of());
        long deadline = service.clock.millis() + 60_000;
        service.send(prompt("r-1", "q").setDeadlineMs(deadline).setPriority(-100).build());
        service.send(prompt("r-2", "q").setPriority(100).build());
        assertThat(service.engine.submitted).extracting(job -> job.prompt.request().priority()).containsExactly(-100, 100);
        assertThat(service.engine.submitted.getFirst().prompt.request().deadlineMs()).isEqualTo(deadline);
        service.send(prompt("r-3", "q").setPriority(101).build());
        assertThat(service.completion(0).getErrorCode()).isEqualTo("PARAM_RANGE");
        service.answerAll();
    }

    @Test
    void aDeadlineCountsByTheWallClockAlsoWhenThatWasSet() {
        start(Map.of());
        service.send(prompt("r-1", "q").setDeadlineMs(service.clock.millis() + 3_600_000).build());
        service.clock.advance(-7_200_000);
        service.send(prompt("r-2", "q").setDeadlineMs(service.clock.millis() + 3_600_000).build());
        service.clock.advance(14_400_000);
        service.turn();
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getFinishReason)
                .as("the engine ends what it has; nothing that was taken in is lost").containsExactly(FinishReason.stop, FinishReason.stop);
        sendWritten(prompt("r-3", "q").setDeadlineMs(service.clock.millis() - 1_000).build(), 14_400_000);
        isDeadline(service.completion(2));
    }

    @Test
    void idsStayKnownWhateverTheWallClockDoes() {
        start(Map.of("intake.dedup.retention.ms", "3600000"));
        long[] jumps = {0, -86_400_000, 43_200_000, 44_000_000, -10_000_000, -1};
        for (long jump : jumps) {
            service.clock.advance(jump);
            service.send(prompt("r-1", "q").build());
            service.cancel(null, "r-2");
        }
        service.answerAll();
        assertThat(service.completions).as("answered once").hasSize(1);
        service.send(prompt("r-2", "q").build());
        assertThat(service.completion(1).getFinishReason()).isEqualTo(FinishReason.cancelled);
    }

    @Test
    void aPoisonPillInEveryTenthRecordHoldsUpNothing() {
        start(Map.of());
        byte[] good = service.encode(prompt("r-x", "q").build());
        byte[] magic = good.clone();
        magic[0] = 7;
        byte[] cut = java.util.Arrays.copyOf(good, good.length - 2);
        byte[][] pills = {null, {}, {1, 2}, magic, cut};
        List<String> answered = IntStream.range(0, 200).filter(i -> i % 10 != 3).mapToObj(i -> "r-" + i).toList();
        for (int i = 0; i < 200; i++) {
            if (i % 10 == 3) {
                service.sendRaw("k".getBytes(StandardCharsets.UTF_8), pills[i / 10 % pills.length], new RecordHeaders());
                service.cancelRaw(pills[i / 10 % pills.length], new RecordHeaders());
            } else {
                service.send(prompt("r-" + i, "question " + i).build());
            }
            if (i % 7 == 0) {
                service.answerAll();
            }
        }
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactlyInAnyOrderElementsOf(answered);
        assertThat(service.readCompletions()).extracting(Completion::getFinishReason).containsOnly(FinishReason.stop);
        assertThat(service.deadLetters).hasSize(20);
        assertThat(service.leaves).as("one for each record").hasSize(200);
        assertThat(service.pending()).isZero();
    }
}

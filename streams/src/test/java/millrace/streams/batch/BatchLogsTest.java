package millrace.streams.batch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Timings;
import millrace.schemas.Usage;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What a batch writes down, and what it makes of it after a crash.
class BatchLogsTest {
    private static final long EXPIRES = 1_000_000;

    @TempDir
    private Path directory;

    private static InputLines.Line line(int number) {
        return new InputLines.Line(number, number * 10L, new byte[] {'x'});
    }

    private static Completion.Builder completion(String id) {
        return Completion.newBuilder().setRequestId(id).setModel("m").setModelDigest("sha256:" + "0".repeat(64)).setText("text")
                .setFinishReason(FinishReason.stop).setUsage(new Usage(1, 1, 0)).setTimings(new Timings(0L, 0L, 0L)).setSeed(0)
                .setAudit(new AuditPosition("o", 0, 0L, new Hash(new byte[32]))).setSalt(ByteBuffer.allocate(32));
    }

    private static Completion rejected(String id, String code, Long retryAfterMs) {
        return completion(id).setFinishReason(FinishReason.rejected).setErrorCode(code).setErrorMessage("no").setRetryAfterMs(retryAfterMs).build();
    }

    private static Manifest manifest() {
        return new Manifest("b", null, Endpoint.CHAT, 0, EXPIRES, "in", "", 0, 3, Map.of(), "c", "t", List.of(0L));
    }

    @Test
    void answersBehindTheLastProgressAreReadAgain() {
        try (AnswerLog log = new AnswerLog(directory, List.of(5L))) {
            log.add(1, 0, AnswerLog.Kind.ANSWER, Json.object().put("n", 1));
            log.advance(0, 9);
            log.save();
            log.add(2, 0, AnswerLog.Kind.ANSWER, Json.object().put("n", 2));
            log.advance(0, 12);
            // The process ends here: written, but never said to be.
            log.text(log.of(2).getFirst());
        }
        try (AnswerLog log = new AnswerLog(directory, List.of(5L))) {
            assertThat(log.position(0)).isEqualTo(9);
            assertThat(log.answered()).isEqualTo(1);
            assertThat(log.isAnswered(2, 0)).isFalse();
            assertThat(log.add(2, 0, AnswerLog.Kind.ANSWER, Json.object().put("n", 3))).isTrue();
            assertThat(log.add(2, 0, AnswerLog.Kind.ANSWER, Json.object().put("n", 4))).as("the first counts").isFalse();
            assertThat(log.text(log.of(1).getFirst()).path("n").asInt()).isEqualTo(1);
            assertThat(log.text(log.of(2).getFirst()).path("n").asInt()).isEqualTo(3);
        }
    }

    @Test
    void linesBehindTheLastProgressAreSentAgain() {
        try (SentLog log = new SentLog(directory)) {
            log.accept(line(1), 1);
            log.refuse(line(2), "id", ApiException.invalid("c", "p", "m"));
            log.save(false);
            log.accept(line(3), 3);
        }
        try (SentLog log = new SentLog(directory)) {
            assertThat(log.line()).isEqualTo(2);
            assertThat(log.offset()).isEqualTo(20);
            assertThat(log.refused()).isEqualTo(1);
            assertThat(log.sent()).isEqualTo(1);
            assertThat(log.parts(3)).isZero();
            log.accept(line(3), 3);
            log.save(true);
        }
        try (SentLog log = new SentLog(directory)) {
            assertThat(log.isComplete()).isTrue();
            assertThat(log.parts(3)).isEqualTo(3);
        }
    }

    @Test
    void aFileThatIsShorterThanWasWrittenDownIsNotBelieved() throws IOException {
        try (AnswerLog log = new AnswerLog(directory, List.of(0L))) {
            log.add(1, 0, AnswerLog.Kind.ANSWER, Json.object());
            log.save();
        }
        Files.write(directory.resolve("answers.jsonl"), new byte[0]);
        assertThatThrownBy(() -> new AnswerLog(directory, List.of(0L))).isInstanceOf(BatchException.class).hasMessageStartingWith("BATCH_STATE: ");
    }

    @Test
    void whatAQuotaPutOffIsNoAnswerAndIsKnownAfterACrash() {
        List<String> putOff = new ArrayList<>();
        try (SentLog sent = new SentLog(directory); AnswerLog answers = new AnswerLog(directory, List.of(0L))) {
            sent.accept(line(1), 1);
            sent.accept(line(2), 1);
            Collector collector = new Collector(manifest(), sent, answers, (line, part, notBefore) -> putOff.add(line + "/" + part + "@" + notBefore));
            collector.completion(0, 0, 100, rejected("b.1", "QUOTA_TOKENS", 50L));
            collector.completion(0, 1, 100, rejected("b.2", "QUOTA_TOKENS", 70L));
            collector.completion(0, 2, 200, completion("b.2").build());
            collector.completion(0, 3, 200, rejected("b.2", "DUPLICATE_ID_CONFLICT", null));
            answers.save();
            assertThat(answers.answered()).isEqualTo(1);
        }
        assertThat(putOff).containsExactly("1/0@150", "2/0@170");
        try (AnswerLog answers = new AnswerLog(directory, List.of(0L))) {
            List<AnswerLog.Entry> again = new ArrayList<>();
            answers.putOff(again::add);
            assertThat(again).singleElement().satisfies(entry -> {
                assertThat(entry.line()).isEqualTo(1);
                assertThat(entry.offset()).isEqualTo(150);
            });
        }
    }

    @Test
    void onlyTheBatchsOwnCompletionsAreTaken() {
        try (SentLog sent = new SentLog(directory); AnswerLog answers = new AnswerLog(directory, List.of(0L))) {
            sent.accept(line(1), 1);
            sent.accept(line(2), 3);
            Collector collector = new Collector(manifest(), sent, answers, (line, part, notBefore) -> { });
            for (String id : List.of("b.0", "b.-1", "b.x", "b.", "b.1.1", "b.2.3", "b.2.99", "b.99999999999", "bb.1", "B.1")) {
                collector.completion(0, 0, 0, completion(id).build());
            }
            collector.completion(0, 0, 0, completion("b.1").setTenant("other").build());
            assertThat(answers.answered()).isZero();
            collector.completion(0, 0, 0, completion("b.2.2").build());
            assertThat(answers.isAnswered(2, 2)).isTrue();
            collector.completion(0, 0, EXPIRES, rejected("b.1", "DEADLINE", null));
            assertThat(answers.unfinished()).as("the batch's end").isEqualTo(1);
        }
    }

    @Test
    void linesAreReadWhateverTheirLength() throws IOException {
        Path file = Files.writeString(directory.resolve("in"), "one\r\n\n" + "x".repeat(200_000) + "\nlast");
        try (InputLines lines = new InputLines(file, 0, 0, 1_000)) {
            assertThat(new String(lines.next().bytes())).isEqualTo("one\r");
            assertThat(lines.next().isBlank()).isTrue();
            InputLines.Line tooLong = lines.next();
            assertThat(tooLong.bytes()).isNull();
            assertThat(tooLong.end()).isEqualTo(200_007);
            InputLines.Line last = lines.next();
            assertThat(new String(last.bytes())).isEqualTo("last");
            assertThat(last.number()).isEqualTo(4);
            assertThat(last.end()).isEqualTo(Files.size(file));
            assertThat(lines.next()).isNull();
        }
        try (InputLines rest = new InputLines(file, 3, 200_007, 1_000)) {
            assertThat(rest.next().number()).isEqualTo(4);
        }
    }

    @Test
    void idsAreRememberedWithTheirLines() {
        CustomIds ids = new CustomIds();
        for (int i = 1; i <= 10_000; i++) {
            assertThat(ids.add("id-" + i, i)).isZero();
        }
        assertThat(ids.add("id-7777", 10_001)).isEqualTo(7777);
        assertThat(ids.add("id-10001", 10_001)).isZero();
    }
}

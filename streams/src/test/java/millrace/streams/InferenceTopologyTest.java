package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.test.TestRecord;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class InferenceTopologyTest {
    private static final String TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    @TempDir
    private Path directory;

    private ServiceDriver service;

    private ServiceDriver start() {
        return start(Map.of());
    }

    private ServiceDriver start(Map<String, String> settings) {
        service = new ServiceDriver(directory, settings);
        return service;
    }

    @AfterEach
    void theLogVerifies() {
        if (service != null) {
            service.verify();
            service.close();
        }
    }

    @Test
    void answersOnePromptWithOneCompletionAndOneLeaf() {
        start();
        service.send(prompt("r-1", "What is 1 + 1?").setSessionId("s-1").setTenant("acme")
                .setMetadata(Map.of("origin", "test")).setReturnTokenIds(true).build());
        assertThat(service.completions).isEmpty();
        assertThat(service.pending()).isEqualTo(1);

        service.answerAll();

        assertThat(service.pending()).isZero();
        Completion completion = service.completion(0);
        assertThat(completion.getRequestId()).isEqualTo("r-1");
        assertThat(completion.getTenant()).isEqualTo("acme");
        assertThat(completion.getSessionId()).isEqualTo("s-1");
        assertThat(completion.getText()).isEqualTo("answer to What is 1 + 1?");
        assertThat(completion.getTokenIds()).hasSize(3);
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.stop);
        assertThat(completion.getUsage().getPromptTokens()).isEqualTo(14);
        assertThat(completion.getTimings().getTimeToFirstTokenUs()).isEqualTo(2_000);
        assertThat(completion.getMetadata()).containsExactly(Map.entry("origin", "test"));
        assertThat(completion.getModelDigest()).isEqualTo(ScriptedEngine.MODEL_DIGEST);
        assertThat(completion.getKvFormat()).isEqualTo("int8");
        assertThat(completion.getWeightFormat()).isEqualTo("int4+bf16");
        assertThat(service.completions).hasSize(1);

        AttestationRecord leaf = service.leaf(0);
        assertThat(service.leaves).hasSize(1);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.INFERENCE);
        assertThat(leaf.getVerdict()).isEqualTo(AuditVerdict.OK);
        assertThat(leaf.getRequestId()).isEqualTo("r-1");
        assertThat(leaf.getInTopic()).isEqualTo("llm.prompts");
        assertThat(leaf.getInPartition()).isZero();
        assertThat(leaf.getInOffset()).isZero();
        assertThat(leaf.getOutPartition()).isZero();
        assertThat(leaf.getSeed()).isEqualTo(completion.getSeed());
        assertThat(leaf.getMaxBatch()).isEqualTo(2);
        assertThat(leaf.getSchemaVersion()).isEqualTo(4);
        assertThat(leaf.getKvFormat()).isEqualTo("int8");
        assertThat(leaf.getWeightFormat()).isEqualTo("int4+bf16");
        byte[] salt = completion.getSalt().array();
        assertThat(Commitment.prompt(salt, "What is 1 + 1?").matches(leaf.getPromptCommit())).isTrue();
        assertThat(Commitment.tokenIds(salt, completion.getTokenIds()).matches(leaf.getTokenIdsCommit())).isTrue();
        assertThat(service.leaves.getFirst().key()).isEqualTo("r-1".getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void leavesNeitherPromptNorAnswerInTheAuditLog() {
        start();
        service.send(prompt("r-1", "a very secret question").setTenant("tenant-name").build());
        service.answerAll();
        String leaf = new String(service.leaves.getFirst().value(), StandardCharsets.ISO_8859_1);
        assertThat(leaf).contains("r-1").doesNotContain("secret", "answer", "tenant-name");
    }

    @Test
    void handsOnInTheOrderInWhichTheEngineEnds() {
        start();
        List.of("a", "b", "c").forEach(id -> service.send(prompt(id, "question " + id).build()));
        assertThat(service.engine.submittedIds()).containsExactly("a", "b", "c");
        service.engine.answer("c");
        service.turn();
        service.engine.answer("a");
        service.engine.answer("b");
        service.turn();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("c", "a", "b");
        assertThat(service.readCompletions()).extracting(c -> c.getAudit().getSeq()).containsExactly(2L, 3L, 4L);
        assertThat(List.of(0, 1, 2)).extracting(i -> service.leaf(i).getInOffset()).containsExactly(2L, 0L, 1L);
    }

    @Test
    void writesCloudEventsHeadersAndPassesTheTraceOn() {
        start();
        RecordHeaders headers = new RecordHeaders();
        headers.add("traceparent", TRACE.getBytes(StandardCharsets.UTF_8));
        headers.add("x-user", new byte[] {1, 2});
        headers.add("ce_id", "of-the-prompt".getBytes(StandardCharsets.UTF_8));
        headers.add("attest-seq", "999".getBytes(StandardCharsets.UTF_8));
        headers.add("content-type", "text/plain".getBytes(StandardCharsets.UTF_8));
        service.send(prompt("r-1", "q").build(), headers);
        service.answerAll();
        Headers out = service.completions.getFirst().headers();
        assertThat(text(out, "traceparent")).isEqualTo(TRACE);
        assertThat(out.lastHeader("x-user").value()).containsExactly(1, 2);
        assertThat(text(out, "ce_specversion")).isEqualTo("1.0");
        assertThat(text(out, "ce_type")).isEqualTo("millrace.completion.v1");
        assertThat(text(out, "ce_subject")).isEqualTo("r-1");
        assertThat(text(out, "ce_time")).isEqualTo("2026-09-21T14:13:20Z");
        assertThat(text(out, "content-type")).isEqualTo("application/avro");
        assertThat(text(out, "attest-seq")).isEqualTo("2");
        assertThat(text(out, "attest-verdict")).isEqualTo("OK");
        assertThat(text(out, "attest-epoch")).isEqualTo("0");
        assertThat(text(out, "attest-origin")).isEqualTo("millrace.test/cluster-1/llm.audit/0/0");
        assertThat(text(out, "attest-leaf")).isEqualTo(Digest.of(service.completion(0).getAudit().getLeaf()).hex());
        for (String once : List.of("ce_id", "attest-seq", "content-type")) {
            assertThat(out.headers(once)).as(once).hasSize(1);
        }
        assertThat(text(out, "ce_id")).as("the same for every attempt")
                .isEqualTo(new Source("llm.prompts", 0, 0, 0, null, null, new RecordHeaders()).eventId().toString());
    }

    @Test
    void doesNotPassOnTheSchemaIdOfThePromptsValue() {
        // A reader of the completion would take it for the completion's own.
        start();
        RecordHeaders headers = new RecordHeaders();
        byte[] wire = service.encode(prompt("r-1", "q").build());
        byte[] id = java.util.Arrays.copyOf(wire, 5);
        headers.add("__value_schema_id", id);
        service.sendRaw("k".getBytes(StandardCharsets.UTF_8), java.util.Arrays.copyOfRange(wire, 5, wire.length), headers);
        await(() -> !service.engine.submitted.isEmpty());
        service.answerAll();
        assertThat(service.completion(0).getText()).isEqualTo("answer to q");
        assertThat(service.completions.getFirst().headers().lastHeader("__value_schema_id")).isNull();
    }

    @Test
    void keysTheCompletionLikeThePromptAndByItsIdWithoutAKey() {
        start();
        service.sendRaw("customer-7".getBytes(StandardCharsets.UTF_8), service.encode(prompt("r-1", "q").build()), new RecordHeaders());
        service.sendRaw(null, service.encode(prompt("r-2", "q").build()), new RecordHeaders());
        service.answerAll();
        assertThat(service.completions).extracting(record -> new String(record.key(), StandardCharsets.UTF_8))
                .containsExactly("customer-7", "r-2");
    }

    @Test
    void answersWhatItCannotServeWithARejection() {
        start();
        service.send(prompt("r-1", "q").setModel("another-model").setMetadata(Map.of("a", "b")).build());
        Completion completion = service.completion(0);
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.rejected);
        assertThat(completion.getErrorCode()).isEqualTo("MODEL_UNKNOWN");
        assertThat(completion.getErrorMessage())
                .isEqualTo("model: this service serves \"scripted\"; leave the field out or name that one");
        assertThat(completion.getText()).isEmpty();
        assertThat(completion.getMetadata()).containsEntry("a", "b");
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.REFUSED);
        assertThat(leaf.getVerdict()).isEqualTo(AuditVerdict.REFUSED);
        assertThat(leaf.getErrorCode()).isEqualTo("MODEL_UNKNOWN");
        assertThat(leaf.getFinish()).isEqualTo(FinishReason.rejected);
        assertThat(leaf.getOutTopic()).isEqualTo("llm.completions");
        assertThat(service.pending()).isZero();
        servesTheNextGoodPrompt();
    }

    @Test
    void putsUndecodableBytesAsTheyCameIntoTheDeadLetterTopic() {
        start();
        byte[] bytes = {1, 0, 0, 0, 1, 42};
        RecordHeaders headers = new RecordHeaders();
        headers.add("traceparent", TRACE.getBytes(StandardCharsets.UTF_8));
        service.sendRaw("k".getBytes(StandardCharsets.UTF_8), bytes, headers);
        assertThat(service.completions).isEmpty();
        TestRecord<byte[], byte[]> letter = service.deadLetters.getFirst();
        assertThat(letter.key()).isEqualTo("k".getBytes(StandardCharsets.UTF_8));
        assertThat(letter.value()).isEqualTo(bytes);
        Headers out = letter.headers();
        assertThat(text(out, "traceparent")).isEqualTo(TRACE);
        assertThat(text(out, "__streams.errors.exception")).isEqualTo("SCHEMA_MAGIC");
        assertThat(text(out, "__streams.errors.message"))
                .isEqualTo("Prompt: expected magic byte 0, got 1; serialize with Confluent's wire format");
        assertThat(text(out, "__streams.errors.topic")).isEqualTo("llm.prompts");
        assertThat(text(out, "__streams.errors.partition")).isEqualTo("0");
        assertThat(text(out, "__streams.errors.offset")).isEqualTo("0");
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getEvent()).isEqualTo(AuditEvent.REFUSED);
        assertThat(leaf.getErrorCode()).isEqualTo("SCHEMA_MAGIC");
        assertThat(leaf.getOutTopic()).isEqualTo("llm.dlq");
        assertThat(leaf.getRequestId()).isEmpty();
        assertThat(service.counter("millrace.dlq.records")).isEqualTo(1);
        servesTheNextGoodPrompt();
    }

    @Test
    void sendsEveryKindOfUnreadableRecordToTheDeadLetterTopic() {
        start();
        byte[] good = service.encode(prompt("r", "q").build());
        byte[] cut = java.util.Arrays.copyOf(good, good.length - 3);
        byte[] unknownId = good.clone();
        ByteBuffer.wrap(unknownId).putInt(1, 4711);
        byte[] foreign = ByteBuffer.wrap(good.clone()).putInt(1, service.completionSchemaId()).array();
        byte[][] values = {null, {}, {0, 0, 0, 1}, foreign, cut, unknownId};
        for (byte[] value : values) {
            service.sendRaw(null, value, new RecordHeaders());
        }
        await(() -> service.deadLetters.size() == values.length);
        assertThat(service.deadLetters).extracting(letter -> text(letter.headers(), "__streams.errors.exception"))
                .containsExactlyInAnyOrder("SCHEMA_NULL", "SCHEMA_TOO_SHORT", "SCHEMA_TOO_SHORT", "SCHEMA_FOREIGN", "AVRO_DECODE",
                        "SCHEMA_UNKNOWN_ID");
        assertThat(service.deadLetters.getFirst().value()).isNull();
        assertThat(service.leaves).hasSize(values.length);
        assertThat(service.pending()).isZero();
        servesTheNextGoodPrompt();
    }

    @Test
    void answersTheSameIdWithTheSameBodyOnce() {
        start();
        Prompt prompt = prompt("r-1", "q").build();
        service.send(prompt);
        service.send(prompt);
        service.answerAll();
        service.send(prompt);
        service.answerAll();
        assertThat(service.completions).hasSize(1);
        assertThat(service.leaves).hasSize(1);
        assertThat(service.engine.submitted).hasSize(1);
        assertThat(service.counter("millrace.prompts.duplicate")).isEqualTo(2);
    }

    @Test
    void rejectsTheSameIdWithAnotherBody() {
        start();
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-1", "another").build());
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getErrorCode).containsExactly("DUPLICATE_ID_CONFLICT", null);
        assertThat(service.completion(0).getErrorMessage())
                .isEqualTo("request_id: it was used with another body within the last 3600 s; use a new id for a new prompt");
    }

    @Test
    void takesTheSameIdOfAnotherTenantForAnotherPrompt() {
        start();
        service.send(prompt("r-1", "q").setTenant("a").build());
        service.send(prompt("r-1", "q").setTenant("b").build());
        service.send(prompt("r-1", "another").build());
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getFinishReason)
                .containsExactly(FinishReason.stop, FinishReason.stop, FinishReason.stop);
    }

    @Test
    void forgetsAnIdAfterTheRetention() {
        start(Map.of("intake.dedup.retention.ms", "60000"));
        service.send(prompt("r-1", "q").build());
        service.answerAll();
        service.pass(60_001);
        service.send(prompt("r-1", "another").build());
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getText).containsExactly("answer to q", "answer to another");
    }

    @Test
    void answersARepeatedPromptOnceThoughTheClockWasSetBack() {
        start();
        service.send(prompt("r-1", "q").build());
        service.clock.advance(-86_400_000);
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-2", "q").build());
        service.send(prompt("r-2", "q").build());
        service.answerAll();
        service.clock.advance(86_400_000);
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("r-1", "r-2");
        assertThat(service.counter("millrace.prompts.duplicate")).isEqualTo(2);
    }

    @Test
    void turnsAResultThatIsTooLargeIntoAFailure() {
        start(Map.of("intake.max.bytes", "2000"));
        service.send(prompt("r-1", "q").setMetadata(Map.of("k", "v")).build());
        service.engine.end("r-1", ScriptedEngine.text(service.engine.submitted.getFirst().prompt, "x".repeat(3_000)));
        service.turn();
        Completion completion = service.completion(0);
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.failed);
        assertThat(completion.getErrorCode()).isEqualTo("RESULT_TOO_LARGE");
        assertThat(completion.getErrorMessage())
                .matches("completion: expected a record of at most 2000 bytes, got 3\\d{3}; ask for fewer tokens");
        assertThat(completion.getText()).isEmpty();
        assertThat(service.leaf(0).getVerdict()).isEqualTo(AuditVerdict.FAILED);
        assertThat(service.leaf(0).getErrorCode()).isEqualTo("RESULT_TOO_LARGE");
        servesTheNextGoodPrompt();
    }

    @Test
    void turnsAResultThatIsTooLargeIntoAFailureWhateverThePromptHolds() {
        start(Map.of("intake.max.bytes", "2000"));
        service.send(Prompt.newBuilder().setRequestId("r-1").setTenant("acme").setSessionId("s-1")
                .setMessages(List.of(millrace.schemas.Message.newBuilder().setRole("user").setContent("q").setToolCalls(List.of())
                        .build()))
                .setSampling(millrace.schemas.Sampling.newBuilder().setSeed(7L).build()).build());
        service.engine.end("r-1", ScriptedEngine.text(service.engine.submitted.getFirst().prompt, "x".repeat(3_000)));
        service.turn();
        Completion completion = service.completion(0);
        assertThat(completion.getErrorCode()).isEqualTo("RESULT_TOO_LARGE");
        assertThat(completion.getTenant()).isEqualTo("acme");
        assertThat(completion.getSessionId()).isEqualTo("s-1");
        assertThat(completion.getSeed()).isEqualTo(7);
        servesTheNextGoodPrompt();
    }

    @Test
    void keepsEveryRecordBelowWhatTheProducerAccepts() {
        // The broker's refusal of a record would end the thread, and the record would come back at each restart.
        start(Map.of("intake.max.bytes", "2000"));
        int most = ProducerLimits.maxRequestBytes(service.config);
        RecordHeaders huge = new RecordHeaders();
        huge.add("traceparent", TRACE.getBytes(StandardCharsets.UTF_8));
        huge.add("blob", new byte[most]);
        byte[] key = new byte[most];
        service.sendRaw(key, service.encode(prompt("r-1", "q").build()), huge);
        service.sendRaw(key, new byte[most + 10], huge);
        Map<String, String> metadata = new java.util.HashMap<>();
        for (int i = 0; i < 3_000; i++) {
            metadata.put("key-" + i, "value ".repeat(20));
        }
        service.send(prompt("bad id", "q").setMetadata(metadata).build());
        assertThat(service.completions).hasSize(2);
        assertThat(service.completion(0).getErrorCode()).isEqualTo("PROMPT_TOO_LARGE");
        assertThat(service.completion(1).getErrorCode()).isEqualTo("ID_FORMAT");
        assertThat(text(service.completions.getFirst().headers(), "traceparent")).isEqualTo(TRACE);
        assertThat(service.deadLetters).hasSize(1);
        assertThat(service.completions).extracting(InferenceTopologyTest::bytes).allMatch(bytes -> bytes < most);
        assertThat(service.deadLetters).extracting(InferenceTopologyTest::bytes).allMatch(bytes -> bytes < most);
        assertThat(text(service.deadLetters.getFirst().headers(), "millrace-truncated-from-bytes")).isEqualTo("" + (most + 10));
        servesTheNextGoodPrompt();
    }

    private static int bytes(TestRecord<byte[], byte[]> record) {
        return new Source("", 0, 0, 0, record.key(), record.value(), record.headers()).bytes();
    }

    @Test
    void keepsAPromptPendingWhenTheEngineFails() {
        start();
        service.send(prompt("r-1", "q").build());
        service.engine.end("r-1", ScriptedEngine.failed("ENGINE_FAILED", "the step thread died"));
        service.turn();
        assertThat(service.completions).isEmpty();
        assertThat(service.pending()).isEqualTo(1);
        assertThat(service.engineFailures).isEqualTo(1);
    }

    @Test
    void answersAPromptThatTheEngineCouldNotFinish() {
        start();
        service.send(prompt("r-1", "q").build());
        service.engine.end("r-1", ScriptedEngine.failed("ENGINE_NUMERIC", "logits: expected finite values, got NaN"));
        service.turn();
        assertThat(service.completion(0).getFinishReason()).isEqualTo(FinishReason.failed);
        assertThat(service.completion(0).getErrorCode()).isEqualTo("ENGINE_NUMERIC");
        assertThat(service.leaf(0).getEvent()).isEqualTo(AuditEvent.INFERENCE);
        assertThat(service.leaf(0).getVerdict()).isEqualTo(AuditVerdict.FAILED);
        assertThat(service.pending()).isZero();
    }

    @Test
    void signsACheckpointOnceTheLogHasGrown() {
        start(Map.of("audit.checkpoint.interval.ms", "1000"));
        service.pass(5_000);
        assertThat(service.checkpoints).as("of an empty log").isEmpty();
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-2", "q").build());
        service.answerAll();
        service.pass(1_000);
        service.pass(1_000);
        assertThat(service.checkpoints).as("none without growth").hasSize(1);
        assertThat(service.checkpoint(0).getSize()).isEqualTo(4);
        service.send(prompt("r-3", "q").build());
        service.answerAll();
        service.pass(1_000);
        assertThat(service.checkpoint(1).getSize()).isEqualTo(5);
        assertThat(service.checkpoint(1).getNote()).startsWith("millrace.test/cluster-1/llm.audit/0/0\n5\n");
    }

    @Test
    void holdsNothingBackForAPromptOfAnotherVersionWhileTheRegistryIsAsked() {
        start();
        byte[] wire = service.encode(prompt("r-1", "q").build());
        byte[] unknown = wire.clone();
        ByteBuffer.wrap(unknown).putInt(1, 4711);
        service.sendRaw(null, unknown, new RecordHeaders());
        service.send(prompt("r-2", "q").build());
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).contains("r-2");
        await(() -> !service.deadLetters.isEmpty());
    }

    @Test
    void drawsTheSeedFromThePositionUnlessThePromptBringsOne() {
        start();
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-2", "q").setSampling(millrace.schemas.Sampling.newBuilder().setSeed(42L).build()).build());
        service.answerAll();
        long derived = ByteBuffer.wrap(Digest.sha256("seed/v1 llm.prompts/0/0").bytes()).getLong();
        assertThat(service.readCompletions()).extracting(Completion::getSeed).containsExactly(derived, 42L);
        assertThat(service.leaf(1).getSeed()).isEqualTo(42L);
    }

    @Test
    void beginsANewEpochOnlyWhenItIsTold() {
        AuditTail tail = partition -> Optional.of(
                new AuditTail.Last("millrace.test/cluster-1/llm.audit/0/0", 41, Digest.sha256("leaf 41")));
        assertThatThrownBy(() -> new ServiceDriver(directory, Map.of(), tail, Duration.ofMillis(1)))
                .rootCause()
                .hasMessage("LOG_STATE_DIVERGED: audit partition 0 ends with leaf 41 of millrace.test/cluster-1/llm.audit/0/0 ("
                        + HexFormat.of().formatHex(Digest.sha256("leaf 41").bytes())
                        + "), the log's state with no leaf; the state was lost or the topic changed. Find out why; to go on, start once"
                        + " with -D audit.epoch.new=true, which begins a new epoch and says so in the log");

        try (ServiceDriver fresh = new ServiceDriver(directory, Map.of("audit.epoch.new", "true"), tail, Duration.ofMillis(1))) {
            fresh.send(prompt("r-1", "q").build());
            fresh.answerAll();
            assertThat(fresh.leaf(0).getEvent()).isEqualTo(AuditEvent.EPOCH_START);
            assertThat(fresh.leaf(0).getEpoch()).isEqualTo(1);
            assertThat(fresh.leaf(0).getSeq()).isZero();
            assertThat(fresh.leaf(0).getPreviousLog().getOrigin()).isEqualTo("millrace.test/cluster-1/llm.audit/0/0");
            assertThat(fresh.leaf(0).getPreviousLog().getSize()).isEqualTo(42);
            assertThat(fresh.leaf(0).getPreviousLog().getReason()).isEqualTo("STATE_LOST");
            assertThat(fresh.logged(1).getEvent()).isEqualTo(AuditEvent.MODEL_LOAD);
            assertThat(fresh.leaf(1).getSeq()).isEqualTo(3);
            assertThat(fresh.completion(0).getAudit().getOrigin()).isEqualTo("millrace.test/cluster-1/llm.audit/0/1");
            assertThat(fresh.completion(0).getAudit().getSeq()).isEqualTo(3);
        }
    }

    private void servesTheNextGoodPrompt() {
        int before = service.completions.size();
        service.send(prompt("next-good", "still there?").build());
        service.answerAll();
        assertThat(service.completions).hasSize(before + 1);
        assertThat(service.completion(before).getText()).isEqualTo("answer to still there?");
    }

    private void await(java.util.function.BooleanSupplier condition) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime()).as("waited 10 s").isLessThan(until);
            LockSupport.parkNanos(5_000_000);
            service.turn();
        }
    }

    private static String text(Headers headers, String name) {
        assertThat(headers.lastHeader(name)).as(name).isNotNull();
        return new String(headers.lastHeader(name).value(), StandardCharsets.UTF_8);
    }
}

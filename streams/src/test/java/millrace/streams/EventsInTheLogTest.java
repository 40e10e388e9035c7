package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import millrace.engine.Device;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.IntegrityState;
import millrace.engine.ModelTrust;
import millrace.engine.Transcript;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.ComputeDevice;
import millrace.schemas.Completion;
import millrace.schemas.SuspectRange;
import org.apache.kafka.common.header.Headers;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the engine's checks say becomes part of the log, and what it does not trust is not handed on.
class EventsInTheLogTest {
    private static final long NO_STEP = IntegrityEvent.NO_STEP;

    @TempDir
    private Path directory;

    private ServiceDriver service;

    private ScriptedEngine start(Map<String, String> settings, Consumer<ScriptedEngine> prepare) {
        service = new ServiceDriver(directory, settings, partition -> Optional.empty(), Duration.ofMillis(1), prepare);
        return service.engine;
    }

    private ScriptedEngine start() {
        return start(Map.of(), engine -> {});
    }

    @AfterEach
    void theLogVerifies() {
        service.verify();
        service.close();
    }

    /// Answers the prompt of this id with a token that came last in this step.
    private void answer(String id, long step) {
        service.send(prompt(id, "question " + id).build());
        ends(id, step);
    }

    private void ends(String id, long step) {
        ScriptedEngine.Job job = service.engine.waiting.stream().filter(each -> each.id().equals(id)).findFirst().orElseThrow();
        service.engine.end(id, ScriptedEngine.atStep(job.prompt, step));
        service.turn();
    }

    private List<AuditEvent> kinds() {
        return java.util.stream.IntStream.range(0, service.log.size()).mapToObj(i -> service.logged(i).getEvent()).toList();
    }

    @Test
    void saysWhatServesBeforeTheFirstLeaf() {
        start();
        service.turn();
        assertThat(service.log).as("an idle log of an engine that tells nothing").isEmpty();
        answer("a", 1);
        answer("b", 2);
        assertThat(kinds()).containsExactly(AuditEvent.MODEL_LOAD, AuditEvent.BUILD, AuditEvent.INFERENCE, AuditEvent.INFERENCE);
        AttestationRecord load = service.logged(0);
        assertThat(load.getSeq()).isZero();
        assertThat(load.getVerdict()).isEqualTo(AuditVerdict.OK);
        assertThat(load.getLevel()).isZero();
        assertThat(load.getInTopic()).isEmpty();
        assertThat(load.getInOffset()).isEqualTo(-1);
        assertThat(load.getOutTopic()).isEmpty();
        assertThat(load.getDetail()).isEqualTo("model=scripted digest=" + ScriptedEngine.MODEL_DIGEST
                + " trust=digest_recorded verified=false load_verify=full backend=none profile=scripted/v1");
        assertThat(service.logged(1).getDetail()).startsWith("version=1.0 digest=" + "12".repeat(32)
                + " backend=none profile=scripted/v1 weights=int4+bf16 kv=int8 speculation=off sampler=").contains(" java=", " os=", " arch=");
        assertThat(text(service.log.getFirst().headers(), "attest-event")).isEqualTo("MODEL_LOAD");
    }

    @Test
    void saysHowASignedModelWasVerified() {
        String root = "34".repeat(32);
        String bundle = "56".repeat(32);
        String key = "78".repeat(32);
        String table = "9a".repeat(32);
        start(Map.of("engine.model.digest", ScriptedEngine.MODEL_DIGEST), engine -> {
            engine.trust = new ModelTrust("warn", true, root, bundle, key, List.of("MODEL_FILE_UNSIGNED: extra file", "MODEL_FILE_UNSIGNED: x"));
            engine.blockTable = table;
        });
        answer("a", 1);
        AttestationRecord load = service.logged(0);
        assertThat(load.getVerifyMode()).isEqualTo("warn");
        assertThat(load.getChecks()).as("signature and digest").isEqualTo(0b11);
        assertThat(load.getDetail()).isEqualTo("model=scripted digest=" + ScriptedEngine.MODEL_DIGEST + " root=" + root
                + " trust=warn verified=true bundle=" + bundle + " key_hint=" + key
                + " problems=MODEL_FILE_UNSIGNED load_verify=full block_table=" + table + " backend=none profile=scripted/v1");
        AttestationRecord leaf = service.leaf(0);
        assertThat(leaf.getVerifyMode()).isEqualTo("warn");
        assertThat(leaf.getChecks() & 0b11).isEqualTo(0b11);
        assertThat(Digest.of(leaf.getBundleSha256()).hex()).isEqualTo(bundle);
        assertThat(Digest.of(leaf.getKeyHint()).hex()).isEqualTo(key);
        assertThat(Digest.of(leaf.getBlockTableSha256()).hex()).isEqualTo(table);
    }

    @Test
    void namesTheDeviceAndItsKernels() {
        String image = "9b".repeat(32);
        start(Map.of(), engine -> engine.device = new Device("Some GPU", "9.0", "12.8", image, true));
        answer("a", 1);
        assertThat(service.logged(0).getDetail()).endsWith(" backend=none profile=scripted/v1 device=Some_GPU capability=9.0"
                + " driver=12.8 image=" + image + " standin=true");
        for (AttestationRecord leaf : List.of(service.logged(0), service.leaf(0))) {
            assertThat(leaf.getDevice())
                    .isEqualTo(new ComputeDevice("Some GPU", "9.0", "12.8", Digest.ofHex(image).toHash(), true));
        }
        assertThat(service.verify().computedBy()).containsExactly(
                Map.entry("none on Some GPU, compute capability 9.0, STAND-IN", 1L));
        service.close();
        start(Map.of(), engine -> {});
        answer("a", 1);
        assertThat(service.leaf(0).getDevice()).as("the processor is no device").isNull();
    }

    @Test
    void saysWhatWasVerifiedWhereNoKeyWasGiven() {
        start(Map.of("engine.model.digest", ScriptedEngine.MODEL_DIGEST), engine -> {});
        answer("a", 1);
        assertThat(service.leaf(0).getVerifyMode()).isEqualTo("digest_pinned");
        assertThat(service.leaf(0).getBundleSha256()).isNull();
        assertThat(service.leaf(0).getKeyHint()).isNull();
        assertThat(service.leaf(0).getBlockTableSha256()).isNull();
        service.verify();
        service.close();
        start(Map.of("engine.model.verify", "off"), engine -> {});
        answer("a", 1);
        assertThat(service.leaf(0).getVerifyMode()).as("turned off on purpose").isEqualTo("off");
    }

    @Test
    void attestsLogitsChecksAndPages() {
        ScriptedEngine engine = start(Map.of("integrity.scrub.interval", "5m", "integrity.canary.interval", "1m"), e -> {});
        engine.state = new IntegrityState(true, 7, 600_000, 120_000, 0, 0, 0, 0);
        service.send(prompt("a", "q").build());
        engine.end("a", ScriptedEngine.result(engine.waiting.getFirst().prompt, "x",
                new Transcript(2, true, true, 0, 9, 5, 0, 32, List.of(0x01020304, -2), List.of())));
        service.turn();
        AttestationRecord leaf = service.leaf(0);
        Completion completion = service.completion(0);
        assertThat(leaf.getLevel()).isEqualTo(3);
        assertThat(leaf.getLogitsEvery()).isEqualTo(32);
        assertThat(completion.getLogitsEvery()).isEqualTo(32);
        assertThat(completion.getLogitsDigests()).containsExactly(0x01020304, -2);
        assertThat(Commitment.logits(completion.getSalt().array(), completion.getLogitsDigests()).matches(leaf.getLogitsCommit())).isTrue();
        assertThat(leaf.getScrubGeneration()).isEqualTo(7);
        assertThat(leaf.getScrubAgeMs()).isEqualTo(600_000);
        assertThat(leaf.getKvPagesVerified()).isEqualTo(5);
        assertThat(leaf.getChecks()).as("scrubbed, pages, products, guard, canary").isEqualTo(0b1111100);
        assertThat(leaf.getVerdict()).isEqualTo(AuditVerdict.OK);

        engine.state = new IntegrityState(true, 7, 600_001, 120_001, 0, 0, 0, 0);
        service.send(prompt("b", "q").build());
        engine.end("b", ScriptedEngine.result(engine.waiting.getFirst().prompt, "x",
                new Transcript(2, false, 0, 9, 5, 2, 32, List.of())));
        service.turn();
        AttestationRecord second = service.leaf(1);
        assertThat(second.getLevel()).isEqualTo(1);
        assertThat(second.getLogitsEvery()).isZero();
        assertThat(second.getLogitsCommit()).isNull();
        assertThat(service.completion(1).getLogitsDigests()).isNull();
        assertThat(second.getChecks()).as("overdue: pages alone").isEqualTo(0b1000);
        assertThat(second.getKvMismatches()).isEqualTo(2);
        assertThat(second.getVerdict()).isEqualTo(AuditVerdict.OK_RECOMPUTED);
        assertThat(text(service.completions.get(1).headers(), "attest-verdict")).isEqualTo("OK_RECOMPUTED");
    }

    @Test
    void refusalsHaveNothingButCommitments() {
        start();
        service.send(prompt("a", "q").setModel("another").build());
        assertThat(service.leaf(0).getEvent()).isEqualTo(AuditEvent.REFUSED);
        assertThat(service.leaf(0).getLevel()).isZero();
        assertThat(text(service.completions.getFirst().headers(), "attest-verdict")).isEqualTo("REFUSED");
    }

    @Test
    void doesNotHandOnWhatTheEngineNoLongerTrusts() {
        ScriptedEngine engine = start();
        service.send(prompt("a", "q").build());
        var first = engine.waiting.getFirst().prompt;
        engine.distrusted = result -> result.transcript().lastStep() == 10;
        ends("a", 10);
        assertThat(service.completions).isEmpty();
        assertThat(service.leaves).isEmpty();
        assertThat(service.pending()).isEqualTo(1);
        assertThat(service.counter("millrace.integrity.withheld")).isEqualTo(1);
        service.turn();
        assertThat(engine.submittedIds()).containsExactly("a", "a");
        assertThat(engine.waiting.getFirst().prompt).as("the same work, seed included").isEqualTo(first);
        ends("a", 20);
        assertThat(service.completion(0).getText()).isEqualTo("answer to q");
        assertThat(service.leaf(0).getVerdict()).isEqualTo(AuditVerdict.OK_RECOMPUTED);
        assertThat(text(service.completions.getFirst().headers(), "attest-verdict")).isEqualTo("OK_RECOMPUTED");
        assertThat(service.pending()).isZero();
    }

    @Test
    void withholdsOneOfSeveralAndKeepsTheOrderOfTheOthers() {
        ScriptedEngine engine = start();
        List.of("a", "b", "c").forEach(id -> service.send(prompt(id, "question " + id).build()));
        engine.distrusted = result -> result.transcript().lastStep() == 2;
        long step = 1;
        for (var job : List.copyOf(engine.waiting)) {
            engine.end(job.id(), ScriptedEngine.atStep(job.prompt, step++));
        }
        service.turn();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("a", "c");
        service.turn();
        ends("b", 9);
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("a", "c", "b");
        assertThat(service.counter("millrace.integrity.withheld")).isEqualTo(1);
    }

    @Test
    void namesExactlyTheAnswersThatMayBeWrong() {
        ScriptedEngine engine = start();
        for (int i = 0; i < 6; i++) {
            answer("r" + i, 10 + i);
        }
        service.send(prompt("refused", "q").setModel("another").build());
        service.send(prompt("late", "q").build());
        service.send(prompt("fresh", "q").build());
        // Found out in step 17, repaired, and computed again in step 20: as an engine does it, before any answer of that.
        engine.distrusted = result -> result.transcript().lastStep() >= 13 && result.transcript().lastStep() <= 17;
        engine.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", "tensor=layers.3.up block=7", 13);
        ends("late", 16);
        ends("fresh", 20);
        service.turn();
        ends("late", 21);
        assertThat(service.leavesOf(AuditEvent.FAULT)).hasSize(1);
        AttestationRecord fault = service.leavesOf(AuditEvent.FAULT).getFirst();
        assertThat(fault.getSuspect()).isEqualTo(new SuspectRange(fault.getLogOrigin(), 5L, 7L, "WEIGHT"));
        assertThat(List.of(5, 6, 7)).extracting(seq -> service.logged(seq).getRequestId()).containsExactly("r3", "r4", "r5");
        assertThat(fault.getErrorCode()).isEqualTo("WEIGHT_BLOCK");
        assertThat(fault.getVerdict()).isEqualTo(AuditVerdict.OK_RECOMPUTED);
        assertThat(fault.getDetail()).isEqualTo("number=1 kind=WEIGHT result=repaired at_ms=1800000000000 from_step=13 tensor=layers.3.up block=7");
        assertThat(text(service.log.get((int) fault.getSeq()).headers(), "attest-event")).isEqualTo("FAULT");
        assertThat(text(service.log.get((int) fault.getSeq()).headers(), "attest-suspect")).isEqualTo("5-7");
        assertThat(service.counter("millrace.integrity.suspects")).isEqualTo(3);
        assertThat(service.leavesOf(AuditEvent.RETRACT)).as("what follows is for people to decide").isEmpty();
    }

    /// The event comes after the engine was asked about an answer: that answer is in the log by then.
    @Test
    void namesAnAnswerThatWasHandedOnJustBeforeTheEvent() {
        ScriptedEngine engine = start();
        service.send(prompt("a", "q").build());
        engine.distrusted = result -> {
            // While the stream thread asks, the scrubber finds it.
            if (engine.events.isEmpty()) {
                engine.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", "", 5);
            }
            return false;
        };
        ends("a", 5);
        assertThat(service.leaves).hasSize(1);
        service.turn();
        AttestationRecord fault = service.leavesOf(AuditEvent.FAULT).getFirst();
        assertThat(fault.getSuspect().getFromSeq()).isEqualTo(service.leaf(0).getSeq());
        assertThat(fault.getSuspect().getToSeq()).isEqualTo(service.leaf(0).getSeq());
    }

    @Test
    void namesNoAnswerOfALogThatHasNone() {
        ScriptedEngine engine = start();
        engine.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", "", 3);
        engine.post(Kind.KV_PAGE, Result.REPAIRED, "KV_SEAL", "page=9", NO_STEP);
        service.turn();
        assertThat(kinds()).containsExactly(AuditEvent.MODEL_LOAD, AuditEvent.BUILD, AuditEvent.FAULT, AuditEvent.FAULT);
        assertThat(service.logged(2).getSuspect().getFromSeq()).isEqualTo(2);
        assertThat(service.logged(2).getSuspect().getToSeq()).isEqualTo(1);
        assertThat(service.log.get(2).headers().lastHeader("attest-suspect")).isNull();
        assertThat(service.logged(3).getSuspect()).as("no step is in doubt").isNull();
    }

    @Test
    void writesTheFirstCanaryAndPassAndThoseAfterAFaultAndACanaryEachMinute() {
        ScriptedEngine engine = start();
        long start = 1_790_000_000_000L;
        for (int second = 0; second < 130; second += 10) {
            engine.canaryPassed(start + second * 1_000L);
            engine.post(Kind.SCRUB, Result.PASSED, "", "blocks=4", NO_STEP);
        }
        service.turn();
        assertThat(service.leavesOf(AuditEvent.CANARY)).extracting(leaf -> leaf.getDetail().replaceAll(".*at_ms=", ""))
                .containsExactly("" + start, "" + (start + 60_000), "" + (start + 120_000));
        assertThat(service.leavesOf(AuditEvent.CANARY)).extracting(AttestationRecord::getVerdict).containsOnly(AuditVerdict.OK);
        assertThat(service.leavesOf(AuditEvent.SCRUB)).hasSize(1);
        assertThat(service.leavesOf(AuditEvent.SCRUB).getFirst().getDetail()).endsWith(" blocks=4");
        engine.post(Kind.CANARY, Result.REPAIRED, "CANARY_MISMATCH", "token=3", NO_STEP);
        engine.canaryPassed(start + 121_000);
        engine.canaryPassed(start + 122_000);
        engine.post(Kind.SCRUB, Result.PASSED, "", "", NO_STEP);
        engine.post(Kind.SCRUB, Result.PASSED, "", "", NO_STEP);
        service.turn();
        List<AttestationRecord> canaries = service.leavesOf(AuditEvent.CANARY);
        assertThat(canaries).hasSize(5);
        assertThat(canaries.get(3).getErrorCode()).isEqualTo("CANARY_MISMATCH");
        assertThat(canaries.get(3).getVerdict()).isEqualTo(AuditVerdict.OK_RECOMPUTED);
        assertThat(canaries.get(4).getDetail()).endsWith("at_ms=" + (start + 121_000));
        assertThat(service.leavesOf(AuditEvent.SCRUB)).hasSize(2);
    }

    @Test
    void stopsWithTheFaultInTheLogWhenTheEngineRefuses() {
        ScriptedEngine engine = start();
        answer("a", 4);
        service.send(prompt("b", "q").build());
        engine.post(Kind.WEIGHT, Result.REFUSED, "WEIGHT_REPEATED", "tensor=a", 3);
        engine.state = new IntegrityState(false, 1, 0, 0, 2, 0, 0, 0);
        engine.failure = "integrity: WEIGHT_REPEATED";
        service.turn();
        assertThat(service.engineFailures).isEqualTo(1);
        AttestationRecord fault = service.leavesOf(AuditEvent.FAULT).getFirst();
        assertThat(fault.getVerdict()).isEqualTo(AuditVerdict.FAILED);
        assertThat(fault.getSuspect().getFromSeq()).isEqualTo(2);
        assertThat(fault.getSuspect().getToSeq()).isEqualTo(2);
        service.turn();
        assertThat(service.engineFailures).as("said once").isEqualTo(1);
        assertThat(service.pending()).as("kept for an engine that works").isEqualTo(1);
        assertThat(service.watchAlarms()).isTrue();
        assertThat(service.alarms).extracting(AlarmRecord::getCode).containsExactly("WEIGHT_REPEATED", "ENGINE_FAILED");
    }

    @Test
    void losesNothingThatComesWhileNoWorkIsStarted() {
        ScriptedEngine engine = start();
        engine.state = new IntegrityState(false, 1, 0, 0, 1, 0, 0, 0);
        service.send(prompt("a", "q").build());
        service.turn();
        assertThat(service.pending()).isEqualTo(1);
        engine.state = IntegrityState.NONE;
        service.answerAll();
        assertThat(service.readCompletions()).extracting(Completion::getRequestId).containsExactly("a");
    }

    @Test
    void raisesAnAlarmWhenTheSignerFailsForTooLong() {
        start(Map.of("audit.checkpoint.interval.ms", "1000", "audit.checkpoint.max.lag", "30s"), e -> {});
        service.signerFailure = new IllegalStateException("the key service is away");
        answer("a", 1);
        for (int second = 0; second < 29; second++) {
            service.pass(1_000);
        }
        assertThat(service.isSigned()).isTrue();
        service.pass(2_000);
        assertThat(service.isSigned()).isFalse();
        service.pass(1_000);
        service.watchAlarms();
        assertThat(service.alarms).extracting(AlarmRecord::getCode).containsExactly("AUDIT_UNSIGNED");
        assertThat(service.alarms.getFirst().getDetail()).isEqualTo("partition=0 leaves=3");
        assertThat(service.gauge("millrace.audit.unsigned.leaves")).isEqualTo(3);
        assertThat(service.gauge("millrace.audit.checkpoint.lag.seconds")).isGreaterThanOrEqualTo(31);
        assertThat(service.gauge("millrace.audit.seq", "partition", "0")).isEqualTo(3);
        assertThat(service.checkpoints).isEmpty();
        service.signerFailure = null;
        service.pass(1_000);
        assertThat(service.isSigned()).isTrue();
        assertThat(service.checkpoint(0).getSize()).isEqualTo(3);
    }

    private static String text(Headers headers, String name) {
        assertThat(headers.lastHeader(name)).as(name).isNotNull();
        return new String(headers.lastHeader(name).value(), StandardCharsets.UTF_8);
    }
}

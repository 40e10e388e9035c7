package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.engine.ActivationTop;
import millrace.engine.Device;
import millrace.engine.FinishReason;
import millrace.engine.GenerationResult;
import millrace.engine.Timings;
import millrace.engine.Trace;
import millrace.engine.Trace.Departure;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.integrity.Digest;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.audit.AnswerReader.Answer;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.schemas.ComputeDevice;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What a replay says of an answer whose bits it cannot have.
class TolerantComparisonTest {
    private static final List<Integer> IDS = List.of(7, 8, 9);
    private static final Tolerance TOLERANCE = new Tolerance(0.01);

    @TempDir
    Path directory;

    private ServiceDriver service;
    private ActivationTop top;
    private Completion completion;
    private Answer answer;

    @BeforeEach
    void attest() {
        service = new ServiceDriver(directory, Map.of());
        top = top(0x4000, 1);
        service.send(prompt("r-1", "hello").build());
        service.engine.end("r-1", result(IDS, "answer", List.of(top)));
        service.turn();
        completion = service.completion(0);
        answer = answer(service.leaf(0));
    }

    @AfterEach
    void close() {
        service.close();
    }

    private static ActivationTop top(int bits, int step) {
        return new ActivationTop(
                IntStream.range(0, ActivationTop.COUNT).map(i -> 7 * i).toArray(),
                IntStream.range(0, ActivationTop.COUNT).map(i -> bits + step * i % 64).toArray());
    }

    private static GenerationResult result(List<Integer> ids, String text, List<ActivationTop> tops) {
        return new GenerationResult(text, ids, FinishReason.LENGTH, new Usage(5, ids.size(), 0), new Timings(1, 1, 1), null, null,
                new Transcript(2, true, false, 0, 1, 0, 0, 0, List.of(), tops));
    }

    private static Answer answer(AttestationRecord leaf) {
        return new Answer(new Checked(leaf, Digest.ZERO, Digest.ZERO, new Place("audit", 0, 3)), null, null);
    }

    private TolerantComparison compare(Trace trace) {
        return TolerantComparison.of(answer, completion, IDS, trace, TOLERANCE);
    }

    private static Trace trace(List<Departure> departures, String text, FinishReason reason, ActivationTop... tops) {
        return new Trace(IDS.size(), departures, text, reason, List.of(tops), null, null);
    }

    private static Refuted refuted(TolerantComparison comparison) {
        assertThat(comparison.verdict()).isInstanceOf(Refuted.class);
        return (Refuted) comparison.verdict();
    }

    @Test
    void takesTheSameTokensAndNearTies() {
        TolerantComparison same = compare(trace(List.of(), "answer", FinishReason.LENGTH, top));
        assertThat(same).isEqualTo(new TolerantComparison(Verdict.VERIFIED, 0, 1));
        Departure tie = new Departure(1, 8, 5, 0.2, 10);
        assertThat(compare(trace(List.of(tie, tie), "answer", FinishReason.LENGTH, top)))
                .isEqualTo(new TolerantComparison(Verdict.VERIFIED, 2, 1));
    }

    @Test
    void refutesATokenThatNoRoundingCanGive() {
        Departure far = new Departure(1, 8, 5, 0.21, 10);
        Refuted refuted = refuted(compare(trace(List.of(far), "answer", FinishReason.LENGTH, top)));
        assertThat(refuted).hasToString("audit-0@3: REPLAY_TOKENS: " + answer.name() + ", request r-1: token at step 1:"
                + " expected 5, or one that 0.200 between two logits would give, got 8, which needs 0.210");
    }

    @Test
    void refutesTextAndEndThatAreNotThoseOfTheTokens() {
        assertThat(refuted(compare(trace(List.of(), "other", FinishReason.LENGTH, top))).what()).endsWith("text of the token ids");
        Refuted cut = refuted(compare(trace(List.of(), "answer", FinishReason.STOP, top)));
        assertThat(cut.code()).isEqualTo("REPLAY_TEXT");
        assertThat(cut.what()).endsWith("finish reason");
        Trace ended = new Trace(2, List.of(), "answer", FinishReason.LENGTH, List.of(top), null, null);
        assertThat(refuted(compare(ended)).what()).as("a stop token before the end").endsWith("finish reason");
    }

    @Test
    void refutesProofsOfOtherActivations() {
        Refuted other = refuted(compare(trace(List.of(), "answer", FinishReason.LENGTH, top(0x4100, 1))));
        assertThat(other.code()).isEqualTo("REPLAY_PROOFS");
        assertThat(other.what()).endsWith("activation proof 0, of the tokens from step 0");
        assertThat(other.got()).startsWith("0 of 128 exponents");
        assertThat(compare(trace(List.of(), "answer", FinishReason.LENGTH, top(0x4004, 1))).proofs())
                .as("mantissas that are a little apart").isEqualTo(1);
        assertThat(refuted(compare(trace(List.of(), "answer", FinishReason.LENGTH))).what()).endsWith("bytes of activation proofs");
        completion.setActivationProofs(ByteBuffer.wrap(new byte[258]));
        assertThat(refuted(compare(trace(List.of(), "answer", FinishReason.LENGTH, top))).what())
                .as("not those of the leaf").endsWith("activation proofs");
    }

    @Test
    void cannotDecideWithoutTheTokensUnlessTheSameComeOut() {
        byte[] salt = completion.getSalt().array();
        assertThat(TolerantComparison.of(answer, completion, result(IDS, "answer", List.of(top)), salt))
                .isEqualTo(new TolerantComparison(Verdict.VERIFIED, 0, 1));
        Verdict other = TolerantComparison.of(answer, completion, result(List.of(7, 8, 10), "x", List.of(top)), salt).verdict();
        assertThat(other).isInstanceOf(Undecided.class);
        assertThat(other.toString()).startsWith("REPLAY_TOKEN_IDS: " + answer.name() + ": another answer comes out here")
                .contains("return_token_ids");
    }

    @Test
    void cannotDecideWhenTheEngineFails() {
        Trace failed = new Trace(0, List.of(), "", FinishReason.FAILED, List.of(), "ENGINE_FAILED", "why");
        assertThat(compare(failed).verdict().toString()).isEqualTo("REPLAY_ENGINE: " + answer.name() + ": the engine failed:"
                + " ENGINE_FAILED: why");
    }

    @Test
    void bitsAreThoseOfAProfileAndAKindOfDevice() {
        AttestationRecord leaf = answer.leaf().record();
        Device gpu = new Device("GPU", "9.0", "12.8", "", false);
        leaf.setProfile("cuda-mma/v1");
        leaf.setDevice(new ComputeDevice("Other", "9.0", "12.4", Digest.ZERO.toHash(), false));
        leaf.setKvFormat("int8");
        assertThat(Tolerance.sameBits(leaf, "cuda-mma/v1", gpu)).isTrue();
        assertThat(Tolerance.sameBits(leaf, "cuda-mma/v2", gpu)).isFalse();
        assertThat(Tolerance.sameBits(leaf, "cuda-mma/v1", new Device("GPU", "8.0", "12.8", "", false))).isFalse();
        assertThat(Tolerance.sameBits(leaf, "cuda-mma/v1", new Device("GPU", "9.0", "12.8", "", true))).isFalse();
        assertThat(Tolerance.sameBits(leaf, "cuda-mma/v1", Device.PROCESSOR)).isFalse();
        assertThat(Tolerance.between(leaf, "cpu-strict/v3")).isNotNull();
        assertThat(Tolerance.between(leaf, "cpu-strict/v2")).as("nobody compared them").isNull();
        leaf.setKvFormat("another");
        assertThat(Tolerance.between(leaf, "cpu-strict/v3")).isNull();
        leaf.setKvFormat("f32 index f32");
        assertThat(Tolerance.between(leaf, "cpu-strict/v3")).as("sparse attention whose choice nothing rounds").isNotNull();
        leaf.setKvFormat("bf16 index bf16");
        assertThat(Tolerance.between(leaf, "cpu-strict/v3")).as("one choice more or less has no bound").isNull();
    }
}

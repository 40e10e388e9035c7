package millrace.streams;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import millrace.engine.ActivationTop;
import millrace.engine.FinishReason;
import millrace.engine.GenerationResult;
import millrace.engine.Trace;
import millrace.integrity.ActivationProof;
import millrace.integrity.Buffers;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.audit.AnswerReader.Answer;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import org.jspecify.annotations.Nullable;

/// Compares an answer of another profile with what this engine makes of it: its logits are not the same bits, so each step is
/// judged by how far apart the two choices are, and activation proofs by their own tolerances. Digests of logits say nothing
/// here.
///
/// @param nearTies steps at which another token was taken than this engine chooses, and may have been
/// @param proofs activation proofs that were checked
record TolerantComparison(Verdict verdict, int nearTies, int proofs) {
    /// Of an answer whose tokens are known, by following them.
    static TolerantComparison of(Answer answer, Completion completion, List<Integer> ids, Trace trace, Tolerance tolerance) {
        if (trace.reason() == FinishReason.FAILED) {
            return failed(answer, trace.errorCode(), trace.errorMessage());
        }
        Refuted far = trace.departures().stream().filter(departure -> departure.gap() > tolerance.most(departure)).findFirst()
                .map(departure -> far(answer, departure, tolerance)).orElse(null);
        if (far != null) {
            return new TolerantComparison(far, 0, 0);
        }
        boolean whole = trace.steps() == ids.size();
        Verdict text = text(answer, completion, whole ? trace.reason() : FinishReason.FAILED, trace.text());
        return text.ok()
                ? proofs(answer, completion, trace.activations(), trace.departures().size())
                : new TolerantComparison(text, 0, 0);
    }

    /// Of an answer whose tokens nobody has kept: they can only be the ones that come out here.
    static TolerantComparison of(Answer answer, Completion completion, GenerationResult result, byte[] salt) {
        if (result.reason() == FinishReason.FAILED) {
            return failed(answer, result.errorCode(), result.errorMessage());
        }
        if (!Commitment.tokenIds(salt, result.tokenIds()).equals(Digest.of(answer.leaf().record().getTokenIdsCommit()))) {
            return new TolerantComparison(new Undecided("REPLAY_TOKEN_IDS", answer.name()
                    + ": another answer comes out here, and its completion has no token ids to tell a near tie from another model;"
                    + " ask for them (return_token_ids), or replay with an engine of its profile"), 0, 0);
        }
        Verdict text = text(answer, completion, result.reason(), result.text());
        return text.ok()
                ? proofs(answer, completion, result.transcript().activations(), 0)
                : new TolerantComparison(text, 0, 0);
    }

    private static TolerantComparison failed(Answer answer, @Nullable String code, @Nullable String message) {
        return new TolerantComparison(
                new Undecided("REPLAY_ENGINE", "%s: the engine failed: %s: %s".formatted(answer.name(), code, message)), 0, 0);
    }

    private static Refuted far(Answer answer, Trace.Departure departure, Tolerance tolerance) {
        return refuted("REPLAY_TOKENS", answer, "token at step " + departure.step(),
                "%d, or one that %.3g between two logits would give".formatted(departure.chosen(), tolerance.most(departure)),
                "%d, which needs %.3g".formatted(departure.taken(), departure.gap()));
    }

    private static Refuted refuted(String code, Answer answer, String what, String expected, String got) {
        return new Refuted(code, "%s, request %s: %s".formatted(
                answer.name(), Intake.presentable(answer.leaf().record().getRequestId()), what), expected, got, answer.leaf().place());
    }

    private static Verdict text(Answer answer, Completion completion, FinishReason reason, String text) {
        AttestationRecord leaf = answer.leaf().record();
        if (!Replay.endedItself(leaf)) {
            return Verdict.VERIFIED;
        }
        if (!Completions.finish(reason).equals(leaf.getFinish())) {
            return refuted("REPLAY_TEXT", answer, "finish reason", Completions.finish(reason).toString(),
                    leaf.getFinish().toString());
        }
        Digest attested = Digest.of(leaf.getCompletionCommit());
        Digest again = Commitment.completion(Buffers.bytes(completion.getSalt()), text);
        return attested.equals(again)
                ? Verdict.VERIFIED
                : refuted("REPLAY_TEXT", answer, "text of the token ids", again.toString(), attested.toString());
    }

    /// Checks each run's proof against the activations that were computed here.
    private static TolerantComparison proofs(Answer answer, Completion completion, List<ActivationTop> runs, int nearTies) {
        AttestationRecord leaf = answer.leaf().record();
        ByteBuffer kept = completion.getActivationProofs();
        if (leaf.getProofsCommit() == null || kept == null) {
            return new TolerantComparison(Verdict.VERIFIED, nearTies, 0);
        }
        byte[] bytes = Buffers.bytes(kept);
        byte[] salt = Buffers.bytes(completion.getSalt());
        Digest opened = Commitment.proofs(salt, bytes);
        Verdict verdict = Verdict.VERIFIED;
        if (!opened.equals(Digest.of(leaf.getProofsCommit()))) {
            verdict = refuted("REPLAY_PROOFS", answer, "activation proofs", Digest.of(leaf.getProofsCommit()).toString(),
                    opened.toString());
        } else if (bytes.length != runs.size() * ActivationProof.BYTES) {
            verdict = refuted("REPLAY_PROOFS", answer, "bytes of activation proofs",
                    Integer.toString(runs.size() * ActivationProof.BYTES), Integer.toString(bytes.length));
        }
        for (int i = 0; i < runs.size() && verdict.ok(); i++) {
            verdict = proof(answer, i, Arrays.copyOfRange(bytes, i * ActivationProof.BYTES, (i + 1) * ActivationProof.BYTES),
                    runs.get(i));
        }
        return new TolerantComparison(verdict, nearTies, verdict.ok() ? runs.size() : 0);
    }

    private static Verdict proof(Answer answer, int number, byte[] bytes, ActivationTop run) {
        String what = "activation proof " + number + ", of the tokens from step " + number * ActivationTop.TOKENS;
        try {
            ActivationProof.Comparison agreement = ActivationProof.parse(bytes).compare(run.indices(), run.bits());
            return agreement.plausible()
                    ? Verdict.VERIFIED
                    : refuted("REPLAY_PROOFS", answer, what, "one that the attested model can have made",
                            String.format(Locale.ROOT, "%d of %d exponents, mantissas apart by %.1f in the mean and %.1f in the median",
                                    agreement.matches(), agreement.values(), agreement.mean(), agreement.median()));
        } catch (IntegrityException e) {
            return refuted("REPLAY_PROOFS", answer, what, "an activation proof", String.valueOf(e.getMessage()));
        }
    }
}

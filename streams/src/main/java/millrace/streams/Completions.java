package millrace.streams;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.TextEngine;
import millrace.engine.Transcript;
import millrace.integrity.Leaf;
import millrace.integrity.TreeState;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import millrace.schemas.RecordModel;
import millrace.schemas.Timings;
import millrace.schemas.Usage;

/// Writes completion records.
final class Completions {
    private final TextEngine engine;
    private final ModelCard card;

    /// @param engine whose chat format reads the answers
    Completions(TextEngine engine) {
        this.engine = engine;
        this.card = engine.card();
    }

    /// Name of the model that answers.
    String model() {
        return card.name();
    }

    /// What the completion of an outcome says beside its text.
    BesideText beside(Outcome.Answered outcome) {
        return BesideText.of(engine, outcome.prepared(), outcome.result());
    }

    Completion answered(Outcome.Answered outcome, BesideText beside, TreeState log, Leaf leaf, byte[] salt) {
        GenerationResult result = outcome.result();
        Prompt prompt = outcome.prompt();
        millrace.engine.Timings timings = result.timings();
        Transcript transcript = result.transcript();
        boolean replayable = !transcript.logitsDigests().isEmpty();
        byte[] proofs = Proofs.of(transcript);
        return Completion.newBuilder()
                .setRequestId(prompt.getRequestId())
                .setTenant(prompt.getTenant())
                .setSessionId(prompt.getSessionId())
                .setModel(card.name())
                .setModelDigest(card.modelDigest())
                .setText(result.text())
                .setTokenIds(prompt.getReturnTokenIds() ? List.copyOf(result.tokenIds()) : null)
                .setFinishReason(finish(result.reason()))
                .setUsage(new Usage(
                        result.usage().promptTokens(), result.usage().completionTokens(), result.usage().cachedPromptTokens()))
                .setTimings(new Timings(
                        timings.queuedNanos() / 1000, timings.firstTokenNanos() / 1000, timings.decodeNanos() / 1000))
                .setErrorCode(result.errorCode())
                .setErrorMessage(result.errorMessage())
                .setSeed(outcome.prepared().request().sampling().seed())
                .setAudit(position(log, leaf))
                .setSalt(ByteBuffer.wrap(salt))
                .setMetadata(prompt.getMetadata())
                .setKvFormat(card.kvFormat())
                .setWeightFormat(card.weightFormat())
                .setActivationProofs(proofs == null ? null : ByteBuffer.wrap(proofs))
                .setLogitsDigests(replayable ? List.copyOf(transcript.logitsDigests()) : null)
                .setLogitsEvery(replayable ? transcript.logitsEvery() : 0)
                .setReply(beside.reply())
                .setLogprobs(beside.logprobs())
                .build();
    }

    Completion rejected(Outcome.Rejected outcome, TreeState log, Leaf leaf, byte[] salt) {
        Prompt prompt = outcome.prompt();
        // What the checks may have refused is echoed in a form that cannot do harm downstream.
        boolean metadataFits = Intake.checkMetadata(prompt.getMetadata()) == null;
        return Completion.newBuilder()
                .setRequestId(Intake.presentable(prompt.getRequestId()))
                .setTenant(prompt.getTenant() == null ? null : Intake.presentable(prompt.getTenant()))
                .setSessionId(prompt.getSessionId() == null ? null : Intake.presentable(prompt.getSessionId()))
                .setModel(card.name())
                .setModelDigest(card.modelDigest())
                .setText("")
                .setTokenIds(null)
                .setFinishReason(FinishReason.rejected)
                .setUsage(new Usage(0, 0, 0))
                .setTimings(new Timings(0L, 0L, 0L))
                .setErrorCode(outcome.code())
                .setErrorMessage(outcome.message())
                .setRetryAfterMs(outcome.retryAfterMs())
                .setSeed(0L)
                .setAudit(position(log, leaf))
                .setSalt(ByteBuffer.wrap(salt))
                .setMetadata(metadataFits ? prompt.getMetadata() : Map.of())
                .setKvFormat(card.kvFormat())
                .setWeightFormat(card.weightFormat())
                .build();
    }

    /// The same outcome as a failure, when the completion record is too large to be written.
    Outcome.Answered tooLarge(Outcome.Answered outcome, int bytes, int maxBytes) {
        GenerationResult result = outcome.result();
        GenerationResult failed = new GenerationResult(
                "", List.of(), millrace.engine.FinishReason.FAILED, result.usage(), result.timings(), "RESULT_TOO_LARGE",
                "completion: expected a record of at most " + maxBytes + " bytes, got " + bytes + "; ask for fewer tokens",
                Transcript.NONE);
        // Not the builder: it copies nested records by looking up their classes by name, which Avro refuses.
        Prompt lean = RecordModel.instance().deepCopy(Prompt.getClassSchema(), outcome.prompt());
        lean.setMetadata(Map.of());
        return new Outcome.Answered(outcome.source(), lean, outcome.prepared(), failed, outcome.withheld());
    }

    static FinishReason finish(millrace.engine.FinishReason reason) {
        return switch (reason) {
            case STOP -> FinishReason.stop;
            case LENGTH -> FinishReason.length;
            case DEADLINE -> FinishReason.deadline;
            case CANCELLED -> FinishReason.cancelled;
            case FAILED -> FinishReason.failed;
        };
    }

    private static AuditPosition position(TreeState log, Leaf leaf) {
        return new AuditPosition(log.origin().text(), log.origin().partition(), log.size(), leaf.hash().toHash());
    }
}

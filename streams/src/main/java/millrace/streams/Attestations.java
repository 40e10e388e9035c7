package millrace.streams;

import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;
import millrace.engine.Device;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityState;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.ResponseFormat;
import millrace.engine.Sampling;
import millrace.engine.Transcript;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.NoteSigner;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.ComputeDevice;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.PreviousLog;
import millrace.schemas.TenantRef;
import org.jspecify.annotations.Nullable;

/// Writes attestation records: what is claimed of one outcome.
final class Attestations {
    /// The first version of the record that commits to response formats and replies.
    static final int VERSION_OF_REPLIES = 4;

    private static final int SCHEMA_VERSION = 4;
    private static final Hash NONE = Digest.ZERO.toHash();
    private static final byte[] NOTHING = new byte[0];
    private static final int LEVEL_COMMITMENTS = 0;
    private static final int LEVEL_TOKENS = 1;
    private static final int LEVEL_ACTIVATIONS = 2;
    private static final int LEVEL_LOGITS = 3;
    private static final long CHECK_SIGNATURE = 1;
    private static final long CHECK_DIGEST_PINNED = 1L << 1;
    private static final long CHECK_SCRUBBED = 1L << 2;
    private static final long CHECK_KV_PAGES = 1L << 3;
    private static final long CHECK_PRODUCTS = 1L << 4;
    private static final long CHECK_NUMERIC_GUARD = 1L << 5;
    private static final long CHECK_CANARY = 1L << 6;
    /// A check counts until the next one should have been over for as long again.
    private static final int FRESH_INTERVALS = 2;

    private final ModelCard card;
    private final IntegrityConfig integrity;
    private final Supplier<IntegrityState> state;
    private final long checksAtLoad;
    private final String verifyMode;
    private final String instanceId;
    private final String completionsTopic;
    private final String dlqTopic;
    private final NoteSigner signer;
    private final Hash modelDigest;
    private final Hash buildDigest;
    private final String buildVersion;
    private final @Nullable ComputeDevice device;

    /// @param state what the engine's checks say now
    Attestations(
            ModelCard card, Supplier<IntegrityState> state, ServiceConfig config, String instanceId, NoteSigner signer) {
        this.card = card;
        this.integrity = config.integrity();
        this.state = state;
        boolean pinned = !config.string("engine.model.digest").isBlank();
        this.checksAtLoad = (card.trust().verified() ? CHECK_SIGNATURE : 0) | (pinned ? CHECK_DIGEST_PINNED : 0);
        this.verifyMode = verifyMode(card.trust(), config.string("engine.model.verify"), pinned);
        this.instanceId = instanceId;
        this.completionsTopic = config.string("topics.completions");
        this.dlqTopic = config.string("topics.dlq");
        this.signer = signer;
        this.modelDigest = hash(card.modelDigest());
        int space = card.build().indexOf(' ');
        this.buildVersion = space < 0 ? card.build() : card.build().substring(0, space);
        this.device = device(card.device());
        this.buildDigest = space < 0 ? NONE : hash(card.build().substring(space + 1));
    }

    /// What an auditor learns of the load: the mode that was in force, and `off` only where somebody chose it.
    private static String verifyMode(ModelTrust trust, String configured, boolean pinned) {
        if (!trust.mode().equals("off") || configured.equals("off")) {
            return trust.mode();
        }
        return pinned ? "digest_pinned" : "digest_recorded";
    }

    String verifyMode() {
        return verifyMode;
    }

    private static @Nullable ComputeDevice device(Device device) {
        return device.isProcessor()
                ? null
                : new ComputeDevice(device.name(), device.capability(), device.driver(), hash(device.imageSha256()), device.standIn());
    }

    private static @Nullable Hash hashOrNull(String text) {
        return text.isEmpty() ? null : hash(text);
    }

    /// A digest given as hexadecimal digits, with or without an algorithm before a colon; zeros for anything else.
    private static Hash hash(String text) {
        String hex = text.substring(text.indexOf(':') + 1);
        return hex.matches("[0-9a-f]{64}") ? Digest.ofHex(hex).toHash() : NONE;
    }

    AttestationRecord answered(TreeState log, Outcome.Answered outcome, BesideText beside, byte[] salt, long nowMs) {
        GenerationResult result = outcome.result();
        GenerationRequest request = outcome.prepared().request();
        Sampling sampling = request.sampling();
        Transcript transcript = result.transcript();
        boolean replayable = !transcript.logitsDigests().isEmpty();
        byte[] proofs = Proofs.of(transcript);
        IntegrityState now = state.get();
        return base(log, outcome.source(), AuditEvent.INFERENCE, now, nowMs)
                .setRequestId(outcome.prompt().getRequestId())
                .setTenantRef(tenant(outcome.prompt().getTenant()))
                .setPromptCommit(Commitment.prompt(salt, outcome.prepared().text()).toHash())
                .setCompletionCommit(Commitment.completion(salt, result.text()).toHash())
                .setTokenIdsCommit(Commitment.tokenIds(salt, result.tokenIds()).toHash())
                .setPromptTokens(result.usage().promptTokens())
                .setCompletionTokens(result.usage().completionTokens())
                .setFinish(Completions.finish(result.reason()))
                .setErrorCode(result.errorCode() == null ? "" : result.errorCode())
                .setSeed(sampling.seed())
                .setTemperatureBits(Float.floatToRawIntBits(sampling.temperature()))
                .setTopPBits(Float.floatToRawIntBits(sampling.topP()))
                .setTopK(sampling.topK())
                .setMinPBits(Float.floatToRawIntBits(sampling.minP()))
                .setRepetitionPenaltyBits(Float.floatToRawIntBits(sampling.repetitionPenalty()))
                .setMaxTokens(request.maxNewTokens())
                .setStopCommit(Commitment.stopList(salt, request.stop()).toHash())
                .setChecks(checks(transcript, now))
                .setMaxBatch(transcript.maxBatch())
                .setRecomputedSteps(transcript.recomputedSteps())
                .setVerdict(verdict(outcome))
                .setLevel(replayable ? LEVEL_LOGITS : proofs != null ? LEVEL_ACTIVATIONS : LEVEL_TOKENS)
                .setKvPagesVerified(transcript.kvPagesVerified())
                .setKvMismatches(transcript.kvMismatches())
                .setLogitsEvery(replayable ? transcript.logitsEvery() : 0)
                .setProofsCommit(proofs == null ? null : Commitment.proofs(salt, proofs).toHash())
                .setLogitsCommit(replayable ? Commitment.logits(salt, transcript.logitsDigests()).toHash() : null)
                .setGuideCommit(guide(request.format(), outcome.prompt().getResponseFormat(), salt))
                .setReplyCommit(beside.commit(salt))
                .build();
    }

    /// The commitment to a form that narrows the choice of tokens; null for one that does not.
    ///
    /// @param text as the prompt has it
    static @Nullable Hash guide(ResponseFormat format, @Nullable String text, byte[] salt) {
        String committed = guideText(format, text);
        return committed == null ? null : Commitment.guide(salt, committed).toHash();
    }

    /// What is committed to: the response format as the prompt has it, or what calls are held to.
    static @Nullable String guideText(ResponseFormat format, @Nullable String text) {
        return switch (format) {
            case ResponseFormat.Text any -> null;
            case ResponseFormat.Calls calls -> calls.text();
            case ResponseFormat.JsonObject object -> text;
            case ResponseFormat.JsonSchema schema -> text;
        };
    }

    private static AuditVerdict verdict(Outcome.Answered outcome) {
        if (outcome.result().reason() == millrace.engine.FinishReason.FAILED) {
            return AuditVerdict.FAILED;
        }
        Transcript transcript = outcome.result().transcript();
        boolean again = transcript.recomputedSteps() > 0 || transcript.kvMismatches() > 0 || outcome.withheld() > 0;
        return again ? AuditVerdict.OK_RECOMPUTED : AuditVerdict.OK;
    }

    private long checks(Transcript transcript, IntegrityState now) {
        long checks = checksAtLoad;
        checks |= isFresh(now.scrubAgeMs(), integrity.scrubInterval()) ? CHECK_SCRUBBED : 0;
        checks |= transcript.kvPagesVerified() > 0 ? CHECK_KV_PAGES : 0;
        checks |= transcript.productsChecked() ? CHECK_PRODUCTS : 0;
        checks |= transcript.numericGuard() ? CHECK_NUMERIC_GUARD : 0;
        checks |= isFresh(now.canaryAgeMs(), integrity.canaryInterval()) ? CHECK_CANARY : 0;
        return checks;
    }

    /// @param ageMs -1 for a check that is not made
    private static boolean isFresh(long ageMs, Duration interval) {
        return ageMs >= 0 && interval.isPositive() && ageMs <= FRESH_INTERVALS * interval.toMillis();
    }

    AttestationRecord rejected(TreeState log, Outcome.Rejected outcome, byte[] salt, long nowMs) {
        return refused(log, outcome.source(), outcome.code(), salt, nowMs)
                .setRequestId(Intake.presentable(outcome.prompt().getRequestId()))
                .setTenantRef(tenant(outcome.prompt().getTenant()))
                .setFinish(FinishReason.rejected)
                .build();
    }

    AttestationRecord undecodable(TreeState log, Outcome.Undecodable outcome, byte[] salt, long nowMs) {
        return refused(log, outcome.source(), outcome.code(), salt, nowMs)
                .setOutTopic(dlqTopic)
                .setFinish(FinishReason.unknown)
                .build();
    }

    /// @param order that began the epoch, where one did
    /// @param newKey the key that signs from here on if the one before is not to be trusted
    AttestationRecord epochStart(
            TreeState log, PreviousLog previous, @Nullable Source order, @Nullable String newKey, long nowMs) {
        return event(log, order, AuditEvent.EPOCH_START, nowMs).setPreviousLog(previous).setNewKey(newKey).build();
    }

    /// A leaf that is no answer, to be filled in.
    ///
    /// @param cause the record that made it necessary, where there is one
    AttestationRecord.Builder event(TreeState log, @Nullable Source cause, AuditEvent event, long nowMs) {
        return base(log, cause, event, state.get(), nowMs).setOutTopic("").setOutPartition(-1);
    }

    private AttestationRecord.Builder refused(TreeState log, Source source, String code, byte[] salt, long nowMs) {
        byte[] value = source.value() == null ? NOTHING : source.value();
        return base(log, source, AuditEvent.REFUSED, state.get(), nowMs)
                .setPromptCommit(Commitment.record(salt, value).toHash())
                .setCompletionCommit(Commitment.completion(salt, "").toHash())
                .setTokenIdsCommit(Commitment.tokenIds(salt, List.of()).toHash())
                .setStopCommit(Commitment.stopList(salt, List.of()).toHash())
                .setErrorCode(code)
                .setVerdict(AuditVerdict.REFUSED);
    }

    /// The leaf of something that is no answer: `detail` is all that it says beyond what serves here.
    AttestationRecord.Builder event(TreeState log, AuditEvent event, long nowMs, AuditVerdict verdict, String detail) {
        return base(log, null, event, state.get(), nowMs)
                .setChecks(event == AuditEvent.MODEL_LOAD ? checksAtLoad : 0)
                .setVerdict(verdict)
                .setDetail(detail);
    }

    private AttestationRecord.Builder base(
            TreeState log, @Nullable Source source, AuditEvent event, IntegrityState now, long nowMs) {
        return AttestationRecord.newBuilder()
                .setSchemaVersion(SCHEMA_VERSION)
                .setLogOrigin(log.origin().text())
                .setEpoch(log.epoch())
                .setSeq(log.size())
                .setPrevLeaf(log.lastLeaf().toHash())
                .setEvent(event)
                .setTimeMs(nowMs)
                .setInstanceId(instanceId)
                .setRequestId("")
                .setTenantRef(tenant(null))
                .setInTopic(source == null ? "" : source.topic())
                .setInPartition(source == null ? -1 : source.partition())
                .setInOffset(source == null ? -1 : source.offset())
                .setOutTopic(source == null ? "" : completionsTopic)
                .setOutPartition(source == null ? -1 : source.partition())
                .setPromptCommit(NONE)
                .setCompletionCommit(NONE)
                .setTokenIdsCommit(NONE)
                .setPromptTokens(0)
                .setCompletionTokens(0)
                .setFinish(FinishReason.unknown)
                .setErrorCode("")
                .setModelName(card.name())
                .setModelDigest(modelDigest)
                .setVerifyMode(verifyMode)
                .setTokenizerSha256(hash(card.tokenizerDigest()))
                .setTemplateSha256(hash(card.templateDigest()))
                .setBuild(buildVersion)
                .setBuildSha256(buildDigest)
                .setProfile(card.profile())
                .setBackend(card.backend())
                .setKvFormat(card.kvFormat())
                .setWeightFormat(card.weightFormat())
                .setSampler(Sampling.ALGORITHM)
                .setSeed(0L)
                .setTemperatureBits(0)
                .setTopPBits(0)
                .setTopK(0)
                .setMinPBits(0)
                .setRepetitionPenaltyBits(0)
                .setMaxTokens(0)
                .setStopCommit(NONE)
                .setChecks(0L)
                .setMaxBatch(0)
                .setRecomputedSteps(0)
                .setVerdict(AuditVerdict.UNKNOWN)
                .setLevel(LEVEL_COMMITMENTS)
                .setBundleSha256(hashOrNull(card.trust().bundleSha256()))
                .setKeyHint(hashOrNull(card.trust().keyHint()))
                .setBlockTableSha256(hashOrNull(card.blockTableSha256()))
                .setDevice(device)
                .setScrubGeneration(now.scrubGeneration())
                .setScrubAgeMs(now.scrubAgeMs());
    }

    TenantRef tenant(@Nullable String tenant) {
        return signer.tenantRef(tenant == null ? "" : tenant);
    }
}

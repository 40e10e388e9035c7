package millrace.streams;

import java.util.List;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.Sampling;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.NoteSigner;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.PreviousLog;
import millrace.schemas.TenantRef;
import org.jspecify.annotations.Nullable;

/// Writes attestation records: what is claimed of one outcome.
final class Attestations {
    private static final int SCHEMA_VERSION = 3;
    private static final Hash NONE = Digest.ZERO.toHash();
    private static final byte[] NOTHING = new byte[0];
    private static final long CHECK_DIGEST_PINNED = 1L << 1;
    private static final long CHECK_NUMERIC_GUARD = 1L << 5;

    private final ModelCard card;
    private final boolean pinned;
    private final String instanceId;
    private final String completionsTopic;
    private final String dlqTopic;
    private final NoteSigner signer;
    private final Hash modelDigest;
    private final Hash buildDigest;
    private final String buildVersion;

    Attestations(ModelCard card, ServiceConfig config, String instanceId, NoteSigner signer) {
        this.card = card;
        this.pinned = !config.string("engine.model.digest").isBlank();
        this.instanceId = instanceId;
        this.completionsTopic = config.string("topics.completions");
        this.dlqTopic = config.string("topics.dlq");
        this.signer = signer;
        this.modelDigest = hash(card.modelDigest());
        int space = card.build().indexOf(' ');
        this.buildVersion = space < 0 ? card.build() : card.build().substring(0, space);
        this.buildDigest = space < 0 ? NONE : hash(card.build().substring(space + 1));
    }

    /// A digest given as hexadecimal digits, with or without an algorithm before a colon; zeros for anything else.
    private static Hash hash(String text) {
        String hex = text.substring(text.indexOf(':') + 1);
        return hex.matches("[0-9a-f]{64}") ? Digest.ofHex(hex).toHash() : NONE;
    }

    AttestationRecord answered(TreeState log, Outcome.Answered outcome, byte[] salt, long nowMs) {
        GenerationResult result = outcome.result();
        GenerationRequest request = outcome.prepared().request();
        Sampling sampling = request.sampling();
        boolean failed = result.reason() == millrace.engine.FinishReason.FAILED;
        return base(log, outcome.source(), AuditEvent.INFERENCE, nowMs)
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
                .setChecks((pinned ? CHECK_DIGEST_PINNED : 0) | (result.transcript().numericGuard() ? CHECK_NUMERIC_GUARD : 0))
                .setMaxBatch(result.transcript().maxBatch())
                .setRecomputedSteps(result.transcript().recomputedSteps())
                .setVerdict(failed ? AuditVerdict.FAILED
                        : result.transcript().recomputedSteps() > 0 ? AuditVerdict.OK_RECOMPUTED : AuditVerdict.OK)
                .build();
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

    AttestationRecord epochStart(TreeState log, PreviousLog previous, long nowMs) {
        return base(log, null, AuditEvent.EPOCH_START, nowMs).setPreviousLog(previous).build();
    }

    private AttestationRecord.Builder refused(TreeState log, Source source, String code, byte[] salt, long nowMs) {
        byte[] value = source.value() == null ? NOTHING : source.value();
        return base(log, source, AuditEvent.REFUSED, nowMs)
                .setPromptCommit(Commitment.record(salt, value).toHash())
                .setCompletionCommit(Commitment.completion(salt, "").toHash())
                .setTokenIdsCommit(Commitment.tokenIds(salt, List.of()).toHash())
                .setStopCommit(Commitment.stopList(salt, List.of()).toHash())
                .setErrorCode(code)
                .setVerdict(AuditVerdict.REFUSED);
    }

    private AttestationRecord.Builder base(TreeState log, @Nullable Source source, AuditEvent event, long nowMs) {
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
                .setVerifyMode(pinned ? "digest_pinned" : "digest_recorded")
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
                .setVerdict(AuditVerdict.UNKNOWN);
    }

    private TenantRef tenant(@Nullable String tenant) {
        return signer.tenantRef(tenant == null ? "" : tenant);
    }
}

package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import millrace.integrity.Checkpoint;
import millrace.integrity.NoteSigner;
import millrace.integrity.SignedNote;
import millrace.integrity.TenantKey;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Control;
import millrace.schemas.PreviousLog;
import millrace.schemas.PruneMark;
import millrace.schemas.SaltRecord;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;

/// Keeps one log beside its answers: who signs it, where it may begin, the salts of its leaves and the tenants' keys, and what the
/// operator orders.
final class LogKeeper {
    /// What the keepers of one process share.
    ///
    /// @param signer the audit key
    /// @param previous the audit key before it, where one is configured
    /// @param control reads orders
    /// @param salts writes the salts' records; null to keep none
    /// @param retention how long the audit topic keeps leaves; null for ever
    record Shared(
            NoteSigner signer,
            @Nullable NoteSigner previous,
            AvroDecoder<Control> control,
            @Nullable AvroEncoder<SaltRecord> salts,
            @Nullable Duration retention) {}

    /// Where the task's log takes leaves, and where salts go.
    interface Writer {
        /// Appends the record as the next leaf.
        void leaf(AttestationRecord record);

        /// @param value null erases
        void salt(byte[] key, byte @Nullable [] value);

        /// Signs the log as it is now.
        ///
        /// @return false if that failed: some leaves have no signature
        boolean checkpoint();

        /// The log ends here; its next epoch begins.
        void epochEnds();
    }

    private final AuditLog log;
    private final LogKeys signers;
    private final LogKeys.Signing signing;
    private final PruneMarks marks;
    private final TenantKeys tenants;
    private final @Nullable AvroEncoder<SaltRecord> salts;
    private final Attestations attestations;
    private final SecureRandom random;
    private final Writer writer;
    private final LogOrders orders;
    private boolean marksAreNew = true;
    private @Nullable PruneMark due;

    private LogKeeper(AttestProcessor.Shared shared, AuditLog log, LogKeys signers, PruneMarks marks, TenantKeys tenants, Writer writer) {
        this.log = log;
        this.signers = signers;
        this.signing = shared.signing();
        this.marks = marks;
        this.tenants = tenants;
        this.salts = shared.keeping().salts();
        this.attestations = shared.attestations();
        this.random = shared.random();
        this.writer = writer;
        this.orders = new LogOrders(this, attestations, shared.metrics());
    }

    /// Opens the task's stores.
    ///
    /// @throws LogKeys.KeyException if the configured keys are not those that the log needs
    static LogKeeper open(AttestProcessor.Shared shared, ProcessorContext<?, ?> context, AuditLog log, Writer writer) {
        Shared keeping = shared.keeping();
        KeyValueStore<Bytes, byte[]> store = context.getStateStore(AuditLog.STORE);
        LogKeys signers = LogKeys.open(
                store, log, keeping.signer(), keeping.previous(), shared.config().span("audit.key.overlap"),
                shared.config().flag("audit.epoch.new"), shared.clock().millis());
        PruneMarks marks = new PruneMarks(store, keeping.retention());
        if (log.previous() != null) {
            marks.clear();
        }
        if (log.state().size() == 0) {
            marks.take(log.state(), shared.clock().millis());
        }
        TenantKeys tenants = new TenantKeys(
                context.getStateStore(TenantKeys.STORE), keeping.signer(), keeping.previous(), shared.random());
        return new LogKeeper(shared, log, signers, marks, tenants, writer);
    }

    /// Appends what the log must say before its next leaf: that an epoch begins, that another key signs.
    void open(long nowMs) {
        if (log.previous() != null) {
            leaf(attestations.epochStart(log.state(), log.previous(), null, signers.afterCompromise(), nowMs));
            signers.begun();
        }
        if (signers.rotationDue()) {
            leaf(attestations.event(log.state(), AuditEvent.KEY_ROTATION, nowMs, AuditVerdict.OK, signers.detail())
                    .setNewKey(signers.newKey()).build());
            signers.rotated(nowMs);
        }
    }

    /// Takes a mark when it is time for one, and says whether the log has something to say of itself.
    boolean hasNews(long nowMs) {
        signers.retire(nowMs);
        if (marks.take(log.state(), nowMs) || marksAreNew) {
            marksAreNew = false;
            due = marks.due(log.state(), nowMs);
        }
        return signers.rotationDue() || due != null;
    }

    /// Says where the log may begin, if that is due.
    void prune(long nowMs) {
        PruneMark mark = due;
        if (mark != null) {
            leaf(attestations.event(log.state(), AuditEvent.PRUNE, nowMs, AuditVerdict.OK, "").setPrune(mark).build());
            marks.stated(mark);
            due = null;
        }
    }

    SignedNote sign(Checkpoint head) {
        return signers.sign(head, signing);
    }

    /// A checkpoint was handed on.
    void signed(long nowMs) {
        signers.signed(nowMs);
    }

    TreeState state() {
        return log.state();
    }

    void carryOut(Outcome.Ordered order, long nowMs) {
        orders.carryOut(order, nowMs);
    }

    /// Keeps the salt of the leaf that is appended next. Who asked under a name that is none has no key.
    void keepSalt(@Nullable String tenant, String requestId, byte[] salt) {
        if (salts == null || tenant != null && !Intake.isTenant(tenant)) {
            return;
        }
        String name = tenant == null ? "" : tenant;
        String origin = log.state().origin().text();
        SaltRecord record = tenants.of(name).seal(origin, log.state().size(), requestId, attestations.tenant(name), salt, random);
        writer.salt(saltKey(origin, log.state().size()), salts.encode(record));
    }

    void leaf(AttestationRecord record) {
        writer.leaf(record);
    }

    void eraseSalt(String origin, long seq) {
        writer.salt(saltKey(origin, seq), null);
    }

    /// @return how many keys were destroyed
    int eraseTenant(String tenant) {
        return tenants.erase(tenant);
    }

    /// Signs the log to its end and begins the next, which names it.
    ///
    /// @return false if the log cannot be signed now; then it goes on
    boolean newEpoch(Source source, String reason, long nowMs) {
        if (!writer.checkpoint()) {
            return false;
        }
        writer.epochEnds();
        marks.clear();
        due = null;
        PreviousLog ended = log.newEpoch(reason);
        marks.take(log.state(), nowMs);
        leaf(attestations.epochStart(log.state(), ended, source, null, nowMs));
        return true;
    }

    private static byte[] saltKey(String origin, long seq) {
        return TenantKey.saltKey(origin, seq).getBytes(StandardCharsets.UTF_8);
    }
}

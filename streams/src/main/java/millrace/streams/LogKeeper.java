package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import millrace.integrity.NoteSigner;
import millrace.integrity.TenantKey;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Control;
import millrace.schemas.SaltRecord;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.jspecify.annotations.Nullable;

/// Keeps one log beside its answers: the salts of its leaves, the tenants' keys, and what the operator orders.
final class LogKeeper {
    /// What the keepers of one process share.
    ///
    /// @param signer the audit key
    /// @param control reads orders
    /// @param salts writes the salts' records; null to keep none
    record Shared(NoteSigner signer, AvroDecoder<Control> control, @Nullable AvroEncoder<SaltRecord> salts) {}

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

        /// The log ends here; what is remembered of its leaves is of no use for the next.
        void epochEnds();
    }

    private final AuditLog log;
    private final TenantKeys keys;
    private final @Nullable AvroEncoder<SaltRecord> salts;
    private final Attestations attestations;
    private final SecureRandom random;
    private final Writer writer;
    private final LogOrders orders;

    /// Opens the task's stores.
    static LogKeeper open(
            Shared shared, ProcessorContext<?, ?> context, AuditLog log, Attestations attestations, ServiceMetrics metrics,
            SecureRandom random, Writer writer) {
        TenantKeys keys = new TenantKeys(context.getStateStore(TenantKeys.STORE), shared.signer(), null, random);
        return new LogKeeper(shared, log, keys, attestations, metrics, random, writer);
    }

    private LogKeeper(
            Shared shared, AuditLog log, TenantKeys keys, Attestations attestations, ServiceMetrics metrics, SecureRandom random,
            Writer writer) {
        this.log = log;
        this.keys = keys;
        this.salts = shared.salts();
        this.attestations = attestations;
        this.random = random;
        this.writer = writer;
        this.orders = new LogOrders(this, attestations, metrics);
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
        SaltRecord record = keys.of(name).seal(origin, log.state().size(), requestId, attestations.tenant(name), salt, random);
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
        return keys.erase(tenant);
    }

    /// Signs the log to its end and begins the next, which names it.
    ///
    /// @return false if the log cannot be signed now; then it goes on
    boolean newEpoch(Source source, String reason, long nowMs) {
        if (!writer.checkpoint()) {
            return false;
        }
        writer.epochEnds();
        leaf(attestations.epochStart(log.newEpoch(reason), log.state(), source, nowMs));
        return true;
    }

    private static byte[] saltKey(String origin, long seq) {
        return TenantKey.saltKey(origin, seq).getBytes(StandardCharsets.UTF_8);
    }
}

package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import millrace.integrity.Commitment;
import millrace.integrity.Leaf;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.SignedNote;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.streams.registry.AvroEncoder;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/// Turns outcomes into completions and leaves: no completion leaves without its attestation, in the same transaction.
///
/// A batch of outcomes is one call, so that the log's state is put into the store once per batch and always before
/// the thread can commit.
final class AttestProcessor implements Processor<byte[], List<Outcome>, byte[], Outgoing> {
    static final String COMPLETIONS_SINK = "completions";
    static final String AUDIT_SINK = "audit";
    static final String CHECKPOINTS_SINK = "checkpoints";
    static final String DLQ_SINK = "dlq";

    /// What the processors of one process share.
    ///
    /// @param patience how long the audit topic may disagree with the log's state at a start before it counts
    record Shared(
            Attestations attestations,
            Completions completions,
            Encoders encoders,
            NoteSigner signer,
            AuditTail tail,
            Duration patience,
            String originDomain,
            String cluster,
            ServiceMetrics metrics,
            Clock clock,
            Ticker ticker,
            SecureRandom random,
            ServiceConfig config) {}

    /// Encoders of what the service writes; a leaf brings its own bytes and needs only the schema's id.
    record Encoders(AvroEncoder<Completion> completion, int attestationId, AvroEncoder<CheckpointRecord> checkpoint) {}

    private final Shared shared;
    private final int maxBytes;
    private ProcessorContext<byte[], Outgoing> context;
    private AuditLog log;
    private long signedSize = -1;

    @SuppressWarnings("NullAway.Init") // init() runs before any record
    AttestProcessor(Shared shared) {
        this.shared = shared;
        this.maxBytes = ProducerLimits.maxRecordBytes(shared.config());
    }

    @Override
    public void init(ProcessorContext<byte[], Outgoing> context) {
        this.context = context;
        // Kafka Streams may initialize the same instance again, on a state that was taken back.
        signedSize = -1;
        ServiceConfig config = shared.config();
        Origin origin = new Origin(
                shared.originDomain(), shared.cluster(), config.string("topics.audit"), context.taskId().partition(), 0);
        log = AuditLog.open(
                context.getStateStore(AuditLog.STORE), origin, shared.tail(), shared.patience(), shared.ticker(),
                config.flag("audit.epoch.new"));
        context.schedule(config.duration("audit.checkpoint.interval.ms"), PunctuationType.WALL_CLOCK_TIME, now -> checkpoint());
    }

    @Override
    public void process(Record<byte[], List<Outcome>> batch) {
        for (Outcome outcome : batch.value()) {
            if (log.previous() != null) {
                AttestationRecord start = shared.attestations().epochStart(log.state(), log.previous(), shared.clock().millis());
                leaf(start, new byte[0]);
            }
            attest(outcome);
            shared.metrics().outcome(outcome);
        }
        log.save();
    }

    private void attest(Outcome outcome) {
        Source source = outcome.source();
        byte[] salt = Commitment.newSalt(shared.random());
        long now = shared.clock().millis();
        switch (outcome) {
            case Outcome.Answered answered -> {
                Outcome.Answered fitting = answered;
                AttestationRecord record = shared.attestations().answered(log.state(), answered, salt, now);
                Leaf leaf = Leaf.of(record);
                Completion completion = shared.completions().answered(answered, log.state(), leaf, salt);
                byte[] wire = shared.encoders().completion().encode(completion);
                if (wire.length > maxBytes) {
                    // A record that the broker refuses would end the thread, and come back at each restart.
                    fitting = shared.completions().tooLarge(answered, wire.length, maxBytes);
                    record = shared.attestations().answered(log.state(), fitting, salt, now);
                    leaf = Leaf.of(record);
                    wire = shared.encoders().completion().encode(
                            shared.completions().answered(fitting, log.state(), leaf, salt));
                }
                forwardCompletion(source, completion.getRequestId(), leaf, wire, now);
            }
            case Outcome.Rejected rejected -> {
                AttestationRecord record = shared.attestations().rejected(log.state(), rejected, salt, now);
                Leaf leaf = Leaf.of(record);
                Completion completion = shared.completions().rejected(rejected, log.state(), leaf, salt);
                forwardCompletion(
                        source, completion.getRequestId(), leaf, shared.encoders().completion().encode(completion), now);
            }
            case Outcome.Undecodable undecodable -> {
                Leaf leaf = Leaf.of(shared.attestations().undecodable(log.state(), undecodable, salt, now));
                forwardDeadLetter(undecodable, leaf, salt, now);
                leaf(leaf, new byte[0]);
            }
        }
    }

    private void forwardCompletion(Source source, String requestId, Leaf leaf, byte[] wire, long now) {
        byte[] id = requestId.getBytes(StandardCharsets.UTF_8);
        byte[] key = source.key() == null || source.key().length > ProducerLimits.MAX_COPIED_BYTES ? id : source.key();
        Headers headers = EventHeaders.completion(source, requestId, log.state(), leaf, now);
        context.forward(new Record<>(key, new Outgoing(source.partition(), wire), now, headers), COMPLETIONS_SINK);
        CrashPoints.reach("between-completion-and-audit");
        leaf(leaf, id);
    }

    private void forwardDeadLetter(Outcome.Undecodable undecodable, Leaf leaf, byte[] salt, long now) {
        Source source = undecodable.source();
        byte[] value = source.value();
        Headers headers = EventHeaders.deadLetter(undecodable, log.state(), leaf, salt, maxBytes);
        byte[] cut = value == null || value.length <= maxBytes ? value : java.util.Arrays.copyOf(value, maxBytes);
        byte[] key = source.key() == null || source.key().length > ProducerLimits.MAX_COPIED_BYTES ? null : source.key();
        context.forward(new Record<>(key, new Outgoing(source.partition(), cut), now, headers), DLQ_SINK);
    }

    private void leaf(AttestationRecord record, byte[] key) {
        leaf(Leaf.of(record), key);
    }

    private void leaf(Leaf leaf, byte[] key) {
        byte[] wire = leaf.wire(shared.encoders().attestationId());
        long now = shared.clock().millis();
        context.forward(
                new Record<>(key, new Outgoing(log.state().origin().partition(), wire), now, new RecordHeaders()), AUDIT_SINK);
        log.append(leaf.hash());
        shared.metrics().leaf();
    }

    private void checkpoint() {
        long size = log.state().size();
        if (size == 0 || size == signedSize) {
            return;
        }
        String origin = log.state().origin().text();
        String note = SignedNote.sign(log.state().checkpoint().text(), shared.signer()).encode();
        CheckpointRecord record = new CheckpointRecord(
                origin, log.state().origin().partition(), size, log.state().frontier().root().toHash(), note, shared.clock().millis());
        byte[] wire = shared.encoders().checkpoint().encode(record);
        context.forward(
                new Record<>(origin.getBytes(StandardCharsets.UTF_8), new Outgoing(log.state().origin().partition(), wire),
                        shared.clock().millis(), new RecordHeaders()),
                CHECKPOINTS_SINK);
        signedSize = size;
        shared.metrics().checkpoint();
    }
}

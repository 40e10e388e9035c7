package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import millrace.engine.IntegrityEvent;
import millrace.integrity.Commitment;
import millrace.integrity.Leaf;
import millrace.integrity.Origin;
import millrace.integrity.SignedNote;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditVerdict;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.streams.registry.AvroEncoder;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.jspecify.annotations.Nullable;

/// Turns outcomes into completions and leaves: no completion leaves without its attestation, in the same transaction.
/// Events of the engine become leaves too; before the first leaf of this process stand those that say what serves here.
///
/// A handover is one call, so that the log's state is put into the store once per turn and always before the thread can
/// commit.
final class AttestProcessor implements Processor<byte[], Handover, byte[], Outgoing> {
    static final String COMPLETIONS_SINK = "completions";
    static final String AUDIT_SINK = "audit";
    static final String CHECKPOINTS_SINK = "checkpoints";
    static final String DLQ_SINK = "dlq";
    private static final byte[] NO_KEY = {};
    static final String SALTS_SINK = "salts";

    /// What the processors of one process share.
    ///
    /// @param patience how long the audit topic may disagree with the log's state at a start before it counts
    record Shared(
            Attestations attestations,
            EventLeaves events,
            Completions completions,
            Encoders encoders,
            LogKeys.Signing signing,
            AuditLogs logs,
            Alarms alarms,
            LogKeeper.Shared keeping,
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
    private final WakeableClients clients;
    private final int maxBytes;
    private ProcessorContext<byte[], Outgoing> context;
    private AuditLog log;
    private LogMemory memory;
    private LogCheckpoints checkpoints;
    private LogKeeper keeper;
    private WakeableClients.Poll poll;
    private boolean introduced;
    private boolean unsigned;

    @SuppressWarnings("NullAway.Init") // init() runs before any record
    AttestProcessor(Shared shared, WakeableClients clients) {
        this.shared = shared;
        this.clients = clients;
        this.maxBytes = ProducerLimits.maxRecordBytes(shared.config());
    }

    @Override
    public void init(ProcessorContext<byte[], Outgoing> context) {
        this.context = context;
        ServiceConfig config = shared.config();
        int partition = context.taskId().partition();
        Origin origin = new Origin(shared.originDomain(), shared.cluster(), config.string("topics.audit"), partition, 0);
        log = AuditLog.open(
                context.getStateStore(AuditLog.STORE), origin, shared.tail(), shared.patience(), shared.ticker(),
                config.flag("audit.epoch.new"));
        keeper = LogKeeper.open(shared, context, log, new KeeperWriter());
        // Kafka Streams may initialize the same instance again, on a state that was taken back.
        introduced = false;
        memory = shared.logs().memory(partition);
        memory.open(log.opened(shared.logs().writer()));
        checkpoints = new LogCheckpoints(
                keeper::sign, shared.metrics(), shared.ticker(), config.span("audit.checkpoint.max.lag"));
        checkpoints.grown(log.state());
        shared.logs().opened(partition, checkpoints, log.state());
        poll = clients.ofCurrentThread();
        unsigned = false;
        context.schedule(config.duration("audit.checkpoint.interval.ms"), PunctuationType.WALL_CLOCK_TIME, now -> checkpoint());
    }

    @Override
    public void process(Record<byte[], Handover> turn) {
        turn.value().events().forEach(this::note);
        for (Outcome outcome : turn.value().outcomes()) {
            introduce();
            try (LogContext _ = LogContext.of(outcome.source())) {
                attest(outcome);
            }
            shared.metrics().outcome(outcome);
        }
        log.save();
        checkpoints.grown(log.state());
    }

    /// Before the first leaf of this process: how the epoch began, which model serves, and what computes it. Each life of
    /// the task says so anew, for another process may have written in between.
    private void introduce() {
        long now = shared.clock().millis();
        keeper.open(now);
        if (!introduced) {
            introduced = true;
            log.beginWriting(shared.logs().writer());
            memory.began(log.state().size());
            leaf(shared.events().modelLoad(log.state(), now), NO_KEY);
            leaf(shared.events().build(log.state(), now), NO_KEY);
        }
    }

    private void note(IntegrityEvent event) {
        introduce();
        if (!memory.take(event, log.state().size())) {
            return;
        }
        long now = shared.clock().millis();
        if (event.suspectFromStep() == IntegrityEvent.NO_STEP) {
            leaf(shared.events().of(event, null, log.state(), now), NO_KEY);
            return;
        }
        List<LogMemory.Range> ranges = memory.suspects(event.suspectFromStep());
        if (ranges.isEmpty()) {
            ranges = List.of(LogMemory.Range.none(log.state().origin().text(), log.state().size()));
        }
        for (LogMemory.Range range : ranges) {
            shared.metrics().suspects(range.leaves());
            leaf(shared.events().of(event, range, log.state(), now), NO_KEY);
        }
    }

    private void attest(Outcome outcome) {
        Source source = outcome.source();
        byte[] salt = Commitment.newSalt(shared.random());
        long now = shared.clock().millis();
        switch (outcome) {
            case Outcome.Answered answered -> {
                Outcome.Answered fitting = answered;
                BesideText beside = shared.completions().beside(answered);
                AttestationRecord record = shared.attestations().answered(log.state(), answered, beside, salt, now);
                Leaf leaf = Leaf.of(record);
                Completion completion = shared.completions().answered(answered, beside, log.state(), leaf, salt);
                byte[] wire = shared.encoders().completion().encode(completion);
                if (wire.length > maxBytes) {
                    // A record that the broker refuses would end the thread, and come back at each restart.
                    fitting = shared.completions().tooLarge(answered, wire.length, maxBytes);
                    record = shared.attestations().answered(log.state(), fitting, BesideText.NOTHING, salt, now);
                    leaf = Leaf.of(record);
                    wire = shared.encoders().completion().encode(
                            shared.completions().answered(fitting, BesideText.NOTHING, log.state(), leaf, salt));
                }
                keeper.keepSalt(answered.prompt().getTenant(), record.getRequestId(), salt);
                // Of a result that was too large the failure depends on those steps as well.
                memory.answered(log.state().size(), answered.result().transcript().lastStep());
                forwardCompletion(fitting, completion.getRequestId(), record.getVerdict(), leaf, wire, now);
            }
            case Outcome.Rejected rejected -> {
                AttestationRecord record = shared.attestations().rejected(log.state(), rejected, salt, now);
                Leaf leaf = Leaf.of(record);
                Completion completion = shared.completions().rejected(rejected, log.state(), leaf, salt);
                keeper.keepSalt(rejected.prompt().getTenant(), record.getRequestId(), salt);
                forwardCompletion(
                        rejected, completion.getRequestId(), record.getVerdict(), leaf, shared.encoders().completion().encode(completion), now);
            }
            case Outcome.Undecodable undecodable -> {
                Leaf leaf = Leaf.of(shared.attestations().undecodable(log.state(), undecodable, salt, now));
                forwardDeadLetter(undecodable, leaf, salt, now);
                leaf(leaf, NO_KEY, new RecordHeaders());
            }
            case Outcome.Ordered ordered -> keeper.carryOut(ordered, now);
        }
    }

    private void forwardCompletion(
            Outcome outcome, String requestId, AuditVerdict verdict, Leaf leaf, byte[] wire, long now) {
        Source source = outcome.source();
        byte[] id = requestId.getBytes(StandardCharsets.UTF_8);
        byte[] key = source.key() == null || source.key().length > ProducerLimits.MAX_COPIED_BYTES ? id : source.key();
        Headers headers = EventHeaders.completion(source, requestId, log.state(), leaf, verdict, now);
        trace(outcome, now, headers);
        context.forward(new Record<>(key, new Outgoing(source.partition(), wire), now, headers), COMPLETIONS_SINK);
        CrashPoints.reach("between-completion-and-audit");
        leaf(leaf, id, new RecordHeaders());
    }

    private void trace(Outcome outcome, long now, Headers headers) {
        shared.metrics().traces().ended(
                outcome, log.state(), outcome.source().eventId().toString(), shared.completions().model(), now, headers);
    }

    private void forwardDeadLetter(Outcome.Undecodable undecodable, Leaf leaf, byte[] salt, long now) {
        Source source = undecodable.source();
        byte[] value = source.value();
        Headers headers = EventHeaders.deadLetter(undecodable, log.state(), leaf, salt, maxBytes);
        trace(undecodable, now, headers);
        byte[] cut = value == null || value.length <= maxBytes ? value : java.util.Arrays.copyOf(value, maxBytes);
        byte[] key = source.key() == null || source.key().length > ProducerLimits.MAX_COPIED_BYTES ? null : source.key();
        context.forward(new Record<>(key, new Outgoing(source.partition(), cut), now, headers), DLQ_SINK);
    }

    private void leaf(AttestationRecord record, byte[] key) {
        Headers headers = EventHeaders.leaf(record);
        leaf(Leaf.of(record), key, headers);
    }

    private void leaf(Leaf leaf, byte[] key, Headers headers) {
        byte[] wire = leaf.wire(shared.encoders().attestationId());
        long now = shared.clock().millis();
        context.forward(new Record<>(key, new Outgoing(log.state().origin().partition(), wire), now, headers), AUDIT_SINK);
        memory.wrote(log.state().size());
        log.append(leaf.hash());
        shared.metrics().leaf();
    }

    private void checkpoint() {
        if (keeper.hasNews(shared.clock().millis())) {
            introduce();
            keeper.prune(shared.clock().millis());
            log.save();
        }
        TreeState head = log.state();
        Optional<SignedNote> note = checkpoints.sign(head);
        holdWhileUnsigned(head);
        if (note.isEmpty()) {
            return;
        }
        String origin = head.origin().text();
        long now = shared.clock().millis();
        CheckpointRecord record = new CheckpointRecord(
                origin, head.origin().partition(), head.size(), head.frontier().root().toHash(), note.get().encode(), now);
        byte[] wire = shared.encoders().checkpoint().encode(record);
        context.forward(
                new Record<>(origin.getBytes(StandardCharsets.UTF_8), new Outgoing(head.origin().partition(), wire), now,
                        new RecordHeaders()),
                CHECKPOINTS_SINK);
        keeper.signed(now);
        shared.metrics().checkpoint();
    }

    private void holdWhileUnsigned(TreeState head) {
        boolean late = checkpoints.isLate();
        poll.hold(this, late);
        if (late && !unsigned) {
            shared.alarms().raise("SIGNER", Alarms.FAILED, "AUDIT_UNSIGNED",
                    "partition=" + head.origin().partition() + " leaves=" + checkpoints.unsignedLeaves());
        }
        unsigned = late;
    }

    /// What the keeper of the log may write.
    private final class KeeperWriter implements LogKeeper.Writer {
        @Override
        public void leaf(AttestationRecord record) {
            AttestProcessor.this.leaf(record, record.getRequestId().getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public void salt(byte[] key, byte @Nullable [] value) {
            Outgoing outgoing = new Outgoing(log.state().origin().partition(), value);
            context.forward(new Record<>(key, outgoing, shared.clock().millis(), new RecordHeaders()), SALTS_SINK);
        }

        @Override
        public boolean checkpoint() {
            AttestProcessor.this.checkpoint();
            return checkpoints.unsignedLeaves() == 0;
        }

        @Override
        public void epochEnds() {
            memory.end(log.state().origin().nextEpoch());
            introduced = false;
        }
    }

    @Override
    public void close() {
        if (checkpoints != null) {
            poll.hold(this, false);
            shared.logs().closed(context.taskId().partition(), checkpoints);
        }
    }
}

package millrace.streams;

import java.time.Clock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityEvent;
import millrace.engine.InvalidRequestException;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.integrity.Digest;
import millrace.schemas.Prompt;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Takes prompts in, feeds the engine, and hands on what it answered. Submits and polls; never waits for the engine.
///
/// An accepted prompt is in the pending store from the transaction that consumes its input offset until the one that
/// forwards its outcome, so at any crash it is in exactly one of: the input topic behind the committed offset, the
/// pending store, the output topics. `init` submits again whatever is pending; a completion is a pure function of the
/// prompt, so the second run gives the same bits.
final class InferenceProcessor implements Processor<byte[], byte[], byte[], Handover> {
    static final String PENDING_STORE = "pending";
    static final String SEEN_STORE = "seen";
    private static final Logger LOG = LoggerFactory.getLogger(InferenceProcessor.class);
    private static final Duration EVERY_LOOP = Duration.ofMillis(1);
    private static final long RETRY_UNREAD_NANOS = 100_000_000L;

    /// What the processors of one process share.
    record Shared(
            TextEngine engine,
            PromptDecoder decoder,
            Intake.Limits limits,
            CacheSalts salts,
            AuditLogs logs,
            WakeableClients clients,
            ServiceMetrics metrics,
            Runnable onEngineFailure,
            Clock clock,
            Ticker ticker,
            ServiceConfig config) {}

    /// @param withheld earlier results of it that were not handed on
    private record Work(Source source, Prompt prompt, PreparedPrompt prepared, int withheld) {}

    private record Ended(long offset, GenerationResult result) {}

    /// How far a prompt has come when it is admitted.
    private enum Stage {
        /// It has just been read from the topic.
        NEW,
        /// It is in the store, and not yet checked against earlier prompts: its schema is not known.
        KEPT,
        /// It is in the store and has passed every check.
        ADMITTED
    }

    private record Unread(Source source, Stage stage) {}

    /// From `init` to `close`: Kafka Streams may close a task and initialize the same instance again, and results of
    /// before must not reach it.
    private static final class Life {
        final Queue<Ended> ended = new ConcurrentLinkedQueue<>();
        volatile boolean over;
    }

    private final Shared shared;
    private final Intake intake;
    private final Map<Long, Work> inFlight = new HashMap<>();
    private final Map<Long, Generation> generations = new HashMap<>();
    private final ArrayDeque<Work> batch = new ArrayDeque<>();
    /// Pending prompts whose schema the registry could not be asked for, oldest first.
    private final ArrayDeque<Unread> unread = new ArrayDeque<>();
    private final List<Outcome> outcomes = new ArrayList<>();
    private final int holdAt;
    private final int batchSize;
    private final long batchWaitNanos;
    private final long dedupRetentionMs;

    private ProcessorContext<byte[], Handover> context;
    private KeyValueStore<Bytes, byte[]> pending;
    private WindowStore<Bytes, byte[]> seen;
    private WakeableClients.Poll poll;
    private CommitPace commits;
    private long batchSinceNanos;
    private long retryUnreadAtNanos;
    private boolean failed;
    private boolean gaveUp;
    private long seenMs;
    private Life life;

    @SuppressWarnings("NullAway.Init") // init() runs before any record
    InferenceProcessor(Shared shared) {
        this.shared = shared;
        this.intake = new Intake(shared.engine(), shared.limits(), shared.salts(), shared.clock());
        this.holdAt = shared.config().integer("inflight.max");
        this.batchSize = shared.config().integer("batch.max.size");
        this.batchWaitNanos = shared.config().number("batch.max.wait.ms") * 1_000_000L;
        this.dedupRetentionMs = shared.config().number("intake.dedup.retention.ms");
    }

    @Override
    public void init(ProcessorContext<byte[], Handover> context) {
        this.context = context;
        life = new Life();
        failed = false;
        gaveUp = false;
        pending = context.getStateStore(PENDING_STORE);
        seen = context.getStateStore(SEEN_STORE);
        seenMs = newest(seen);
        poll = shared.clients().ofCurrentThread();
        commits = new CommitPace(context, poll, shared.ticker(), shared.config().number("commit.gap.ms"));
        CrashPoints.reach("restore");
        resume();
        context.schedule(EVERY_LOOP, PunctuationType.WALL_CLOCK_TIME, now -> turn());
    }

    /// Takes up what an earlier run of this task left pending.
    private void resume() {
        int resumed = 0;
        try (KeyValueIterator<Bytes, byte[]> all = pending.all()) {
            while (all.hasNext()) {
                KeyValue<Bytes, byte[]> entry = all.next();
                PendingPrompt prompt = PendingPrompt.decode(entry.value);
                Source source = new Source(
                        shared.config().string("topics.prompts"), context.taskId().partition(),
                        PendingPrompt.offset(entry.key.get()), prompt.timestampMs(), prompt.key(), prompt.value(), prompt.headers());
                admit(source, prompt.admitted() ? Stage.ADMITTED : Stage.KEPT);
                resumed++;
            }
        }
        if (resumed > 0) {
            shared.metrics().resumed(resumed);
            LOG.info("task {}: resumed {} pending prompts", context.taskId(), resumed);
        }
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        RecordMetadata at = context.recordMetadata().orElseThrow();
        Source source = new Source(
                at.topic(), at.partition(), at.offset(), record.timestamp(), record.key(), record.value(), record.headers());
        long start = shared.ticker().nanos();
        admit(source, Stage.NEW);
        turn();
        shared.metrics().processed(shared.ticker().nanos() - start);
    }

    /// Reads, checks and queues one prompt; whatever keeps it from the engine becomes an outcome.
    private void admit(Source source, Stage stage) {
        Prompt prompt;
        try {
            prompt = shared.decoder().decode(source);
        } catch (PromptDecoder.UndecodableException e) {
            end(new Outcome.Undecodable(source, e.code(), e.getMessage()));
            return;
        } catch (PromptDecoder.RegistryUnavailableException e) {
            if (source.bytes() > shared.limits().maxBytes()) {
                end(new Outcome.Undecodable(source, "PROMPT_TOO_LARGE", "record: expected at most "
                        + shared.limits().maxBytes() + " bytes (intake.max.bytes), got " + source.bytes()));
                return;
            }
            if (stage == Stage.NEW) {
                keep(source, false);
            }
            unread.add(new Unread(source, stage == Stage.NEW ? Stage.KEPT : stage));
            retryUnreadAtNanos = shared.ticker().nanos() + RETRY_UNREAD_NANOS;
            return;
        }
        Intake.Refusal refusal = intake.checkIdentity(prompt, source);
        if (refusal == null && stage != Stage.ADMITTED) {
            byte[] digest = bodyDigest(prompt);
            byte[] earlier = seenBefore(prompt);
            if (earlier != null && Arrays.equals(earlier, digest)) {
                shared.metrics().duplicate();
                // Kept before, when its schema was not known: it is answered as what it repeats.
                pending.delete(Bytes.wrap(PendingPrompt.storeKey(source.offset())));
                return;
            }
            if (earlier != null) {
                refusal = new Intake.Refusal("DUPLICATE_ID_CONFLICT", "request_id: it was used with another body within the last "
                        + dedupRetentionMs / 1000 + " s; use a new id for a new prompt");
            } else {
                seen.put(seenKey(prompt), digest, seenNow());
                refusal = intake.checkLimits(prompt, source);
            }
        }
        if (refusal != null) {
            end(new Outcome.Rejected(source, prompt, refusal.code(), refusal.message()));
            return;
        }
        try {
            Work work = new Work(source, prompt, intake.prepare(prompt, source), 0);
            if (stage != Stage.ADMITTED) {
                keep(source, true);
            }
            queue(work);
        } catch (InvalidRequestException e) {
            end(new Outcome.Rejected(source, prompt, e.code(), e.getMessage()));
        }
    }

    private void queue(Work work) {
        inFlight.put(work.source().offset(), work);
        if (batch.isEmpty()) {
            batchSinceNanos = shared.ticker().nanos();
        }
        batch.add(work);
    }

    private void keep(Source source, boolean admitted) {
        PendingPrompt entry = new PendingPrompt(
                admitted, source.timestampMs(), source.key(), source.value() == null ? new byte[0] : source.value(), source.headers());
        pending.put(Bytes.wrap(PendingPrompt.storeKey(source.offset())), entry.encode());
    }

    private void end(Outcome outcome) {
        outcomes.add(outcome);
    }

    /// One turn of the stream thread: feed the engine, take its results, hand on what has ended.
    private void turn() {
        retryUnread();
        feed();
        drain();
        handOn();
        if (!failed && (gaveUp || shared.engine().failure() != null)) {
            // What it found out is in the log before the service stops. It was posted before the failure could be seen, but
            // perhaps after the handover above.
            handOn();
            failed = true;
            shared.onEngineFailure().run();
        }
        hold();
        commits.tick();
    }

    /// Holds partitions back while the engine has enough to do, and while it starts nothing: a fault is being repaired, or
    /// could not be.
    private void hold() {
        int load = shared.engine().load() + unread.size();
        if (load >= holdAt || !shared.engine().admitting()) {
            poll.hold(this, true);
        } else if (load <= holdAt * 3 / 4) {
            poll.hold(this, false);
        }
    }

    private void retryUnread() {
        if (unread.isEmpty() || shared.ticker().nanos() < retryUnreadAtNanos) {
            return;
        }
        List<Unread> again = new ArrayList<>(unread);
        unread.clear();
        again.forEach(entry -> admit(entry.source(), entry.stage()));
    }

    private void feed() {
        if (batch.isEmpty()) {
            return;
        }
        boolean due = batch.size() >= batchSize || shared.ticker().nanos() - batchSinceNanos >= batchWaitNanos;
        if (!due) {
            poll.deadline(batchSinceNanos + batchWaitNanos);
            return;
        }
        shared.metrics().batch(batch.size());
        Life now = life;
        for (Work work = batch.poll(); work != null; work = batch.poll()) {
            long offset = work.source().offset();
            generations.put(offset, shared.engine().submit(work.prepared(), result -> {
                if (!now.over) {
                    now.ended.add(new Ended(offset, result));
                    poll.signal();
                }
            }));
        }
    }

    private void drain() {
        for (Ended next = life.ended.poll(); next != null; next = life.ended.poll()) {
            GenerationResult result = next.result();
            if (result.reason() == FinishReason.FAILED && "ENGINE_FAILED".equals(result.errorCode())) {
                // Not this prompt's fault: it stays pending for an engine that works.
                gaveUp = true;
                continue;
            }
            Work work = inFlight.remove(next.offset());
            generations.remove(next.offset());
            if (work != null && result.reason() != FinishReason.CANCELLED) {
                end(new Outcome.Answered(work.source(), work.prompt(), work.prepared(), result, work.withheld()));
            }
        }
    }

    /// Hands on what has ended and what the engine found out since the last turn.
    ///
    /// The order is the proof. The results are there; then the events are read; then the engine is asked about each result.
    /// A result of damaged weights is refused if its event is among these, and if its event comes later, that event finds it
    /// among the answers of the log. A result that was computed again ended after its event could be read, so that event
    /// does not find it there. See docs/adr/0025-events-and-the-gate.md.
    private void handOn() {
        List<IntegrityEvent> events = shared.engine().events(shared.logs().memory(context.taskId().partition()).seen());
        withhold();
        if (outcomes.isEmpty() && events.isEmpty()) {
            return;
        }
        CrashPoints.reach("before-forward");
        for (Outcome outcome : outcomes) {
            pending.delete(Bytes.wrap(PendingPrompt.storeKey(outcome.source().offset())));
        }
        context.forward(new Record<>(new byte[0], new Handover(events, outcomes), shared.clock().millis()));
        outcomes.clear();
        CrashPoints.reach("before-commit");
        commits.wanted();
    }

    /// Takes back the results that the engine does not trust any more: their prompts are still pending and go to the engine
    /// once more, as the same work.
    private void withhold() {
        for (Iterator<Outcome> each = outcomes.iterator(); each.hasNext();) {
            if (each.next() instanceof Outcome.Answered answered && !shared.engine().trusts(answered.result())) {
                each.remove();
                shared.metrics().withheld();
                LOG.warn("{} {}@{}: the engine no longer trusts this answer; it is computed again", context.taskId(),
                        answered.source().topic(), answered.source().offset());
                queue(new Work(answered.source(), answered.prompt(), answered.prepared(), answered.withheld() + 1));
            }
        }
    }

    private byte[] seenBefore(Prompt prompt) {
        long now = seenNow();
        byte[] latest = null;
        try (WindowStoreIterator<byte[]> uses = seen.fetch(seenKey(prompt), now - dedupRetentionMs, now)) {
            while (uses.hasNext()) {
                latest = uses.next().value;
            }
        }
        return latest;
    }

    /// The time that ids are remembered by. It stands still while a wall clock that was set back is behind: an id that
    /// was used later than "now" is remembered all the same, and the store takes nothing that is older than it can be.
    private long seenNow() {
        seenMs = Math.max(seenMs, shared.clock().millis());
        return seenMs;
    }

    private static long newest(WindowStore<Bytes, byte[]> seen) {
        try (KeyValueIterator<Windowed<Bytes>, byte[]> latestFirst = seen.backwardAll()) {
            return latestFirst.hasNext() ? latestFirst.peekNextKey().window().start() : 0;
        }
    }

    private static Bytes seenKey(Prompt prompt) {
        String tenant = prompt.getTenant() == null ? "" : prompt.getTenant();
        byte[] full = Digest.sha256(tenant + "\0" + prompt.getRequestId()).bytes();
        return Bytes.wrap(Arrays.copyOf(full, 16));
    }

    /// Digest of the record in this service's own schema: equal for equal prompts whatever schema they were written with.
    private static byte[] bodyDigest(Prompt prompt) {
        try {
            return Digest.sha256(Prompt.getEncoder().encode(prompt).array()).bytes();
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException("a decoded prompt can be encoded", e);
        }
    }

    @Override
    public void close() {
        life.over = true;
        poll.hold(this, false);
        generations.values().forEach(Generation::cancel);
        generations.clear();
        inFlight.clear();
        batch.clear();
        unread.clear();
        outcomes.clear();
    }
}

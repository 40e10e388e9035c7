package millrace.streams;

import java.time.Clock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.ListIterator;
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
import millrace.schemas.Control;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDecoder;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;
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
    static final String CANCELLED_STORE = "cancelled";
    private static final Logger LOG = LoggerFactory.getLogger(InferenceProcessor.class);
    private static final Duration EVERY_LOOP = WakeableClients.TICK;
    private static final long RETRY_UNREAD_NANOS = 100_000_000L;

    /// What the processors of one process share.
    record Shared(
            TextEngine engine,
            PromptDecoder decoder,
            Intake.Limits limits,
            CacheSalts salts,
            AvroDecoder<Control> cancels,
            Quotas quotas,
            AuditLogs logs,
            WakeableClients clients,
            ServiceMetrics metrics,
            Runnable onEngineFailure,
            Clock clock,
            Ticker ticker,
            ServiceConfig config,
            Previews previews) {
        /// Without previews.
        Shared(
                TextEngine engine, PromptDecoder decoder, Intake.Limits limits, CacheSalts salts, AvroDecoder<Control> cancels,
                Quotas quotas, AuditLogs logs, WakeableClients clients, ServiceMetrics metrics, Runnable onEngineFailure, Clock clock,
                Ticker ticker, ServiceConfig config) {
            this(engine, decoder, limits, salts, cancels, quotas, logs, clients, metrics, onEngineFailure, clock, ticker, config,
                    Previews.NONE);
        }
    }

    /// @param withheld earlier results of it that were not handed on
    private record Work(Source source, Prompt prompt, PreparedPrompt prepared, int withheld) {
        long offset() {
            return source.offset();
        }

        Bytes request() {
            return RequestMemory.key(prompt);
        }

        Outcome answered(GenerationResult result) {
            return new Outcome.Answered(source, prompt, prepared, result, withheld);
        }

        /// Its end where the engine has computed nothing for it.
        Outcome uncomputed(FinishReason reason) {
            return answered(Outcome.Answered.nothing(prepared, reason));
        }
    }

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
    private final Map<Long, Quotas.Grant> grants = new HashMap<>();
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
    private RequestMemory memory;
    private Cancels cancels;
    private WakeableClients.Poll poll;
    private PartitionQueues.Queue queue;
    private CommitPace commits;
    private long batchSinceNanos;
    private long retryUnreadAtNanos;
    private boolean failed;
    private boolean gaveUp;
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
        memory = new RequestMemory(
                context.getStateStore(SEEN_STORE), context.getStateStore(CANCELLED_STORE), dedupRetentionMs, shared.clock());
        cancels = new Cancels(
                shared.config().string("topics.cancels"), shared.cancels(), shared.metrics(), memory, shared.ticker());
        poll = shared.clients().ofCurrentThread();
        queue = shared.metrics().queues().of(context.taskId().partition());
        queue.open();
        commits = new CommitPace(context, poll, shared.ticker(), shared.config().number("commit.gap.ms"));
        CrashPoints.reach("restore");
        shared.quotas().assigned(context.taskId().partition());
        resume();
        context.schedule(EVERY_LOOP, PunctuationType.WALL_CLOCK_TIME, now -> turn());
    }

    /// Takes up what an earlier run of this task left pending.
    private void resume() {
        int resumed = 0;
        retryUnreadAtNanos = shared.ticker().nanos();
        try (KeyValueIterator<Bytes, byte[]> all = pending.all()) {
            while (all.hasNext()) {
                KeyValue<Bytes, byte[]> entry = all.next();
                PendingPrompt prompt = PendingPrompt.decode(entry.value);
                Source source = new Source(
                        shared.config().string("topics.prompts"), context.taskId().partition(),
                        PendingPrompt.offset(entry.key.get()), prompt.timestampMs(), prompt.key(), prompt.value(), prompt.headers());
                if (prompt.admitted()) {
                    admit(source, Stage.ADMITTED);
                } else {
                    // Admitting it changes what is remembered: in one turn with what comes of it, since the task may be
                    // closed before its first, and what is remembered committed without the answer.
                    unread.add(new Unread(source, Stage.KEPT));
                }
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
        if (cancels.isFrom(source.topic())) {
            cancel(source);
            turn();
            return;
        }
        long start = shared.ticker().nanos();
        try (LogContext _ = LogContext.of(source)) {
            admit(source, Stage.NEW);
        }
        turn();
        shared.metrics().processed(shared.ticker().nanos() - start);
    }

    /// Reads, checks and queues one prompt; whatever keeps it from the engine becomes an outcome.
    private void admit(Source source, Stage stage) {
        shared.metrics().traces().taken(source, shared.clock().millis());
        Prompt prompt = read(source, stage);
        if (prompt == null) {
            return;
        }
        Bytes request = RequestMemory.key(prompt);
        Intake.Refusal refusal = intake.checkIdentity(prompt, source);
        byte @Nullable [] toRemember = null;
        if (refusal == null && stage != Stage.ADMITTED) {
            byte[] digest = RequestMemory.bodyDigest(prompt);
            byte[] earlier = memory.usedBefore(request);
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
                toRemember = digest;
                refusal = intake.checkLimits(prompt, source);
            }
        }
        Outcome.Rejected rejected = null;
        if (refusal == null) {
            try {
                rejected = take(new Work(source, prompt, intake.prepare(prompt, source), 0), stage);
            } catch (InvalidRequestException e) {
                refusal = new Intake.Refusal(e.code(), e.getMessage());
            }
        }
        if (refusal != null) {
            end(new Outcome.Rejected(source, prompt, refusal.code(), refusal.message()));
        } else if (rejected != null) {
            // Not remembered: the same prompt may be sent again.
            end(rejected);
            return;
        }
        if (toRemember != null) {
            memory.use(request, toRemember);
        }
    }

    /// The prompt, or null where it cannot be read: it has ended then, or waits for its schema.
    private @Nullable Prompt read(Source source, Stage stage) {
        try {
            return shared.decoder().decode(source);
        } catch (PromptDecoder.UndecodableException e) {
            end(new Outcome.Undecodable(source, e.code(), e.getMessage()));
        } catch (PromptDecoder.RegistryUnavailableException e) {
            if (source.bytes() > shared.limits().maxBytes()) {
                end(new Outcome.Undecodable(source, "PROMPT_TOO_LARGE", "record: expected at most "
                        + shared.limits().maxBytes() + " bytes (intake.max.bytes), got " + source.bytes()));
                return null;
            }
            if (stage == Stage.NEW) {
                keep(source, false);
            }
            unread.add(new Unread(source, stage == Stage.NEW ? Stage.KEPT : stage));
            retryUnreadAtNanos = shared.ticker().nanos() + RETRY_UNREAD_NANOS;
        }
        return null;
    }

    /// Takes in a prompt that can be served, unless it has ended already.
    ///
    /// @return the answer if its tenant may not have it served now, else null
    private Outcome.@Nullable Rejected take(Work work, Stage stage) {
        if (cancels.precedes(work.request(), work.offset())) {
            end(work.uncomputed(FinishReason.CANCELLED));
            return null;
        }
        if (intake.hasPassed(work.prepared())) {
            end(work.uncomputed(FinishReason.DEADLINE));
            return null;
        }
        Quotas.Decision decision = shared.quotas().decide(work.prompt().getTenant(), work.prepared(), stage == Stage.ADMITTED);
        switch (decision) {
            case Quotas.Refused no -> {
                return new Outcome.Rejected(work.source(), work.prompt(), no.code(), no.message(), no.retryAfterMs());
            }
            case Quotas.Grant grant -> grants.put(work.offset(), grant);
        }
        if (stage != Stage.ADMITTED) {
            keep(work.source(), true);
        }
        queue(work);
        return null;
    }

    /// Ends the prompt that a client's record names, if it is under way, or remembers that it is to be ended.
    private void cancel(Source source) {
        Bytes request = cancels.read(source);
        if (request == null) {
            return;
        }
        List<Work> named = inFlight.values().stream().filter(work -> work.request().equals(request)).toList();
        cancels.take(request, named.stream().map(Work::offset).toList(), unread.isEmpty());
        for (Work work : named) {
            Generation generation = generations.get(work.offset());
            if (generation != null) {
                generation.cancel();
            } else if (batch.remove(work)) {
                inFlight.remove(work.offset());
                end(work.uncomputed(FinishReason.CANCELLED));
            }
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
        queue.now(inFlight.size() + unread.size(), generations.size());
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
        // What a stopping process has taken in and not begun stays pending for whoever comes after it.
        if (batch.isEmpty() || shared.clients().stopping()) {
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
            long offset = work.offset();
            if (intake.hasPassed(work.prepared())) {
                inFlight.remove(offset);
                end(work.uncomputed(FinishReason.DEADLINE));
                continue;
            }
            Previews.Shown shown = new Previews.Shown(work.source(), work.prompt(), work.prepared(), work.withheld() > 0);
            generations.put(offset, shared.engine().submit(work.prepared(), shared.previews().of(shown, () -> now.over, result -> {
                if (!now.over) {
                    now.ended.add(new Ended(offset, result));
                    poll.signal();
                }
            })));
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
            // What nobody cancelled stays pending: the engine or this service has stopped, not the client.
            if (work != null && (result.reason() != FinishReason.CANCELLED || cancels.isEnding(next.offset()))) {
                end(work.answered(result));
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
            cancels.ended(outcome.source().offset());
            Quotas.Grant grant = grants.remove(outcome.source().offset());
            if (grant != null && outcome instanceof Outcome.Answered answered) {
                grant.end(answered.tokens());
            }
        }
        context.forward(new Record<>(new byte[0], new Handover(events, outcomes), shared.clock().millis()));
        outcomes.clear();
        CrashPoints.reach("before-commit");
        commits.wanted();
    }

    /// Takes back the results that the engine does not trust any more: their prompts are still pending and go to the engine
    /// once more, as the same work. One that was cancelled is not computed for that: its answer says nothing.
    private void withhold() {
        for (ListIterator<Outcome> each = outcomes.listIterator(); each.hasNext();) {
            if (each.next() instanceof Outcome.Answered answered && !shared.engine().trusts(answered.result())) {
                shared.metrics().withheld();
                LOG.warn("{} {}@{}: the engine no longer trusts this answer; it is computed again", context.taskId(),
                        answered.source().topic(), answered.source().offset());
                Work again = new Work(answered.source(), answered.prompt(), answered.prepared(), answered.withheld() + 1);
                if (cancels.isEnding(again.offset())) {
                    each.set(again.uncomputed(FinishReason.CANCELLED));
                } else {
                    each.remove();
                    queue(again);
                }
            }
        }
    }

    @Override
    public void close() {
        life.over = true;
        queue.close();
        shared.metrics().traces().forget(context.taskId().partition());
        poll.hold(this, false);
        generations.values().forEach(Generation::cancel);
        generations.clear();
        grants.values().forEach(Quotas.Grant::drop);
        grants.clear();
        shared.quotas().revoked(context.taskId().partition());
        inFlight.clear();
        batch.clear();
        unread.clear();
        outcomes.clear();
    }
}

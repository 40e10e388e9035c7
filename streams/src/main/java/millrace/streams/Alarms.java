package millrace.streams;

import java.time.Clock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Locale;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import millrace.engine.IntegrityEvent;
import millrace.engine.ModelCard;
import millrace.engine.TextEngine;
import millrace.integrity.Digest;
import millrace.schemas.AlarmRecord;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The second road: what goes wrong is also sent as an alarm, at once and by a producer of its own.
///
/// An event's leaf is written in the transaction of the stream thread, and an aborted transaction takes its own evidence
/// with it; a thread that hangs writes none. So a thread of this object reads the engine's events itself, and no stream
/// thread ever waits for it. An alarm that cannot be sent is kept and tried again, the oldest first.
final class Alarms implements AutoCloseable {
    static final String REPAIRED = "repaired";
    static final String REFUSED = "refused";
    static final String FAILED = "failed";
    /// Alarms that are kept while none can be sent.
    static final int MOST_KEPT = 1_000;

    private static final Logger LOG = LoggerFactory.getLogger(Alarms.class);
    private static final Duration EVERY = Duration.ofMillis(100);
    private static final Duration RETRY = Duration.ofSeconds(1);
    private static final Duration LAST_WORDS = Duration.ofSeconds(10);

    /// Where alarms go.
    interface Road extends AutoCloseable {
        /// Returns when the alarm is safe with others.
        ///
        /// @throws Exception when it is not known to be
        void send(AlarmRecord alarm) throws Exception;

        @Override
        void close();
    }

    /// What is raised by the service itself.
    private record Raised(String kind, String result, String code, String detail, long timeMs) {}

    private final TextEngine engine;
    private final ModelCard card;
    private final String instanceId;
    private final Road road;
    private final ServiceMetrics metrics;
    private final Clock clock;
    private final Queue<Raised> raised = new ConcurrentLinkedQueue<>();
    private final ArrayDeque<AlarmRecord> kept = new ArrayDeque<>();
    private final Thread thread;
    private long seen;
    private long number;
    private boolean refused;
    private volatile boolean closing;

    Alarms(TextEngine engine, String instanceId, Road road, ServiceMetrics metrics, Clock clock) {
        this.engine = engine;
        this.card = engine.card();
        this.instanceId = instanceId;
        this.road = road;
        this.metrics = metrics;
        this.clock = clock;
        this.thread = Thread.ofPlatform().name("millrace-alarms").daemon().unstarted(this::run);
    }

    /// Begins to watch the engine.
    static Alarms start(TextEngine engine, String instanceId, Road road, ServiceMetrics metrics) {
        Alarms alarms = new Alarms(engine, instanceId, road, metrics, Clock.systemUTC());
        alarms.thread.start();
        return alarms;
    }

    /// Raises an alarm of the service's own. Any thread; returns at once.
    void raise(String kind, String result, String code, String detail) {
        raised.add(new Raised(kind, result, code, detail, clock.millis()));
        LockSupport.unpark(thread);
    }

    private void run() {
        while (!closing) {
            LockSupport.parkNanos((turn() ? EVERY : RETRY).toNanos());
        }
        long until = System.nanoTime() + LAST_WORDS.toNanos();
        while (!turn() && System.nanoTime() < until) {
            LockSupport.parkNanos(EVERY.toNanos());
        }
    }

    /// Takes up what is new and sends what is kept.
    ///
    /// @return whether nothing is left
    boolean turn() {
        for (IntegrityEvent event : engine.events(seen)) {
            seen = event.number();
            if (event.result() != IntegrityEvent.Result.PASSED) {
                keep(event.kind().name(), event.result().name().toLowerCase(Locale.ROOT), event.code(), event.detail(),
                        event.epochMs(), event);
            }
        }
        for (Raised next = raised.poll(); next != null; next = raised.poll()) {
            keep(next.kind(), next.result(), next.code(), next.detail(), next.timeMs(), null);
        }
        if (!refused && engine.failure() != null) {
            refused = true;
            keep("ENGINE", REFUSED, "ENGINE_FAILED", "", clock.millis(), null);
        }
        while (!kept.isEmpty()) {
            try {
                road.send(kept.getFirst());
            } catch (Exception e) {
                metrics.alarmFailed();
                LOG.warn("an alarm ({} {}) could not be sent, trying again: {}", kept.getFirst().getKind(),
                        kept.getFirst().getCode(), e.toString());
                return false;
            }
            kept.removeFirst();
            metrics.alarm();
        }
        return true;
    }

    private void keep(
            String kind, String result, String code, String detail, long timeMs,
            @Nullable IntegrityEvent event) {
        long from = event == null || event.suspectFromStep() == IntegrityEvent.NO_STEP ? -1 : event.suspectFromStep();
        AlarmRecord alarm = AlarmRecord.newBuilder().setInstanceId(instanceId).setNumber(++number).setTimeMs(timeMs)
                .setKind(kind).setResult(result).setCode(code).setDetail(detail).setEvent(event == null ? 0 : event.number())
                .setSuspectFromStep(from).setModelName(card.name()).setModelDigest(digest(card.modelDigest()).toHash())
                .setBuild(card.build().split(" ", 2)[0]).build();
        LOG.warn("alarm {}: {} {} {} {}", number, kind, result, code, detail);
        kept.addLast(alarm);
        if (kept.size() > MOST_KEPT) {
            kept.removeFirst();
            metrics.alarmFailed();
        }
    }

    private static Digest digest(String text) {
        String hex = text.substring(text.indexOf(':') + 1);
        return hex.matches("[0-9a-f]{64}") ? Digest.ofHex(hex) : Digest.ZERO;
    }

    /// Sends what is left, for some seconds if need be.
    @Override
    public void close() {
        closing = true;
        LockSupport.unpark(thread);
        try {
            thread.join(LAST_WORDS.plusSeconds(20).toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        road.close();
    }
}

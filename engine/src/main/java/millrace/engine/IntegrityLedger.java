package millrace.engine;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/// What the checks of one engine have found out, in one place: each of them writes here, [TextEngine] reads here.
///
/// ```
///  steps    1 2 3 4 5 6 7 8 9        a doubt spans the steps whose results may be wrong: from the first after the
///               └─ doubt ─┘          last good check, to the last before the repair
/// ```
///
/// Safe for any thread; nothing here waits for anything but short sections of this object. [#beginStep] is called by the
/// engine's thread alone and takes no lock.
public final class IntegrityLedger {
    /// Events that are kept.
    static final int KEPT = 1_000;

    private static final long UNKNOWN = -1;

    private final LongSupplier epochMs;
    private final Deque<IntegrityEvent> events = new ArrayDeque<>();
    private final List<Doubt> doubts = new ArrayList<>();
    private final long[] faults = new long[IntegrityEvent.Kind.values().length];
    private final List<Object> holds = new ArrayList<>();
    private long lastNumber;
    private long scrubGeneration;
    private LongSupplier scrubAgeMs = () -> UNKNOWN;
    private long canaryPassedMs = UNKNOWN;
    private volatile long step;
    private volatile boolean admitting = true;
    private volatile @Nullable String refusal;

    /// @param epochMs the clock, milliseconds since the epoch
    public IntegrityLedger(LongSupplier epochMs) {
        this.epochMs = epochMs;
    }

    /// A ledger by the clock of the machine.
    public IntegrityLedger() {
        this(System::currentTimeMillis);
    }

    /// Steps whose results may be wrong. It grows with the engine's steps until [#end].
    public static final class Doubt {
        private final IntegrityLedger ledger;
        private final long from;
        private long through = Long.MAX_VALUE;

        private Doubt(IntegrityLedger ledger, long from) {
            this.ledger = ledger;
            this.from = from;
        }

        /// What was damaged is repaired, or its step's results are dropped: steps that begin from now on are as good as any.
        /// Call it between two steps.
        public void end() {
            synchronized (ledger) {
                through = Math.min(through, ledger.step);
            }
        }
    }

    /// The engine's thread begins this step.
    public void beginStep(long number) {
        step = number;
    }

    /// The step that runs, or ran last; 0 before the first.
    public long step() {
        return step;
    }

    /// Writes down a finding that puts no result in doubt.
    public IntegrityEvent post(
            IntegrityEvent.Kind kind, IntegrityEvent.Result result, String code, String detail) {
        return post(kind, result, code, detail, IntegrityEvent.NO_STEP);
    }

    /// Writes down a finding. It counts as a fault of its kind unless it passed.
    ///
    /// @param code stable, see docs/formats.md; empty where all is well
    /// @param detail name=value words, never content
    /// @param suspectFromStep as in [IntegrityEvent]; what is handed on is decided by [#doubt], not by this
    public synchronized IntegrityEvent post(
            IntegrityEvent.Kind kind,
            IntegrityEvent.Result result,
            String code,
            String detail,
            long suspectFromStep) {
        if (result != IntegrityEvent.Result.PASSED) {
            faults[kind.ordinal()]++;
        }
        var event = new IntegrityEvent(
                ++lastNumber, kind, result, code, detail, epochMs.getAsLong(), suspectFromStep);
        events.addLast(event);
        if (events.size() > KEPT) {
            events.removeFirst();
        }
        return event;
    }

    /// Results of this step and of all later ones are not to be trusted, until the doubt ends.
    public synchronized Doubt doubt(long fromStep) {
        var doubt = new Doubt(this, fromStep);
        if (doubts.size() == KEPT) {
            merge();
        }
        doubts.add(doubt);
        return doubt;
    }

    /// Makes one of the two oldest doubts that have ended: it covers them and what lies between, which errs to the safe side.
    private void merge() {
        Doubt first = null;
        for (Doubt doubt : doubts) {
            if (doubt.through == Long.MAX_VALUE) {
                continue;
            }
            if (first == null) {
                first = doubt;
                continue;
            }
            var both = new Doubt(this, Math.min(first.from, doubt.from));
            both.through = Math.max(first.through, doubt.through);
            doubts.remove(doubt);
            doubts.set(doubts.indexOf(first), both);
            return;
        }
    }

    /// The first step of all doubts that have not ended, [IntegrityEvent#NO_STEP] where there is none.
    public synchronized long doubtedFrom() {
        long from = IntegrityEvent.NO_STEP;
        for (Doubt doubt : doubts) {
            if (doubt.through == Long.MAX_VALUE) {
                from = Math.min(from, doubt.from);
            }
        }
        return from;
    }

    /// Whether no doubt covers the step that gave the result its last token.
    public synchronized boolean trusts(GenerationResult result) {
        long last = result.transcript().lastStep();
        if (last == 0) {
            return true;
        }
        for (Doubt doubt : doubts) {
            if (doubt.from <= last && last <= doubt.through) {
                return false;
            }
        }
        return true;
    }

    /// No new work is started until everybody who holds it has released it. Holding twice counts once.
    ///
    /// @param holder by identity
    public synchronized void hold(Object holder) {
        if (!isHeldBy(holder)) {
            holds.add(holder);
        }
        admitting = false;
    }

    /// Takes a hold back; nothing happens without one.
    public synchronized void release(Object holder) {
        holds.removeIf(other -> other == holder);
        admitting = holds.isEmpty() && refusal == null;
    }

    private boolean isHeldBy(Object holder) {
        return holds.stream().anyMatch(other -> other == holder);
    }

    /// What was found cannot be made good: no work is started any more, whatever is released.
    ///
    /// @param reason for [TextEngine#failure]; the first one stays
    public synchronized void refuse(String reason) {
        if (refusal == null) {
            refusal = reason;
        }
        admitting = false;
    }

    /// Why the engine takes no more work, or null.
    public @Nullable String refusal() {
        return refusal;
    }

    /// Whether new work may be started.
    public boolean admitting() {
        return admitting;
    }

    /// @param ageMs age of the oldest check of a resident block, -1 where it is unknown; may be called at any time
    public synchronized void watchScrub(LongSupplier ageMs) {
        scrubAgeMs = ageMs;
    }

    /// A whole pass over the resident weights has ended.
    public synchronized void scrubbed() {
        scrubGeneration++;
    }

    /// The golden prompt has passed now.
    public synchronized void canaryPassed() {
        canaryPassedMs = epochMs.getAsLong();
    }

    /// Events with a number above `after`, oldest first.
    public synchronized List<IntegrityEvent> events(long after) {
        // Stream threads ask at every turn, and nearly always there is nothing.
        return after >= lastNumber ? List.of() : events.stream().filter(event -> event.number() > after).toList();
    }

    /// What the checks say now.
    public IntegrityState state() {
        LongSupplier age;
        synchronized (this) {
            age = scrubAgeMs;
        }
        // Not under the lock: the scrubber may hold its own and write here.
        long ageMs = age.getAsLong();
        synchronized (this) {
            return new IntegrityState(
                    admitting,
                    scrubGeneration,
                    ageMs,
                    canaryPassedMs == UNKNOWN ? UNKNOWN : Math.max(0, epochMs.getAsLong() - canaryPassedMs),
                    faults(IntegrityEvent.Kind.WEIGHT),
                    faults(IntegrityEvent.Kind.KV_PAGE),
                    faults(IntegrityEvent.Kind.COMPUTE),
                    faults(IntegrityEvent.Kind.CANARY));
        }
    }

    private long faults(IntegrityEvent.Kind kind) {
        return faults[kind.ordinal()];
    }
}

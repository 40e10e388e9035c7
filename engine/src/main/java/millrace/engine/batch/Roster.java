package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import millrace.engine.FinishReason;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// Who waits and who runs, and how a sequence gives up its pages: never unexamined.
///
/// ```
///  gives up its pages, for whatever reason
///     pages that are not its own ─▶ the table is dropped, holders are counted anew; its tokens are good
///     pages that are damaged     ─▶ tokens that came of steps after the last good look are dropped
///  it was done and lost tokens  ─▶ it waits again and is computed again: a result is handed on only if every page that it
///                                  was read from is sound after the last read
/// ```
///
/// So the tokens of a sequence that holds no pages are good, and what is found in a page later puts no earlier result in doubt.
final class Roster {
    /// Damage to one sequence that is repaired; after that it fails.
    private static final int MOST_REPAIRS = 3;

    /// In order of rank.
    final List<Sequence> running = new ArrayList<>();

    final PriorityQueue<Sequence> waiting = new PriorityQueue<>((a, b) -> a.outranks(b) ? -1 : 1);

    /// Faults that were repaired.
    int repairs;

    private final PagePool pool;
    private final IntegrityLedger ledger;
    private final boolean checked;

    /// @param checked whether pages are examined at all
    Roster(PagePool pool, IntegrityLedger ledger, boolean checked) {
        this.pool = pool;
        this.ledger = ledger;
        this.checked = checked;
    }

    /// The sequence loses its place and its pages, and is computed again later.
    void preempt(Sequence sequence) {
        running.remove(sequence);
        computeAgain(sequence, Long.MAX_VALUE);
    }

    /// Takes back all that came of steps from this one on; what cannot be taken back fails.
    void distrust(long fromStep) {
        List<Sequence> all = all();
        if (pool.index() != null) {
            pool.index().clear();
        }
        for (Sequence sequence : all) {
            running.remove(sequence);
            computeAgain(sequence, fromStep - 1);
        }
    }

    /// Ends everything with `FAILED` and empties the prefix index.
    void failAll(String errorCode, String errorMessage) {
        for (Sequence sequence : all()) {
            running.remove(sequence);
            release(sequence);
            sequence.work.end(sequence, FinishReason.FAILED, errorCode, errorMessage);
        }
        if (pool.index() != null) {
            pool.index().clear();
        }
    }

    /// Who runs and who waits; nobody waits any more.
    private List<Sequence> all() {
        List<Sequence> all = new ArrayList<>(running);
        all.addAll(waiting);
        waiting.clear();
        return all;
    }

    /// Of a sequence that neither runs nor waits: keeps what came of steps up to this one, as far as its pages are sound, and
    /// lets the rest be computed again.
    void computeAgain(Sequence sequence, long lastGoodStep) {
        long good = Math.min(lastGoodStep, giveUpPages(sequence));
        boolean taken = sequence.tookFrom(good);
        sequence.rewind();
        if (taken) {
            sequence.dropAfter(good);
            if (!sequence.work.restart(sequence)) {
                sequence.work.end(sequence, FinishReason.FAILED, "ENGINE_DOUBT", "engine: weights or KV pages were found damaged "
                        + "while this was computed, and logits that were handed out cannot be taken back; submit it again");
                return;
            }
        }
        if (sequence.pagesDamaged > MOST_REPAIRS) {
            sequence.work.end(sequence, FinishReason.FAILED, "KV_CORRUPT", "KV cache: pages of this sequence were found damaged "
                    + sequence.pagesDamaged + " times; submit it again, and check the memory of this machine");
            return;
        }
        waiting.add(sequence);
    }

    /// Ends a sequence that is not waiting, unless it was done and lost some of that: then it is computed again.
    void end(Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        running.remove(sequence);
        boolean done = reason == FinishReason.STOP || reason == FinishReason.LENGTH;
        long good = giveUpPages(sequence);
        if (sequence.tookFrom(good)) {
            if (done) {
                computeAgain(sequence, good);
                return;
            }
            // Cut short anyway: what is left is right.
            sequence.dropAfter(good);
            sequence.work.restart(sequence);
        }
        sequence.work.end(sequence, reason, errorCode, errorMessage);
    }

    /// @return what came of steps up to this one is good; `Long.MAX_VALUE` for all
    private long giveUpPages(Sequence sequence) {
        PageTable pages = sequence.pages;
        if (pages == null) {
            return Long.MAX_VALUE;
        }
        long good = verify(sequence, PageGuard.Moment.LEAVE);
        if (good != Long.MAX_VALUE) {
            sequence.pagesDamaged++;
        }
        release(sequence);
        return good;
    }

    private void release(Sequence sequence) {
        PageTable pages = sequence.pages;
        if (pages == null) {
            return;
        }
        int foreign = checked ? pages.firstForeign(Integer.MAX_VALUE) : -1;
        sequence.pages = null;
        if (sequence.probe && foreign < 0) {
            // Nobody else may read what it computed, so nothing of it is kept.
            pages.forget();
        }
        if (foreign < 0) {
            pages.release();
            return;
        }
        pages.abandon();
        List<PageTable> tables = new ArrayList<>();
        for (Sequence other : running) {
            if (other != sequence && other.pages != null) {
                tables.add(other.pages);
            }
        }
        pool.recount(tables);
        repairs++;
        ledger.post(
                IntegrityEvent.Kind.KV_PAGE, IntegrityEvent.Result.REPAIRED, "KV_FOREIGN",
                "position=" + foreign + " step=" + ledger.step());
    }

    /// Checks the sealed pages of a sequence that were not yet in this phase of the step.
    ///
    /// @return as [PageTable#verify]
    private long verify(Sequence sequence, PageGuard.Moment moment) {
        PageGuard guard = pool.guard();
        if (guard == null || sequence.pages == null) {
            return Long.MAX_VALUE;
        }
        long before = guard.verified();
        long good = sequence.pages.verify(guard, moment);
        sequence.pagesVerified += (int) (guard.verified() - before);
        return good;
    }

    /// Takes all running sequences out that hold pages which are not their own, to be computed again.
    void expelForeign() {
        for (int i = 0; checked && i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.pages != null && sequence.pages.firstForeign(Integer.MAX_VALUE) >= 0) {
                expel(sequence);
                i = -1;
            }
        }
    }

    /// Takes the sequence out whose page is not its own where the step would read it, though its table is sound.
    ///
    /// @param foreign its place in the step, −1 for none
    /// @return whether there is none
    boolean allOwn(Sequence[] planned, int foreign) {
        if (foreign < 0) {
            return true;
        }
        repairs++;
        ledger.post(
                IntegrityEvent.Kind.KV_PAGE, IntegrityEvent.Result.REPAIRED, "KV_FOREIGN",
                "at=device step=" + ledger.step());
        expel(planned[foreign]);
        return false;
    }

    /// Takes a running sequence out whose table is not sound, to be computed again.
    void expel(Sequence sequence) {
        running.remove(sequence);
        sequence.pagesDamaged++;
        computeAgain(sequence, Long.MAX_VALUE);
    }

    /// Has all running sequences computed again that hold pages which were found damaged.
    ///
    /// @return whether anything was found since it was called last
    boolean mend() {
        PageGuard guard = pool.guard();
        if (guard != null) {
            guard.settle();
        }
        if (guard == null || !guard.hasFindings()) {
            return false;
        }
        while (guard.hasFindings()) {
            List<PageGuard.Finding> findings = guard.takeFindings();
            repairs++;
            int repaired = 0;
            for (Sequence sequence : List.copyOf(running)) {
                if (sequence.pages != null && sequence.pages.goodStep(guard) != Long.MAX_VALUE) {
                    running.remove(sequence);
                    computeAgain(sequence, Long.MAX_VALUE);
                    repaired++;
                }
            }
            for (PageGuard.Finding finding : findings) {
                ledger.post(
                        IntegrityEvent.Kind.KV_PAGE, IntegrityEvent.Result.REPAIRED, "KV_CORRUPT",
                        "page=" + finding.page() + " at=" + finding.moment().name().toLowerCase(java.util.Locale.ROOT)
                                + " why=" + finding.why() + " good_step=" + finding.goodStep() + " recomputed=" + repaired
                                + " retired=" + guard.retired());
            }
        }
        return true;
    }
}

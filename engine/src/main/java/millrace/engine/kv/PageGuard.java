package millrace.engine.kv;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import millrace.engine.kernel.CacheMemory;

/// Finds KV pages that do not hold what they should, and keeps their slots from being used again unexamined.
///
/// ```
///  full ──seal──▶ sealed ──verify──▶ sealed, good up to the step before
///                   │ mismatch
///                   ▼
///                damaged: out of the index with all that follow it, whoever holds it is computed again
///                   │ nobody holds it any more
///                   ▼
///                written and read back ──▶ free,  or retired: the second time within a day, or if a bit does not hold
/// ```
///
/// The digests ([PageSeal]) lie here, apart from the pages. Time has two phases a step: *before* it, where pages are about to
/// be read, and *after* it, where they have been. A page found good in a phase is not looked at twice in it. What was
/// computed from a page is good up to the last phase in which the page was.
///
/// All methods are called on the pool's thread, counters may be read by any. Nothing is allocated but when pages are handed
/// out for the first time and when something is found.
public final class PageGuard {
    private static final long NEVER = -1;
    private static final long DAY_MS = 24L * 60 * 60 * 1_000;

    /// Of all time, the most that the walk may take.
    private static final double WALK_SHARE = 0.0025;

    /// The most time that the walk saves up, so that it never holds a step up for long.
    private static final long MOST_SAVED_NANOS = 2_000_000;

    /// What it saves up before it begins: a device digests many pages in little more time than one.
    private static final long WORTH_A_WALK_NANOS = 250_000;

    /// The most slots that one call of the walk passes, and the most pages that it looks at side by side.
    private static final int MOST_WALKED = 1_024;

    private static final int MOST_BATCHED = 64;

    private final PagePool pool;
    private final Settings settings;
    private final ChainHash hash;
    private final PageSeal seal = new PageSeal();
    private final CacheMemory memory;
    private final int pageBytes;

    // By page number; grown as pages are handed out.
    private long[] digests = new long[0];
    private long[] tags = new long[0];
    private long[] goodPhase = new long[0];
    private long[] verifiedNanos = new long[0];
    private long[] queuedPhase = new long[0];
    private boolean[] damaged = new boolean[0];

    /// When a slot was found damaged last, milliseconds since the epoch.
    private final Map<Integer, Long> faults = new HashMap<>();

    private final List<Finding> findings = new ArrayList<>();
    /// Pages of a batch, where they lie, what their holders say that they are, and the digests that they have.
    private int[] queued = new int[64];
    private long[] queuedAddresses = new long[64];
    private long[] queuedTags = new long[64];
    private long[] queuedDigests = new long[64];
    private int queueLength;

    /// Whether the batch is of pages to be sealed, and not of pages to be verified.
    private boolean sealing;
    private final long[] oneAddress = new long[1];
    private final long[] oneTag = new long[1];
    private final long[] oneDigest = new long[1];

    private boolean everSealed;
    private long phase;
    private int cursor;
    private long walkedAt;
    private long savedNanos;
    private volatile long verified;
    private volatile int retired;

    /// When a page was looked at.
    public enum Moment {
        /// Taken from the index.
        HIT,
        /// About to be read by a step.
        READ,
        /// Given up by a sequence that ends or waits again.
        LEAVE,
        /// The walk over all sealed pages.
        WALK
    }

    /// A page that does not hold what it should.
    ///
    /// @param why `content`, `identity` or `unsealed`
    /// @param goodStep what steps up to this one have made of it is good
    public record Finding(int page, Moment moment, String why, long goodStep) {}

    /// How pages are guarded.
    ///
    /// @param identity names all that the bytes of a page depend on, tokens and salt apart: model, KV format, arithmetic
    /// @param maxAgeNanos a page that was verified longer ago is verified when it is taken from the index
    /// @param nanos a clock for durations
    /// @param epochMs a clock for days
    public record Settings(String identity, long maxAgeNanos, LongSupplier nanos, LongSupplier epochMs) {}

    PageGuard(PagePool pool, Settings settings, ChainHash hash) {
        this.pool = pool;
        this.settings = settings;
        this.hash = hash;
        memory = pool.memory();
        pageBytes = Math.toIntExact(pool.layout().pageBytes());
        walkedAt = settings.nanos().getAsLong();
    }

    /// A step is about to read pages.
    ///
    /// @param stepsDone steps that have been computed
    public void beforeStep(long stepsDone) {
        settle();
        phase = 2 * stepsDone + 1;
    }

    /// A step has read pages.
    ///
    /// @param stepsDone steps that have been computed, this one included
    public void afterStep(long stepsDone) {
        settle();
        phase = 2 * stepsDone;
    }

    /// Pages whose digest was compared, since the start.
    public long verified() {
        return verified;
    }

    /// Slots that are not used any more.
    public int retired() {
        return retired;
    }

    /// What was found since it was asked last.
    public List<Finding> takeFindings() {
        List<Finding> taken = List.copyOf(findings);
        findings.clear();
        return taken;
    }

    public boolean hasFindings() {
        return !findings.isEmpty();
    }

    /// Whether there are sealed pages, or were once.
    public boolean hasSealed() {
        return everSealed;
    }

    /// Whether the page was found damaged and is not free again yet.
    public boolean isDamaged(int page) {
        return damaged[page];
    }

    /// What steps up to this one have made of the page is good.
    public long goodStep(int page) {
        return goodPhase[page] >> 1;
    }

    /// What page i of these tokens is.
    long idTag(PrefixKey key, int i, int[] tokens) {
        return key.idTag(hash, seal, i, tokens);
    }

    /// Seals a page that is full and will not be written again: with the others of its batch, at the latest when the batch is
    /// [settled][#settle], which whoever looks at a digest does before.
    void queueSeal(int page, long idTag) {
        everSealed = true;
        tags[page] = idTag;
        enqueue(page, idTag);
        sealing = true;
    }

    /// Digests the pages that were sealed, side by side.
    public void settle() {
        if (!sealing) {
            return;
        }
        sealing = false;
        digestQueued();
        for (int i = 0; i < queueLength; i++) {
            digests[queued[i]] = PageSeal.kept(queuedDigests[i]);
            good(queued[i]);
        }
        queueLength = 0;
    }

    /// Whether a page of the index is what the asker expects; its bytes are looked at if that was long ago, or always.
    /// Otherwise it leaves the index, with all that follow it.
    boolean accepts(int page, long idTag, boolean always) {
        settle();
        if (digests[page] == PageSeal.POISON) {
            return report(page, Moment.HIT, "unsealed");
        }
        if (tags[page] != idTag) {
            return report(page, Moment.HIT, "identity");
        }
        if (!always && settings.nanos().getAsLong() - verifiedNanos[page] <= settings.maxAgeNanos()) {
            return !damaged[page];
        }
        return verify(page, idTag, Moment.HIT);
    }

    /// Whether a sealed page holds what its holder expects; looked at once in a phase.
    boolean verify(int page, long idTag, Moment moment) {
        settle();
        if (damaged[page]) {
            return false;
        }
        if (goodPhase[page] == phase) {
            return true;
        }
        countVerified();
        if (digest(page, idTag) != digests[page]) {
            return report(page, moment, digests[page] == PageSeal.POISON ? "unsealed" : "content");
        }
        good(page);
        return true;
    }

    /// Puts a sealed page into the batch that [#verifyQueued] looks at, unless it was looked at in this phase.
    ///
    /// @return whether it was put there
    boolean queue(int page, long idTag, Moment moment) {
        settle();
        if (damaged[page] || goodPhase[page] == phase) {
            return false;
        }
        if (queuedPhase[page] == phase) {
            // Two holders of one page must agree on what it is.
            return tags[page] != idTag && report(page, moment, "identity");
        }
        queuedPhase[page] = phase;
        enqueue(page, idTag);
        return true;
    }

    private void enqueue(int page, long idTag) {
        if (queueLength == queued.length) {
            queued = Arrays.copyOf(queued, 2 * queueLength);
            queuedAddresses = Arrays.copyOf(queuedAddresses, 2 * queueLength);
            queuedTags = Arrays.copyOf(queuedTags, 2 * queueLength);
            queuedDigests = Arrays.copyOf(queuedDigests, 2 * queueLength);
        }
        queued[queueLength] = page;
        queuedAddresses[queueLength] = pool.address(page);
        queuedTags[queueLength++] = idTag;
    }

    private void digestQueued() {
        if (queueLength > 0) {
            memory.digest(queueLength, queuedAddresses, pageBytes, queuedTags, queuedDigests);
        }
    }

    /// Looks at the pages of the batch, side by side, and empties it.
    public void verifyQueued(Moment moment) {
        settle();
        digestQueued();
        for (int i = 0; i < queueLength; i++) {
            int page = queued[i];
            queuedPhase[page] = NEVER;
            countVerified();
            if (PageSeal.kept(queuedDigests[i]) == digests[page]) {
                good(page);
            } else {
                report(page, moment, digests[page] == PageSeal.POISON ? "unsealed" : "content");
            }
        }
        queueLength = 0;
    }

    private void good(int page) {
        goodPhase[page] = phase;
        verifiedNanos[page] = settings.nanos().getAsLong();
    }

    private boolean report(int page, Moment moment, String why) {
        if (!damaged[page]) {
            damaged[page] = true;
            findings.add(new Finding(page, moment, why, goodStep(page)));
            PrefixIndex index = pool.index();
            if (index != null && index.holds(page)) {
                index.forget(page);
            }
        }
        return false;
    }

    private long digest(int page, long idTag) {
        oneAddress[0] = pool.address(page);
        oneTag[0] = idTag;
        memory.digest(1, oneAddress, pageBytes, oneTag, oneDigest);
        return PageSeal.kept(oneDigest[0]);
    }

    /// Looks at sealed pages in turn whose last look is as long ago as one that a hit would look at again, within its share of the
    /// time since it was called last: at one, then at twice as many side by side, and so on.
    ///
    /// @return the pages that were looked at
    public int walk() {
        settle();
        long now = settings.nanos().getAsLong();
        savedNanos = Math.min(MOST_SAVED_NANOS, savedNanos + (long) (WALK_SHARE * (now - walkedAt)));
        int walked = 0;
        int left = savedNanos < WORTH_A_WALK_NANOS ? 0 : Math.min(digests.length, MOST_WALKED);
        for (int batch = 1; left > 0 && savedNanos > 0; batch = Math.min(MOST_BATCHED, 2 * batch)) {
            int count = 0;
            for (; left > 0 && count < batch; left--) {
                int page = cursor;
                cursor = cursor + 1 == digests.length ? 0 : cursor + 1;
                if (digests[page] != PageSeal.POISON && now - verifiedNanos[page] > settings.maxAgeNanos()
                        && queue(page, tags[page], Moment.WALK)) {
                    count++;
                }
            }
            verifyQueued(Moment.WALK);
            walked += count;
            long then = now;
            now = settings.nanos().getAsLong();
            savedNanos -= now - then;
        }
        walkedAt = now;
        return walked;
    }

    /// Looks at every sealed page that was not looked at in this phase.
    public void verifyAll() {
        settle();
        for (int page = 0; page < digests.length; page++) {
            if (digests[page] != PageSeal.POISON
                    && queue(page, tags[page], Moment.WALK)
                    && queueLength == MOST_WALKED) {
                verifyQueued(Moment.WALK);
            }
        }
        verifyQueued(Moment.WALK);
    }

    /// The page is handed out or free: nothing that it holds counts any more.
    void unseal(int page) {
        settle();
        if (page >= digests.length) {
            grow(page);
        }
        digests[page] = PageSeal.POISON;
        tags[page] = 0;
        goodPhase[page] = phase;
    }

    /// Whether a page that nobody holds may be handed out again. A damaged one is examined.
    boolean releases(int page) {
        if (!damaged[page]) {
            return true;
        }
        long nowMs = settings.epochMs().getAsLong();
        Long last = faults.put(page, nowMs);
        if (last != null && nowMs - last < DAY_MS || !memory.keepsBits(pool.address(page), pageBytes)) {
            retire();
            return false;
        }
        damaged[page] = false;
        return true;
    }

    private void grow(int page) {
        int from = digests.length;
        int size = Math.max(page + 1, Math.min(pool.pageCount(), Math.max(64, 2 * from)));
        digests = Arrays.copyOf(digests, size);
        Arrays.fill(digests, from, size, PageSeal.POISON);
        tags = Arrays.copyOf(tags, size);
        goodPhase = Arrays.copyOf(goodPhase, size);
        verifiedNanos = Arrays.copyOf(verifiedNanos, size);
        queuedPhase = Arrays.copyOf(queuedPhase, size);
        Arrays.fill(queuedPhase, from, size, NEVER);
        damaged = Arrays.copyOf(damaged, size);
    }

    // Only the pool's thread writes, so read-modify-write needs no lock; volatile is for the readers.
    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void countVerified() {
        verified++;
    }

    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void retire() {
        retired++;
    }

    // For tests, which damage what they find here.

    long[] digests() {
        return digests;
    }

    long[] tags() {
        return tags;
    }

    boolean isSound(int page) {
        return digest(page, tags[page]) == digests[page];
    }

    boolean isSealed(int page) {
        return page < digests.length && digests[page] != PageSeal.POISON;
    }
}

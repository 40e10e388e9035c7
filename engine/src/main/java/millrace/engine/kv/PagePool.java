package millrace.engine.kv;

import java.util.Arrays;
import java.util.List;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.HostCache;
import org.jspecify.annotations.Nullable;

/// A fixed number of pages, cut from a budget of bytes; that none is free is a value, not an exception.
///
/// ```
///  free ──allocate──▶ held by 1 ──share──▶ held by n ──free, n times──▶ free, or idle if its index keeps it
///    ▲                                        ▲                               │
///    └──────────────── evicted ───────────────┼───────────────────────────────┤
///                                             └────────────share──────────────┘
/// ```
///
/// Memory is taken in slabs of about 32 MiB when their first page is handed out, so that a large budget costs nothing
/// until it is used. Pages that were freed are handed out again first, the latest first: it is the warmest. When there
/// are none, and none is new, the page of the [PrefixIndex] that was idle longest goes: idle pages count as free.
///
/// Each page has an epoch, the number of its hand-out among all pages': two holders agree on it only if they share the page,
/// and it changes again when the page becomes free. With a [PageGuard] a page that was found damaged is examined before it is
/// handed out again, and may be retired for good.
///
/// One thread at a time allocates and frees; [#freePages] may be read by any.
public final class PagePool implements AutoCloseable {
    private static final long SLAB_BYTES = 32L << 20;

    /// A milliard of tokens; more would only make tables about pages large.
    private static final int MAX_PAGES = 1 << 26;

    /// Returned by [#allocate] when no page is free.
    static final int NONE = -1;

    private final KvLayout layout;
    private final int pageCount;
    private final int pagesPerSlab;
    private final CacheMemory memory;
    private final long[] slabs;
    private final int[] epochs;
    private final int[] holders;
    private int[] freed = new int[16];
    private int freedCount;
    private int neverUsed;
    private @Nullable PrefixIndex index;
    private @Nullable PageGuard guard;
    private int handedOut;
    private volatile int free;

    /// Pages in the memory of the process.
    ///
    /// @param budgetBytes the most bytes that pages may take; at least one page must fit
    public PagePool(KvLayout layout, long budgetBytes) {
        this(layout, budgetBytes, new HostCache());
    }

    /// @param budgetBytes the most bytes that pages may take; at least one page must fit
    /// @param memory where the pages lie; closed with the pool
    public PagePool(KvLayout layout, long budgetBytes, CacheMemory memory) {
        long pages = Math.min(budgetBytes / layout.pageBytes(), MAX_PAGES);
        if (pages < 1) {
            throw new IllegalArgumentException(
                    "KV cache: expected a budget of at least %d bytes (one page of %d tokens), got %d"
                            .formatted(layout.pageBytes(), CacheShape.TOKENS, budgetBytes));
        }
        this.layout = layout;
        pageCount = (int) pages;
        pagesPerSlab = (int) Math.max(1, Math.min(pages, SLAB_BYTES / layout.pageBytes()));
        slabs = new long[(pageCount + pagesPerSlab - 1) / pagesPerSlab];
        this.memory = memory;
        epochs = new int[pageCount];
        holders = new int[pageCount];
        free = pageCount;
    }

    /// Lets sequences that begin alike share full pages from now on; before any page was handed out.
    ///
    /// @param identity names all that the bytes of a page depend on, tokens and salt apart: model, KV format, arithmetic
    public PrefixIndex openIndex(String identity) {
        return openIndex(hash(identity));
    }

    PrefixIndex openIndex(ChainHash hash) {
        if (index != null || neverUsed > 0) {
            throw new IllegalStateException("KV cache: expected one index, opened before the first page is handed out");
        }
        PrefixIndex created = new PrefixIndex(this, hash);
        index = created;
        return created;
    }

    /// Seals full pages and checks them from now on; before any page was handed out and before an index is opened.
    public PageGuard openGuard(PageGuard.Settings settings) {
        if (guard != null || index != null || neverUsed > 0) {
            throw new IllegalStateException(
                    "KV cache: expected one guard, opened before the index and before the first page is handed out");
        }
        PageGuard created = new PageGuard(this, settings, hash(settings.identity()));
        guard = created;
        return created;
    }

    private ChainHash hash(String identity) {
        return ChainHash.sha256(identity, layout.drafted() ? 1 : 0);
    }

    /// Who checks the pages, or null.
    public @Nullable PageGuard guard() {
        return guard;
    }

    /// The index of shared pages, or null if pages are not shared.
    public @Nullable PrefixIndex index() {
        return index;
    }

    public KvLayout layout() {
        return layout;
    }

    public int pageCount() {
        return pageCount;
    }

    /// Pages that nobody holds, idle ones of the index included.
    public int freePages() {
        return free;
    }

    /// Tokens of a page.
    public int pageTokens() {
        return CacheShape.TOKENS;
    }

    /// Tokens that all pages together hold.
    public long capacityTokens() {
        return (long) pageCount * CacheShape.TOKENS;
    }

    /// Pages that so many tokens need.
    public static int pagesFor(int tokens) {
        return (tokens + CacheShape.TOKENS - 1) / CacheShape.TOKENS;
    }

    /// A page that nobody else holds, or [#NONE]. What it contains is undefined.
    int allocate() {
        int page;
        if (freedCount > 0) {
            page = freed[--freedCount];
        } else if (neverUsed < pageCount) {
            page = neverUsed;
            slab(page);
            neverUsed++;
        } else {
            page = index == null ? NONE : index.evict();
            if (page == NONE) {
                return NONE;
            }
        }
        holders[page] = 1;
        handOut(page);
        if (guard != null) {
            guard.unseal(page);
        }
        setFree(-1);
        return page;
    }

    private void handOut(int page) {
        epochs[page] = ++handedOut;
        memory.own(address(page), (int) layout.pageBytes(), handedOut);
    }

    /// One more holder of a page that its index has.
    void share(int page) {
        if (holders[page]++ == 0) {
            setFree(-1);
        }
    }

    /// One holder less.
    void free(int page) {
        if (holders[page] == 0) {
            throw new IllegalStateException("KV cache: page " + page + " was freed twice");
        }
        if (--holders[page] > 0) {
            return;
        }
        setFree(1);
        if (index == null || !index.keeps(page)) {
            recycle(page);
        }
    }

    /// Makes a page that nobody holds and no index keeps the next to be handed out, if it may be.
    void recycle(int page) {
        handOut(page);
        if (guard != null) {
            guard.unseal(page);
            if (!guard.releases(page)) {
                setFree(-1);
                return;
            }
        }
        if (freedCount == freed.length) {
            freed = Arrays.copyOf(freed, 2 * freedCount);
        }
        freed[freedCount++] = page;
    }

    /// How many tables hold the page.
    int holders(int page) {
        return holders[page];
    }

    /// The number of the page's hand-out, or of its becoming free, modulo 2³².
    int epoch(int page) {
        return epochs[page];
    }

    /// Absolute address of the page's first byte in [#memory]; 64-byte aligned.
    long address(int page) {
        return slabs[page / pagesPerSlab] + page % pagesPerSlab * layout.pageBytes();
    }

    /// Where the pages lie.
    CacheMemory memory() {
        return memory;
    }

    /// Whether a page is what somebody remembers of it: handed out by that number, to be found at that address, held.
    boolean owns(int page, int epoch, long address) {
        return page >= 0
                && page < neverUsed
                && epochs[page] == epoch
                && holders[page] > 0
                && address(page) == address;
    }

    /// Whether one table alone holds the page and nobody else can find it, so that it may be written.
    boolean isExclusive(int page) {
        return holders[page] == 1 && (index == null || !index.holds(page));
    }

    /// Counts holders anew, after a table was found to hold what is not its own and was dropped as it was. Pages that
    /// nobody holds become free.
    ///
    /// @param tables all that there are
    public void recount(List<PageTable> tables) {
        int[] counts = new int[neverUsed];
        for (PageTable table : tables) {
            table.count(counts);
        }
        for (int page = 0; page < neverUsed; page++) {
            if (holders[page] == 0) {
                continue;
            }
            if (counts[page] == 0) {
                if (index != null && index.holds(page)) {
                    index.forget(page);
                }
                holders[page] = 0;
                setFree(1);
                recycle(page);
            } else {
                holders[page] = counts[page];
            }
        }
    }

    // For tests, which damage what they find here.

    int[] epochs() {
        return epochs;
    }

    int[] holderCounts() {
        return holders;
    }

    /// Pages that were handed out at least once: the first so many.
    int usedPages() {
        return neverUsed;
    }

    /// Gives all memory back. No table of this pool may be used afterwards.
    @Override
    public void close() {
        memory.close();
    }

    private void slab(int page) {
        int slab = page / pagesPerSlab;
        if (slabs[slab] == 0) {
            int pages = Math.min(pagesPerSlab, pageCount - slab * pagesPerSlab);
            slabs[slab] = memory.allocate(pages * layout.pageBytes());
        }
    }

    // Only the allocating thread writes, so read-modify-write needs no lock; volatile is for the readers.
    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void setFree(int change) {
        free += change;
    }
}

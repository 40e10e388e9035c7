package millrace.engine.kv;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The pages of one sequence: token `t` lies in page `t / 16`, slot `t % 16`. Used by one thread at a time.
///
/// ```
///  pages   [ sealed, in the index ][ of its own ........ ]
///                                   ▲ sealedTokens        ▲ length
/// ```
///
/// Where the pool has a [PrefixIndex], a table begins with the pages that others have computed ([#adopt]), and its own
/// become sealed when they are full ([#seal]). Sealed pages may be shared and are never written.
///
/// A table remembers by which hand-out it got each page, where that page lies, and, where the pool has a [PageGuard], what it
/// is: so it can tell a page that is not its own any more ([#firstForeign]) or does not hold what it should ([#verify]).
public final class PageTable {
    private static final int NO_PAGE = -1;

    private final PagePool pool;
    private int[] pages = new int[8];
    private int[] epochs = new int[8];
    private long[] addresses = new long[8];

    /// What each sealed page is.
    private long[] idTags = new long[8];

    private int pageCount;
    private int length;

    /// The first pages, which are sealed: they are full and are not written again.
    private int sealed;

    public PageTable(PagePool pool) {
        this.pool = pool;
    }

    /// Makes room for so many tokens in all.
    ///
    /// @return false if the pool has not enough free pages; then nothing changed
    public boolean ensure(int tokens) {
        int needed = PagePool.pagesFor(tokens);
        if (needed - pageCount > pool.freePages()) {
            return false;
        }
        while (pageCount < needed) {
            append(pool.allocate());
        }
        length = Math.max(length, tokens);
        return true;
    }

    /// Takes pages that the index has for these tokens, as far as they follow what the table holds and are what they
    /// should be; only while all of its pages are sealed.
    ///
    /// @param most the most pages that the table may then hold; tokens of later pages are computed
    /// @param verify whether the bytes of every page are checked, not only of those checked long ago
    /// @return how many pages were taken
    public int adopt(PrefixKey key, int[] tokens, int most, boolean verify) {
        PrefixIndex index = pool.index();
        if (index == null || sealed != pageCount || !isIndexed(index, sealed - 1)) {
            return 0;
        }
        PageGuard guard = pool.guard();
        int from = pageCount;
        while (pageCount < most) {
            int page = index.findAny(key, pageCount, before(pageCount), tokens);
            if (page == PagePool.NONE) {
                break;
            }
            long idTag = 0;
            if (guard != null) {
                idTag = guard.idTag(index.named(page, key), pageCount, tokens);
                if (!guard.accepts(page, idTag, verify)) {
                    break;
                }
            }
            index.take(page);
            append(page);
            idTags[pageCount - 1] = idTag;
        }
        sealed = pageCount;
        length = Math.max(length, pageCount * pool.pageTokens());
        index.countHits(pageCount - from);
        return pageCount - from;
    }

    /// Gives back the pages that so many tokens do not need; never sealed ones.
    ///
    /// @return whether there were any
    public boolean trim(int tokens) {
        int needed = Math.max(sealed, PagePool.pagesFor(tokens));
        if (pageCount <= needed) {
            return false;
        }
        while (pageCount > needed) {
            pool.free(pages[--pageCount]);
        }
        length = Math.min(length, pageCount * pool.pageTokens());
        return true;
    }

    /// Seals the pages that these computed tokens fill. One that another table has put into the index meanwhile is
    /// given up for that: what they hold is equal, to the bit. Behind a page that is not in the index none enters it.
    /// The guard digests them when it is settled.
    ///
    /// @param key by which kind of name: of whole pages, or of such that lack the part of the draft layer
    /// @param computed tokens of which every layer has what it keeps; where a draft layer does, the next token is known
    public void seal(PrefixKey key, int[] tokens, int computed) {
        PrefixIndex index = pool.index();
        PageGuard guard = pool.guard();
        if (index == null && guard == null) {
            return;
        }
        int full = computed / pool.pageTokens();
        for (; sealed < full; sealed++) {
            boolean shared = index != null && isIndexed(index, sealed - 1);
            if (guard == null && !shared) {
                return;
            }
            long idTag = guard == null ? 0 : guard.idTag(key, sealed, tokens);
            idTags[sealed] = idTag;
            if (index != null && shared && replace(index, guard, key, tokens, idTag)) {
                continue;
            }
            if (guard != null) {
                guard.queueSeal(pages[sealed], idTag);
            }
            if (index != null && shared) {
                index.register(key, sealed, before(sealed), tokens, pages[sealed]);
            }
        }
    }

    /// Takes the page that the index has instead of the one that is to be sealed next, if there is a sound one.
    private boolean replace(PrefixIndex index, @Nullable PageGuard guard, PrefixKey key, int[] tokens, long idTag) {
        int known = index.find(key, sealed, before(sealed), tokens);
        if (known == PagePool.NONE || guard != null && !guard.accepts(known, idTag, false)) {
            return false;
        }
        index.take(known);
        pool.free(pages[sealed]);
        set(sealed, known);
        return true;
    }

    /// Takes its pages, and all that follow them in other tables, out of the index: what they hold is in doubt.
    public void forget() {
        PrefixIndex index = pool.index();
        if (index != null && sealed > 0 && index.holds(pages[0])) {
            index.forget(pages[0]);
        }
    }

    /// The first page that is not the table's own any more, or may not be written though it is about to be; -1 if all is
    /// as it should be. Compares numbers only and touches no page:
    ///
    /// ```
    ///  epoch[page[i]] = expected[i]  ∧  address(page[i]) = address[i]  ∧  holders[page[i]] > 0 (= 1 where it is written)
    /// ```
    ///
    /// @param from the first position that is about to be written
    public int firstForeign(int from) {
        int firstWritten = from / pool.pageTokens();
        for (int i = 0; i < pageCount; i++) {
            if (!pool.owns(pages[i], epochs[i], addresses[i])
                    || i >= firstWritten && !pool.isExclusive(pages[i])) {
                return i;
            }
        }
        return NO_PAGE;
    }

    /// Puts all sealed pages into the guard's batch, those apart that are not the table's own.
    ///
    /// @return how many
    public int queue(PageGuard guard, PageGuard.Moment moment) {
        int count = 0;
        for (int i = 0; i < sealed; i++) {
            if (pool.owns(pages[i], epochs[i], addresses[i]) && guard.queue(pages[i], idTags[i], moment)) {
                count++;
            }
        }
        return count;
    }

    /// Checks all sealed pages against their digests, those apart that are not the table's own.
    ///
    /// @return what steps up to this one have made of its pages is good; `Long.MAX_VALUE` if all of them are sound
    public long verify(PageGuard guard, PageGuard.Moment moment) {
        queue(guard, moment);
        guard.verifyQueued(moment);
        return goodStep(guard);
    }

    /// As [#verify], of pages that were found damaged before; looks at none.
    public long goodStep(PageGuard guard) {
        long good = Long.MAX_VALUE;
        for (int i = 0; i < pageCount; i++) {
            if (pool.owns(pages[i], epochs[i], addresses[i]) && guard.isDamaged(pages[i])) {
                good = Math.min(good, guard.goodStep(pages[i]));
            }
        }
        return good;
    }

    /// Drops the pages as they are, since some are not its own; [PagePool#recount] must follow.
    public void abandon() {
        pageCount = 0;
        length = 0;
        sealed = 0;
    }

    /// Counts the pages that are its own.
    void count(int[] counts) {
        for (int i = 0; i < pageCount; i++) {
            if (pool.owns(pages[i], epochs[i], addresses[i])) {
                counts[pages[i]]++;
            }
        }
    }

    private int before(int i) {
        return i == 0 ? PagePool.NONE : pages[i - 1];
    }

    private boolean isIndexed(PrefixIndex index, int i) {
        return i < 0 || index.holds(pages[i]);
    }

    private void append(int page) {
        if (pageCount == pages.length) {
            int size = 2 * pageCount;
            pages = Arrays.copyOf(pages, size);
            epochs = Arrays.copyOf(epochs, size);
            addresses = Arrays.copyOf(addresses, size);
            idTags = Arrays.copyOf(idTags, size);
        }
        set(pageCount++, page);
    }

    private void set(int i, int page) {
        pages[i] = page;
        epochs[i] = pool.epoch(page);
        addresses[i] = pool.address(page);
    }

    // For tests, which damage what they find here.

    int[] pages() {
        return pages;
    }

    /// Gives all pages back, the last first; the table is then empty and may be used again.
    public void release() {
        while (pageCount > 0) {
            pool.free(pages[--pageCount]);
        }
        length = 0;
        sealed = 0;
    }

    /// Tokens that [#ensure] made room for.
    public int length() {
        return length;
    }

    public int pageCount() {
        return pageCount;
    }

    /// Tokens of the first pages that may be shared: none of them is written again.
    public int sealedTokens() {
        return sealed * pool.pageTokens();
    }

    /// Number of the i-th page in its pool.
    public int page(int i) {
        return pages[i];
    }

    /// The number of the i-th page's hand-out when this table got it.
    public int epoch(int i) {
        return epochs[i];
    }

    /// The numbers of all pages' hand-outs; only the first [#pageCount] count. Not a copy.
    public int[] epochs() {
        return epochs;
    }

    /// Absolute addresses of the pages; only the first [#pageCount] count. Not a copy.
    public long[] addresses() {
        return addresses;
    }
}

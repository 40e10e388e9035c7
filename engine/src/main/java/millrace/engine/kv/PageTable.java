package millrace.engine.kv;

import java.util.Arrays;

/// The pages of one sequence: token `t` lies in page `t / 16`, slot `t % 16`. Used by one thread at a time.
///
/// ```
///  pages   [ sealed, in the index ][ of its own ........ ]
///                                   ▲ sealedTokens        ▲ length
/// ```
///
/// Where the pool has a [PrefixIndex], a table begins with the pages that others have computed ([#adopt]), and its own
/// become sealed when they are full ([#seal]). Sealed pages may be shared and are never written.
public final class PageTable {
    private final PagePool pool;
    private int[] pages = new int[8];
    private int[] epochs = new int[8];
    private long[] addresses = new long[8];
    private int pageCount;
    private int length;

    /// The first pages, which are sealed: in the index, or put there by this table and forgotten since.
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

    /// Takes pages that the index has for these tokens, as far as they follow what the table holds; only while all of
    /// its pages are sealed.
    ///
    /// @param most the most pages that the table may then hold; tokens of later pages are computed
    /// @return how many pages were taken
    public int adopt(PrefixKey key, int[] tokens, int most) {
        PrefixIndex index = pool.index();
        if (index == null || sealed != pageCount || !isIndexed(index, sealed - 1)) {
            return 0;
        }
        int from = pageCount;
        while (pageCount < most) {
            int page = index.find(key, pageCount, before(pageCount), tokens);
            if (page == PagePool.NONE) {
                break;
            }
            index.take(page);
            append(page);
        }
        sealed = pageCount;
        length = Math.max(length, pageCount * pool.pageTokens());
        index.countHits(pageCount - from);
        return pageCount - from;
    }

    /// Seals the pages that these computed tokens fill. One that another table has put into the index meanwhile is
    /// given up for that: what they hold is equal, to the bit.
    public void seal(PrefixKey key, int[] tokens, int computed) {
        PrefixIndex index = pool.index();
        if (index == null) {
            return;
        }
        int full = computed / pool.pageTokens();
        while (sealed < full && isIndexed(index, sealed - 1)) {
            int before = before(sealed);
            int known = index.find(key, sealed, before, tokens);
            if (known == PagePool.NONE) {
                index.register(key, sealed, before, tokens, pages[sealed]);
            } else {
                index.take(known);
                pool.free(pages[sealed]);
                set(sealed, known);
            }
            sealed++;
        }
    }

    /// Takes its pages, and all that follow them in other tables, out of the index: what they hold is in doubt.
    public void forget() {
        PrefixIndex index = pool.index();
        if (index != null && sealed > 0 && index.holds(pages[0])) {
            index.forget(pages[0]);
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
        }
        set(pageCount++, page);
    }

    private void set(int i, int page) {
        pages[i] = page;
        epochs[i] = pool.epoch(page);
        addresses[i] = pool.address(page);
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

    /// How often the i-th page had been handed out when this table got it.
    public int epoch(int i) {
        return epochs[i];
    }

    /// Absolute addresses of the pages; only the first [#pageCount] count. Not a copy.
    public long[] addresses() {
        return addresses;
    }
}

package millrace.engine.kv;

import java.util.Arrays;

/// The pages of one sequence: token `t` lies in page `t / 16`, slot `t % 16`. Used by one thread at a time.
public final class PageTable {
    private final PagePool pool;
    private int[] pages = new int[8];
    private long[] addresses = new long[8];
    private int pageCount;
    private int length;

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
        if (needed > pages.length) {
            int size = Math.max(needed, 2 * pages.length);
            pages = Arrays.copyOf(pages, size);
            addresses = Arrays.copyOf(addresses, size);
        }
        while (pageCount < needed) {
            int page = pool.allocate();
            pages[pageCount] = page;
            addresses[pageCount++] = pool.address(page);
        }
        length = Math.max(length, tokens);
        return true;
    }

    /// Gives all pages back; the table is then empty and may be used again.
    public void release() {
        while (pageCount > 0) {
            pool.free(pages[--pageCount]);
        }
        length = 0;
    }

    /// Tokens that [#ensure] made room for.
    public int length() {
        return length;
    }

    public int pageCount() {
        return pageCount;
    }

    /// Number of the i-th page in its pool.
    public int page(int i) {
        return pages[i];
    }

    /// How often the i-th page had been handed out when this table got it.
    public int epoch(int i) {
        return pool.epoch(pages[i]);
    }

    /// Absolute addresses of the pages; only the first [#pageCount] count. Not a copy.
    public long[] addresses() {
        return addresses;
    }
}

package millrace.engine.kv;

import java.util.Arrays;
import millrace.engine.kernel.CacheShape;

/// Full pages by what they hold, so that sequences which begin alike share them.
///
/// ```
///        h₁ system prompt        pages form trees: a child's tokens follow its parent's
///       ╱  ╲
///     h₂    h₂'                  held: some table uses it      idle: none does, first to be evicted at the left
///     │                          idle ─▶ oldest ⇄ … ⇄ youngest
///     h₃
/// ```
///
/// A page is found by its name ([ChainHash]) and only if its tokens, its parent, whether it is whole and, at the root, its salt
/// are equal too: the hash says where to look and is never trusted. Who holds a page holds all pages before it, and tables give
/// pages back from the last to the first; so a page is idle only when its descendants are and later than they, the
/// oldest idle page never has children, and eviction leaves no chain with a hole.
///
/// What is in the index is never written again. All methods are called on the pool's thread; the counters may be read
/// by any. Nothing is allocated but when a page is registered that is newer than all before.
public final class PrefixIndex {
    static final int TOKENS = CacheShape.TOKENS;
    private static final int NONE = PagePool.NONE;

    private final PagePool pool;
    private final ChainHash hash;

    /// The most tokens that a page's name adds to that of the page before.
    private final int stride;

    // By page number; grown as pages are registered.
    private long[] words = new long[0];
    private int[] tokens = new int[0];
    private String[] salts = new String[0];
    private boolean[] kept = new boolean[0];

    /// Whether the page lacks the part of the draft layer.
    private boolean[] undrafted = new boolean[0];

    private int[] parent = new int[0];
    private int[] firstChild = new int[0];
    private int[] nextSibling = new int[0];
    private int[] previousSibling = new int[0];
    private int[] older = new int[0];
    private int[] younger = new int[0];

    /// Page + 1 at the first free place from its name on, 0 where there is none; a power of two long, at most half full.
    private int[] places = new int[64];

    private int oldest = NONE;
    private int youngest = NONE;
    private volatile int count;
    private volatile long hitTokens;
    private volatile long evictions;

    PrefixIndex(PagePool pool, ChainHash hash) {
        this.pool = pool;
        this.hash = hash;
        stride = TOKENS + hash.ahead();
    }

    /// Pages that can be found, held or idle.
    public int pages() {
        return count;
    }

    /// Tokens that were taken from the index instead of being computed, since the start.
    public long hitTokens() {
        return hitTokens;
    }

    /// Pages that were given to another use, since the start.
    public long evictions() {
        return evictions;
    }

    /// Lets go of everything. Pages that are held stay with their holders and are shared no further.
    public void clear() {
        for (int page = 0; page < kept.length; page++) {
            if (kept[page] && parent[page] == NONE) {
                forget(page);
            }
        }
    }

    /// How many of the first pages of these tokens are held by somebody, so that having them too takes no free page.
    ///
    /// @param most the most pages to look for
    public int heldPages(PrefixKey key, int[] ids, int most) {
        int before = NONE;
        for (int i = 0; i < most; i++) {
            int page = findAny(key, i, before, ids);
            if (page == NONE || pool.holders(page) == 0) {
                return i;
            }
            before = page;
        }
        return most;
    }

    /// The i-th page of these tokens, or NONE; `before` is the one that precedes it, NONE for the first.
    int find(PrefixKey key, int i, int before, int[] ids) {
        key.reach(hash, i, ids);
        int mask = places.length - 1;
        for (int at = home(key.word(i, 0), mask); places[at] != 0; at = at + 1 & mask) {
            int page = places[at] - 1;
            if (isNamed(page, key, i) && holdsTokens(page, key, before, ids, i)) {
                return page;
            }
        }
        return NONE;
    }

    /// The same, or the whole page of these tokens if that serves; the name that it was found by is [#named].
    int findAny(PrefixKey key, int i, int before, int[] ids) {
        int page = find(key, i, before, ids);
        PrefixKey whole = key.whole();
        return page == NONE && whole != null ? find(whole, i, before, ids) : page;
    }

    /// By which of the two keys that [#findAny] looks with a page of the index was found.
    PrefixKey named(int page, PrefixKey key) {
        PrefixKey whole = key.whole();
        return whole == null || undrafted[page] ? key : whole;
    }

    private boolean isNamed(int page, PrefixKey key, int i) {
        int at = ChainHash.WORDS * page;
        return words[at] == key.word(i, 0)
                && words[at + 1] == key.word(i, 1)
                && words[at + 2] == key.word(i, 2)
                && words[at + 3] == key.word(i, 3);
    }

    private boolean holdsTokens(int page, PrefixKey key, int before, int[] ids, int i) {
        int from = key.from(i);
        int to = key.to(i);
        return parent[page] == before
                && undrafted[page] == (key.whole() != null)
                && (before != NONE || salts[page].equals(key.salt()))
                && Arrays.equals(tokens, page * stride, page * stride + to - from, ids, from, to);
    }

    /// Takes a page that was found for one more table.
    void take(int page) {
        if (pool.holders(page) == 0) {
            unlinkIdle(page);
        }
        pool.share(page);
    }

    void countHits(int pages) {
        addHits((long) pages * TOKENS);
    }

    /// Enters a page that is full and will not be written again, as the i-th of these tokens; `before` is in the index.
    void register(PrefixKey key, int i, int before, int[] ids, int page) {
        key.reach(hash, i, ids);
        grow(page);
        for (int w = 0; w < ChainHash.WORDS; w++) {
            words[ChainHash.WORDS * page + w] = key.word(i, w);
        }
        System.arraycopy(ids, key.from(i), tokens, page * stride, key.to(i) - key.from(i));
        undrafted[page] = key.whole() != null;
        salts[page] = before == NONE ? key.salt() : "";
        kept[page] = true;
        parent[page] = before;
        firstChild[page] = NONE;
        previousSibling[page] = NONE;
        nextSibling[page] = NONE;
        if (before != NONE) {
            int sibling = firstChild[before];
            nextSibling[page] = sibling;
            if (sibling != NONE) {
                previousSibling[sibling] = page;
            }
            firstChild[before] = page;
        }
        setCount(1);
        if (2 * count > places.length) {
            rehash(2 * places.length);
        } else {
            place(page);
        }
    }

    /// Whether the page can be found.
    boolean holds(int page) {
        return page < kept.length && kept[page];
    }

    /// Told that nobody holds the page any more: keeps it as the youngest idle one, or returns false.
    boolean keeps(int page) {
        if (!holds(page)) {
            return false;
        }
        older[page] = youngest;
        younger[page] = NONE;
        if (youngest == NONE) {
            oldest = page;
        } else {
            younger[youngest] = page;
        }
        youngest = page;
        return true;
    }

    /// Gives up the oldest idle page, or returns NONE.
    int evict() {
        int page = oldest;
        if (page == NONE) {
            return NONE;
        }
        if (firstChild[page] != NONE) {
            throw new IllegalStateException("KV cache: page " + page + " is idle before page " + firstChild[page]
                    + ", which follows it; report this");
        }
        unlinkIdle(page);
        remove(page);
        addEvictions(1);
        return page;
    }

    /// Lets go of a page and of all that follow it: idle ones become free, held ones stay with their holders.
    void forget(int page) {
        while (firstChild[page] != NONE) {
            int leaf = firstChild[page];
            while (firstChild[leaf] != NONE) {
                leaf = firstChild[leaf];
            }
            drop(leaf);
        }
        drop(page);
    }

    private void drop(int page) {
        boolean idle = pool.holders(page) == 0;
        if (idle) {
            unlinkIdle(page);
        }
        remove(page);
        if (idle) {
            pool.recycle(page);
        }
    }

    private void unlinkIdle(int page) {
        if (older[page] == NONE) {
            oldest = younger[page];
        } else {
            younger[older[page]] = younger[page];
        }
        if (younger[page] == NONE) {
            youngest = older[page];
        } else {
            older[younger[page]] = older[page];
        }
    }

    /// Takes a page without children out of its tree and its place.
    private void remove(int page) {
        int before = previousSibling[page];
        int after = nextSibling[page];
        if (before != NONE) {
            nextSibling[before] = after;
        } else if (parent[page] != NONE) {
            firstChild[parent[page]] = after;
        }
        if (after != NONE) {
            previousSibling[after] = before;
        }
        kept[page] = false;
        salts[page] = "";
        unplace(page);
        setCount(-1);
    }

    private static int home(long word, int mask) {
        return (int) word & mask;
    }

    private void place(int page) {
        int mask = places.length - 1;
        int at = home(words[ChainHash.WORDS * page], mask);
        while (places[at] != 0) {
            at = at + 1 & mask;
        }
        places[at] = page + 1;
    }

    /// Empties the page's place and moves up what had to give way to it.
    private void unplace(int page) {
        int mask = places.length - 1;
        int hole = home(words[ChainHash.WORDS * page], mask);
        while (places[hole] != page + 1) {
            hole = hole + 1 & mask;
        }
        for (int at = hole + 1 & mask; places[at] != 0; at = at + 1 & mask) {
            int home = home(words[ChainHash.WORDS * (places[at] - 1)], mask);
            if ((at - home & mask) >= (at - hole & mask)) {
                places[hole] = places[at];
                hole = at;
            }
        }
        places[hole] = 0;
    }

    private void rehash(int size) {
        places = new int[size];
        for (int page = 0; page < kept.length; page++) {
            if (kept[page]) {
                place(page);
            }
        }
    }

    private void grow(int page) {
        if (page < kept.length) {
            return;
        }
        int size = Math.max(page + 1, Math.min(pool.pageCount(), Math.max(64, 2 * kept.length)));
        words = Arrays.copyOf(words, ChainHash.WORDS * size);
        tokens = Arrays.copyOf(tokens, stride * size);
        int from = salts.length;
        salts = Arrays.copyOf(salts, size);
        Arrays.fill(salts, from, size, "");
        kept = Arrays.copyOf(kept, size);
        undrafted = Arrays.copyOf(undrafted, size);
        parent = Arrays.copyOf(parent, size);
        firstChild = Arrays.copyOf(firstChild, size);
        nextSibling = Arrays.copyOf(nextSibling, size);
        previousSibling = Arrays.copyOf(previousSibling, size);
        older = Arrays.copyOf(older, size);
        younger = Arrays.copyOf(younger, size);
    }

    // Only the pool's thread writes, so read-modify-write needs no lock; volatile is for the readers.
    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void setCount(int change) {
        count += change;
    }

    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void addHits(long change) {
        hitTokens += change;
    }

    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void addEvictions(long change) {
        evictions += change;
    }
}

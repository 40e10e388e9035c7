package millrace.engine.tokenizer;

import java.util.Arrays;

/// Byte-pair merging: as long as neighbours merge, the pair with the lowest priority number does, of equals the
/// leftmost one.
///
/// Short pieces are scanned, long ones go through a heap over a linked list: O(n log n), so that a megabyte without a
/// space stays a matter of a second.
final class BytePairMerger {
    private static final int SCAN_LIMIT = 96;

    private final MergeTable merges;

    BytePairMerger(MergeTable merges) {
        this.merges = merges;
    }

    /// Merges `symbols[0, n)`, which are overwritten, and adds the result to `out`.
    void merge(int[] symbols, int n, Ids out) {
        int left = n <= SCAN_LIMIT ? scan(symbols, n) : heap(symbols, n);
        for (int i = 0; i < left; i++) {
            out.add(symbols[i]);
        }
    }

    private int scan(int[] symbols, int n) {
        long[] pairs = new long[Math.max(0, n - 1)];
        for (int i = 0; i + 1 < n; i++) {
            pairs[i] = merges.get(symbols[i], symbols[i + 1]);
        }
        int size = n;
        while (size > 1) {
            int best = 0;
            for (int i = 1; i + 1 < size; i++) {
                if (pairs[i] >>> 32 < pairs[best] >>> 32) {
                    best = i;
                }
            }
            if (pairs[best] == MergeTable.NONE) {
                break;
            }
            symbols[best] = (int) pairs[best];
            System.arraycopy(symbols, best + 2, symbols, best + 1, size - best - 2);
            System.arraycopy(pairs, Math.min(best + 2, n - 1), pairs, best + 1, Math.max(0, size - best - 3));
            size--;
            if (best + 1 < size) {
                pairs[best] = merges.get(symbols[best], symbols[best + 1]);
            }
            if (best > 0) {
                pairs[best - 1] = merges.get(symbols[best - 1], symbols[best]);
            }
        }
        return size;
    }

    private int heap(int[] symbols, int n) {
        Links links = new Links(symbols, n, merges);
        LongHeap heap = new LongHeap(n);
        for (int i = 0; i + 1 < n; i++) {
            links.offer(i, heap);
        }
        while (heap.size() > 0) {
            long top = heap.poll();
            int at = (int) top;
            if (links.pairs[at] >>> 32 != top >>> 32) {
                continue; // the pair has changed since it was offered
            }
            links.merge(at, heap);
        }
        return links.compact();
    }

    /// The symbols as a doubly linked list over their first positions.
    private static final class Links {
        private final int[] symbols;
        private final int[] next;
        private final int[] previous;
        /// What the symbol at a position makes with the next one, see [MergeTable#get]; NONE for swallowed symbols.
        private final long[] pairs;
        private final MergeTable merges;

        Links(int[] symbols, int n, MergeTable merges) {
            this.symbols = symbols;
            this.merges = merges;
            next = new int[n];
            previous = new int[n];
            pairs = new long[n];
            Arrays.fill(pairs, MergeTable.NONE);
            for (int i = 0; i < n; i++) {
                next[i] = i + 1 < n ? i + 1 : -1;
                previous[i] = i - 1;
            }
        }

        void offer(int at, LongHeap heap) {
            pairs[at] = next[at] < 0 ? MergeTable.NONE : merges.get(symbols[at], symbols[next[at]]);
            if (pairs[at] != MergeTable.NONE) {
                heap.offer(pairs[at] >>> 32 << 32 | at);
            }
        }

        void merge(int at, LongHeap heap) {
            int swallowed = next[at];
            symbols[at] = (int) pairs[at];
            pairs[swallowed] = MergeTable.NONE;
            next[at] = next[swallowed];
            if (next[at] >= 0) {
                previous[next[at]] = at;
            }
            offer(at, heap);
            if (previous[at] >= 0) {
                offer(previous[at], heap);
            }
        }

        int compact() {
            int size = 0;
            for (int at = 0; at >= 0; at = next[at]) {
                symbols[size++] = symbols[at];
            }
            return size;
        }
    }

    /// A binary min-heap of longs.
    private static final class LongHeap {
        private long[] values;
        private int size;

        LongHeap(int capacity) {
            values = new long[capacity];
        }

        int size() {
            return size;
        }

        void offer(long value) {
            if (size == values.length) {
                values = Arrays.copyOf(values, size + (size >> 1) + 8);
            }
            int at = size++;
            while (at > 0 && values[(at - 1) >> 1] > value) {
                values[at] = values[(at - 1) >> 1];
                at = (at - 1) >> 1;
            }
            values[at] = value;
        }

        long poll() {
            long top = values[0];
            long value = values[--size];
            int at = 0;
            while (2 * at + 1 < size) {
                int child = 2 * at + 1;
                if (child + 1 < size && values[child + 1] < values[child]) {
                    child++;
                }
                if (values[child] >= value) {
                    break;
                }
                values[at] = values[child];
                at = child;
            }
            values[at] = value;
            return top;
        }
    }
}

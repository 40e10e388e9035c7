package millrace.engine.kernel;

import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// Which rows of a step belong to which sequence, and where its cache lies.
///
/// A segment is consecutive tokens of one sequence: its rows `firstRow … firstRow + rows` stand at positions
/// `startPosition` and up, and position `p` lies in page `p / 16`, slot `p % 16`.
public final class CacheBatch {
    private final long @Nullable [][] pages;
    private final int @Nullable [][] epochs;
    private final int[] firstRow;
    private final int[] rows;
    private final int[] startPosition;
    private int count;

    public CacheBatch(int capacity) {
        pages = new long[capacity][];
        epochs = new int[capacity][];
        firstRow = new int[capacity];
        rows = new int[capacity];
        startPosition = new int[capacity];
    }

    public void clear() {
        Arrays.fill(pages, 0, count, null);
        Arrays.fill(epochs, 0, count, null);
        count = 0;
    }

    /// Without hand-outs: nobody compares them.
    public void add(long[] addresses, int pageCount, int first, int n, int start) {
        add(addresses, null, pageCount, first, n, start);
    }

    /// @param addresses absolute addresses of the sequence's pages
    /// @param handedOut by which hand-out the sequence holds each of them, or null
    /// @param pageCount how many of them there are; they must hold every position of the segment
    public void add(long[] addresses, int @Nullable [] handedOut, int pageCount, int first, int n, int start) {
        if (n < 1 || start < 0 || pageCount > addresses.length || start + n > (long) pageCount * CacheShape.TOKENS) {
            throw new IllegalArgumentException("segment: positions %d to %d do not fit %d pages"
                    .formatted(start, start + n, pageCount));
        }
        pages[count] = addresses;
        epochs[count] = handedOut;
        firstRow[count] = first;
        rows[count] = n;
        startPosition[count++] = start;
    }

    public int count() {
        return count;
    }

    public int capacity() {
        return rows.length;
    }

    public int firstRow(int segment) {
        return firstRow[segment];
    }

    public int rows(int segment) {
        return rows[segment];
    }

    public int startPosition(int segment) {
        return startPosition[segment];
    }

    /// The segment that a row belongs to.
    public int segmentOf(int row) {
        int segment = count - 1;
        while (firstRow[segment] > row) {
            segment--;
        }
        return segment;
    }

    /// Absolute addresses of the pages of a segment's sequence, in order. Not a copy.
    public long[] pages(int segment) {
        return Objects.requireNonNull(pages[segment]);
    }

    /// By which hand-out the sequence of a segment holds its pages, in order, or null. Not a copy.
    public int @Nullable [] epochs(int segment) {
        return epochs[segment];
    }

    /// Absolute address of the page that holds a position.
    public long page(int segment, int position) {
        return pages(segment)[position / CacheShape.TOKENS];
    }
}

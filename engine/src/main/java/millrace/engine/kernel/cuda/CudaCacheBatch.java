package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;

/// A [CacheBatch] as kernels read it, see cache.h: which rows belong to which sequence, and where its pages lie.
///
/// | part      | type and shape                | |
/// |-----------|-------------------------------|---|
/// | counts    | `int[2]`                      | segments, rows |
/// | segments  | `CacheSegment[segments]`      | 32 bytes each: first row, rows, position of the first, index of its first page |
/// | segmentOf | `int[rows]`                   | segment of a row, −1 for a row of none |
/// | pages     | `long[]`                      | addresses of the pages of all segments, one after another |
/// | epochs    | `int[]`                       | by which hand-out each of them is held, see tags.cu |
final class CudaCacheBatch {
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;
    private static final int SEGMENT_INTS = 8;

    /// Where a segment has the index of its first page.
    private static final int FIRST_PAGE = 3;

    /// Of a segment whose splits one block forms, see cache.h.
    private static final int NO_PARTIAL = -1;

    private final StepBlock.Part counts;
    private final StepBlock.Part segments;
    private final StepBlock.Part segmentOf;
    private final StepBlock.Part pages;
    private final StepBlock.Part epochs;
    private int pageCount;
    private boolean owned;
    private final int mostPositions;
    private int partials;
    private int longest;

    /// @param maxRows the most rows, and segments, of a step
    /// @param maxPages the most pages of a segment
    CudaCacheBatch(StepBlock block, int maxRows, int maxPages) {
        counts = block.part(2L * Integer.BYTES);
        segments = block.part((long) SEGMENT_INTS * Integer.BYTES * maxRows);
        segmentOf = block.part((long) Integer.BYTES * maxRows);
        pages = block.part((long) Long.BYTES * maxRows * maxPages);
        epochs = block.part((long) Integer.BYTES * maxRows * maxPages);
        mostPositions = maxPages * CacheShape.TOKENS;
    }

    private static int splits(int positions) {
        return (positions + CudaAttention.SPLIT - 1) / CudaAttention.SPLIT;
    }

    /// Writes the host's side.
    void write(CacheBatch batch) {
        int rows = 0;
        int page = 0;
        owned = true;
        partials = 0;
        longest = 0;
        for (int s = 0; s < batch.count(); s++) {
            int first = batch.firstRow(s);
            int end = first + batch.rows(s);
            int last = batch.startPosition(s) + batch.rows(s) - 1;
            longest = Math.max(longest, last + 1);
            int needed = last / CacheShape.TOKENS + 1;
            put(s, first, batch.rows(s), batch.startPosition(s), page, partials(batch.rows(s), splits(last + 1)));
            MemorySegment.copy(batch.pages(s), 0, pages.host(), LONG, (long) Long.BYTES * page, needed);
            int[] handedOut = batch.epochs(s);
            owned &= handedOut != null;
            if (handedOut != null) {
                MemorySegment.copy(handedOut, 0, epochs.host(), INT, (long) Integer.BYTES * page, needed);
            }
            page += needed;
            fill(rows, first, -1);
            fill(first, end, s);
            rows = end;
        }
        counts.host().setAtIndex(INT, 0, batch.count());
        counts.host().setAtIndex(INT, 1, rows);
        counts.use(2L * Integer.BYTES);
        segments.use((long) SEGMENT_INTS * Integer.BYTES * batch.count());
        segmentOf.use((long) Integer.BYTES * rows);
        pages.use((long) Long.BYTES * page);
        epochs.use(owned ? (long) Integer.BYTES * page : 0);
        pageCount = page;
    }

    /// Pages of all segments whose holders are to be compared with the tags of the pages; 0 where some are not known.
    int ownedPages() {
        return owned ? pageCount : 0;
    }

    /// The segment that a page of [#pages] belongs to.
    int segmentOf(int page) {
        int segment = 0;
        while (segment + 1 < counts.host().getAtIndex(INT, 0)
                && segments.host().getAtIndex(INT, (long) SEGMENT_INTS * (segment + 1) + FIRST_PAGE) <= page) {
            segment++;
        }
        return segment;
    }

    /// The first of a segment's partial sums, one for each row and split, if it is better with them. The kernels pass over
    /// those that they have no room for.
    private int partials(int rows, int splits) {
        if (splits == 1 || rows > CudaAttention.MOST_PARTIAL_ROWS) {
            return NO_PARTIAL;
        }
        int first = partials;
        partials += rows * splits;
        return first;
    }

    private void put(int segment, int firstRow, int rows, int start, int firstPage, int firstPartial) {
        long at = (long) SEGMENT_INTS * segment;
        MemorySegment to = segments.host();
        to.setAtIndex(INT, at, firstRow);
        to.setAtIndex(INT, at + 1, rows);
        to.setAtIndex(INT, at + 2, start);
        to.setAtIndex(INT, at + FIRST_PAGE, firstPage);
        to.setAtIndex(INT, at + 4, firstPartial);
    }

    private void fill(int from, int to, int segment) {
        for (int row = from; row < to; row++) {
            segmentOf.host().setAtIndex(INT, row, segment);
        }
    }

    /// Splits of the longest sequence that there can be.
    int mostSplits() {
        return splits(mostPositions);
    }

    /// Positions of the longest sequence that there can be.
    int mostPositions() {
        return mostPositions;
    }

    /// Positions up to the last row's of any sequence.
    int longest() {
        return longest;
    }

    /// Whether any segment wants partial sums.
    boolean wantsPartials() {
        return partials > 0;
    }

    // Addresses on the device.

    long counts() {
        return counts.address();
    }

    long segments() {
        return segments.address();
    }

    long segmentOf() {
        return segmentOf.address();
    }

    long pages() {
        return pages.address();
    }

    long epochs() {
        return epochs.address();
    }
}

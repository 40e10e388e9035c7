package millrace.engine.kernel;

import org.jspecify.annotations.Nullable;

/// All that changes from one step to the next: written on the host, sent as a whole before the operations run.
///
/// Operations take its arrays and batches as arguments like any others. A backend with memory of its own knows them by
/// their identity, and reads what [Kernels#send(StepInputs)] brought there.
public final class StepInputs {
    /// The numbers of rows that a step of single tokens may be recorded for.
    private static final int[] BUCKETS = {1, 2, 4, 8, 16, 32, 64};

    /// The largest bucket.
    public static final int MOST_BUCKET = BUCKETS[BUCKETS.length - 1];

    private final int maxPages;
    private final int[] tokens;
    private final int[] wantedRows;
    private final int[] sources;
    private final Rows angles;
    private final CacheBatch batch;
    private final CacheBatch wantedBatch;
    private int rows;
    private int wanted;
    private boolean single;

    /// @param maxRows the most rows of a step
    /// @param maxPages the most pages of one sequence
    /// @param angles `[maxRows][rotaryDim]`, with a side on the heap
    public StepInputs(int maxRows, int maxPages, Rows angles) {
        this.maxPages = maxPages;
        this.angles = angles;
        tokens = new int[maxRows];
        wantedRows = new int[maxRows];
        sources = new int[maxRows];
        batch = new CacheBatch(maxRows);
        wantedBatch = new CacheBatch(maxRows);
        clear();
    }

    public void clear() {
        rows = 0;
        wanted = 0;
        single = true;
        batch.clear();
        wantedBatch.clear();
    }

    /// Appends a row, which belongs to no sequence until [#addSegment] says so.
    ///
    /// @return its number, where [#angles] take the angles of its position
    public int addRow(int token) {
        tokens[rows] = token;
        return rows++;
    }

    /// As below, without hand-outs: nobody compares them.
    public void addSegment(long[] addresses, int pageCount, int n, int start, int last) {
        addSegment(addresses, null, pageCount, n, start, last);
    }

    /// Says that the last `n` rows are consecutive tokens of one sequence.
    ///
    /// @param addresses absolute addresses of the sequence's pages
    /// @param epochs by which hand-out the sequence holds each of them, or null
    /// @param pageCount how many of them there are
    /// @param start position of the first of these rows
    /// @param last how many of them, from the end, are wanted after the last layer's keys and values are stored
    public void addSegment(
            long[] addresses, int @Nullable [] epochs, int pageCount, int n, int start, int last) {
        if (pageCount > maxPages || n < 1 || n > rows || last < 0 || last > n) {
            throw new IllegalArgumentException("step inputs: %d of %d rows, %d wanted, on %d pages of at most %d"
                    .formatted(n, rows, last, pageCount, maxPages));
        }
        int first = rows - n;
        int skipped = n - last;
        batch.add(addresses, epochs, pageCount, first, n, start);
        if (last > 0) {
            wantedBatch.add(addresses, epochs, pageCount, wanted, last, start + skipped);
        }
        for (int i = skipped; i < n; i++) {
            wantedRows[wanted++] = first + i;
        }
        single &= n == 1 && last == 1;
    }

    /// The bucket that this step may be recorded for and repeated with other inputs: the least of 1, 2, 4, 8, 16, 32
    /// and 64 that holds its rows, if each is a segment of its own and wanted; else 0.
    public int bucket() {
        if (single && rows > 0) {
            for (int bucket : BUCKETS) {
                if (rows <= bucket) {
                    return bucket;
                }
            }
        }
        return 0;
    }

    public int maxRows() {
        return tokens.length;
    }

    /// The most pages of one sequence.
    public int maxPages() {
        return maxPages;
    }

    /// Rows of the step.
    public int rows() {
        return rows;
    }

    /// How many of them are wanted.
    public int wanted() {
        return wanted;
    }

    /// Token of each row. Not a copy.
    public int[] tokens() {
        return tokens;
    }

    /// Cosines and sines of each row's position, as [Kernels#rotate] reads them.
    public Rows angles() {
        return angles;
    }

    /// Which row of another matrix each row begins with, where it begins with one; written by the caller. Not a copy.
    public int[] sources() {
        return sources;
    }

    /// Where the rows stand, all of them.
    public CacheBatch batch() {
        return batch;
    }

    /// Where the wanted rows stand, numbered among themselves.
    public CacheBatch wantedBatch() {
        return wantedBatch;
    }

    /// The wanted rows, ascending. Not a copy.
    public int[] wantedRows() {
        return wantedRows;
    }
}

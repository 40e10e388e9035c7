package millrace.engine.batch;

import java.util.Arrays;
import java.util.Objects;
import millrace.engine.Sampling;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// What one step computes: segments of consecutive tokens, each of one sequence, stacked into one matrix of rows.
///
/// ```
///  segment 0 (decode)      row 0                    position 17
///  segment 1 (decode)      row 1                    position 4
///  segment 2 (prefill)     rows 2 … 9               positions 16 … 23
/// ```
///
/// A segment's rows stand at positions `startPosition(s)` and up; its pages already have room for them. Logits are
/// asked for per segment, in the order of the rows. The plan is cleared and filled again for each step and allocates
/// nothing after construction; it is used by one thread at a time.
public final class StepPlan {
    /// Which rows of a segment get logits.
    public enum Logits {
        /// No row: a chunk of a prompt that is not its last.
        NONE,
        /// The last row only.
        LAST,
        /// Every row, in order.
        ALL
    }

    private static final int[] NO_TOKENS = {};

    private final @Nullable PageTable[] pages;
    private final int[] firstRow;
    private final int[] rows;
    private final int[] startPosition;
    private final Logits[] wanted;
    private final int[] token;
    private final int[] position;
    private final @Nullable Sampling[] samplings;
    private final int[][] tokensBefore;
    private final int[] lengths;
    private final long[] steps;
    private int segments;
    private int rowCount;
    private int logitRows;
    private boolean feeding = true;

    public StepPlan(int maxSegments, int maxRows) {
        pages = new PageTable[maxSegments];
        firstRow = new int[maxSegments];
        rows = new int[maxSegments];
        startPosition = new int[maxSegments];
        wanted = new Logits[maxSegments];
        token = new int[maxRows];
        position = new int[maxRows];
        samplings = new Sampling[maxRows];
        tokensBefore = new int[maxRows][];
        lengths = new int[maxRows];
        steps = new long[maxRows];
    }

    /// Empties the plan and lets go of its page tables.
    public void clear() {
        Arrays.fill(pages, 0, segments, null);
        Arrays.fill(samplings, 0, logitRows, null);
        Arrays.fill(tokensBefore, 0, logitRows, NO_TOKENS);
        segments = 0;
        rowCount = 0;
        logitRows = 0;
        feeding = true;
    }

    /// Says whether rows of this plan are fed to a draft layer afterwards; until somebody says so they may be.
    public void feeding(boolean any) {
        feeding = any;
    }

    /// Whether the hidden states of its rows are wanted when it is computed, for a draft layer.
    public boolean feeding() {
        return feeding;
    }

    /// Appends the tokens `tokens[from … from + count)` of one sequence at positions `start` and up.
    public void add(PageTable table, int[] tokens, int from, int count, int start, Logits logits) {
        if (segments == pages.length || count < 1 || rowCount + count > token.length) {
            throw new IllegalArgumentException("step plan: expected at most " + pages.length + " segments and 1 to "
                    + (token.length - rowCount) + " more rows, got segment " + segments + " with " + count + " rows");
        }
        if (start < table.sealedTokens()) {
            throw new IllegalArgumentException("step plan: expected rows behind the " + table.sealedTokens()
                    + " tokens that are sealed, got position " + start);
        }
        int s = segments++;
        pages[s] = table;
        firstRow[s] = rowCount;
        rows[s] = count;
        startPosition[s] = start;
        wanted[s] = logits;
        for (int i = 0; i < count; i++) {
            token[rowCount + i] = tokens[from + i];
            position[rowCount + i] = start + i;
        }
        rowCount += count;
        logitRows += switch (logits) {
            case NONE -> 0;
            case LAST -> 1;
            case ALL -> count;
        };
    }

    /// Says how the tokens of the last segment's logits are chosen: whoever computes them may do that, too.
    ///
    /// @param tokens of the sequence, `length` before the first of them, then one more before each further row
    /// @param step index of the first token among the generated ones
    public void draw(Sampling sampling, int[] tokens, int length, long step) {
        int s = segments - 1;
        int n = wanted[s] == Logits.ALL ? rows[s] : wanted[s] == Logits.LAST ? 1 : 0;
        for (int i = 0; i < n; i++) {
            int row = logitRows - n + i;
            samplings[row] = sampling;
            tokensBefore[row] = tokens;
            lengths[row] = length + i;
            steps[row] = step + i;
        }
    }

    /// How the token of a row of logits is chosen; null if that is for whoever gets the logits.
    public @Nullable Sampling sampling(int logitRow) {
        return samplings[logitRow];
    }

    /// The tokens before that of a row of logits, [#length] of them. Not a copy.
    public int[] tokensBefore(int logitRow) {
        return tokensBefore[logitRow];
    }

    public int length(int logitRow) {
        return lengths[logitRow];
    }

    /// Index of its token among the generated ones.
    public long step(int logitRow) {
        return steps[logitRow];
    }

    public int segmentCount() {
        return segments;
    }

    /// Rows of all segments together.
    public int rowCount() {
        return rowCount;
    }

    /// Rows that get logits.
    public int logitRowCount() {
        return logitRows;
    }

    public int maxRows() {
        return token.length;
    }

    public PageTable pages(int segment) {
        return Objects.requireNonNull(pages[segment]);
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

    public Logits wanted(int segment) {
        return wanted[segment];
    }

    public int token(int row) {
        return token[row];
    }

    public int position(int row) {
        return position[row];
    }

    /// The first segment whose table has a page that is not its own or may not be written, see [PageTable#firstForeign];
    /// −1 if there is none.
    public int firstForeign() {
        for (int s = 0; s < segmentCount(); s++) {
            if (pages(s).firstForeign(startPosition(s)) >= 0) {
                return s;
            }
        }
        return -1;
    }
}

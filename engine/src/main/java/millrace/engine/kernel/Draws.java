package millrace.engine.kernel;

import millrace.engine.Sampling;
import org.jspecify.annotations.Nullable;

/// How the tokens of a step's rows are to be drawn where the rows lie, and which ones were: so that the rows need not come to
/// the host. Settings are written before [Kernels#fetch(Rows, Rows, RowFacts, int)], which has them drawn.
public final class Draws {
    /// In place of a token: not asked for, or left to the host, whose arithmetic alone can tell.
    public static final int UNDECIDED = -1;

    private static final int[] NO_TOKENS = {};

    private final @Nullable Sampling[] samplings;
    private final int[][] tokens;
    private final int[] lengths;
    private final long[] steps;
    private final int[] drawn;
    private final boolean[] absent;
    private long brought;

    Draws(int maxRows) {
        samplings = new Sampling[maxRows];
        tokens = new int[maxRows][];
        lengths = new int[maxRows];
        steps = new long[maxRows];
        drawn = new int[maxRows];
        absent = new boolean[maxRows];
        clear();
    }

    /// Nothing is to be drawn.
    public void clear() {
        for (int row = 0; row < drawn.length; row++) {
            samplings[row] = null;
            tokens[row] = NO_TOKENS;
            drawn[row] = UNDECIDED;
            absent[row] = false;
        }
    }

    /// Asks for the token of a row.
    ///
    /// @param before tokens before it, `length` of them, for the repetition penalty; not copied
    /// @param step index of the token among the generated ones
    public void ask(int row, Sampling sampling, int[] before, int length, long step) {
        samplings[row] = sampling;
        tokens[row] = before;
        lengths[row] = length;
        steps[row] = step;
    }

    /// Takes a question back: the host draws this row itself.
    public void leave(int row) {
        samplings[row] = null;
    }

    /// How a row's token is to be drawn; null if it is not.
    public @Nullable Sampling sampling(int row) {
        return samplings[row];
    }

    /// Tokens before a row's own, [#length] of them. Not a copy.
    public int[] tokens(int row) {
        return tokens[row];
    }

    public int length(int row) {
        return lengths[row];
    }

    public long step(int row) {
        return steps[row];
    }

    /// What was drawn for a row.
    ///
    /// @return [#UNDECIDED] if the host is to draw
    public int token(int row) {
        return drawn[row];
    }

    /// Says what was drawn, and that the row stayed where it was.
    public void answer(int row, int token) {
        drawn[row] = token;
        absent[row] = true;
    }

    /// Whether the numbers of a row are not on the host.
    public boolean absent(int row) {
        return absent[row];
    }

    /// Says that they were brought after all.
    public void bring(int row) {
        absent[row] = false;
        brought++;
    }

    /// Rows that were left undecided and brought to the host for that, since the start.
    public long brought() {
        return brought;
    }
}

package millrace.engine.kernel;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A list of matrix products that do not depend on one another and run as one operation.
///
/// One entry is `y[t][o] = Σₖ w[o][k] · x[t][k] (+ bias[o])` for `t` of `rows` rows. Queries, keys and values share
/// their input; the heads of latent attention share their rows; experts have each their own. Filled, run, cleared and
/// filled again; allocates nothing once it has grown.
public final class Projections {
    private final @Nullable Matrix[] matrices;
    private final float @Nullable [][] biases;
    private final @Nullable Rows[] inputs;
    private final @Nullable Rows[] outputs;
    private final int[] inputRows;
    private final int[] outputRows;
    private final int[] rows;
    private int count;

    /// @param capacity the most products of one run
    public Projections(int capacity) {
        matrices = new Matrix[capacity];
        biases = new float[capacity][];
        inputs = new Rows[capacity];
        outputs = new Rows[capacity];
        inputRows = new int[capacity];
        outputRows = new int[capacity];
        rows = new int[capacity];
    }

    public Projections clear() {
        count = 0;
        return this;
    }

    /// Adds the product over the first `n` rows of both views.
    public Projections add(Rows y, Matrix w, float @Nullable [] bias, Rows x, int n) {
        return add(y, 0, w, bias, x, 0, n);
    }

    /// Adds the product over `n` rows, from row `yRow` of `y` and row `xRow` of `x` on.
    public Projections add(Rows y, int yRow, Matrix w, float @Nullable [] bias, Rows x, int xRow, int n) {
        if (x.width() != w.cols() || y.width() != w.rows() || bias != null && bias.length != w.rows()) {
            throw new IllegalArgumentException("projection: %d × %d from width %d to width %d, bias of %s"
                    .formatted(w.rows(), w.cols(), x.width(), y.width(), bias == null ? "none" : bias.length));
        }
        if (xRow < 0 || yRow < 0 || n < 0 || xRow + n > x.capacity() || yRow + n > y.capacity()) {
            throw new IllegalArgumentException("projection: %d rows from %d of %d to %d of %d"
                    .formatted(n, xRow, x.capacity(), yRow, y.capacity()));
        }
        if (n == 0) {
            return this;
        }
        matrices[count] = w;
        biases[count] = bias;
        inputs[count] = x;
        outputs[count] = y;
        inputRows[count] = xRow;
        outputRows[count] = yRow;
        rows[count++] = n;
        return this;
    }

    public int count() {
        return count;
    }

    public Matrix matrix(int i) {
        return Objects.requireNonNull(matrices[i]);
    }

    public float @Nullable [] bias(int i) {
        return biases[i];
    }

    public Rows input(int i) {
        return Objects.requireNonNull(inputs[i]);
    }

    public Rows output(int i) {
        return Objects.requireNonNull(outputs[i]);
    }

    public int inputRow(int i) {
        return inputRows[i];
    }

    public int outputRow(int i) {
        return outputRows[i];
    }

    public int rows(int i) {
        return rows[i];
    }
}

package millrace.engine.kernel;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A list of matrix products that do not depend on one another and run as one operation.
///
/// One entry is `y[t][o] = Σₖ w[o][k] · x[t][k] (+ bias[o])` for `t` of `rows` rows. Queries, keys and values share
/// their input; the heads of latent attention share their rows; experts have each their own. Filled, run, cleared and
/// filled again; allocates nothing once it has grown.
///
/// The products of a layer's experts are an entry for each expert that has rows, where the host knows which; where a
/// backend has chosen them in its own memory, they are one entry, which holds [#experts] and their [#routing].
public final class Projections {
    private final @Nullable Matrix[] matrices;
    private final @Nullable Experts[] experts;
    private final @Nullable Routing[] routings;
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
        experts = new Experts[capacity];
        routings = new Routing[capacity];
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
        experts[count] = null;
        routings[count] = null;
        biases[count] = bias;
        put(y, yRow, x, xRow, n);
        return this;
    }

    private void put(Rows y, int yRow, Rows x, int xRow, int n) {
        inputs[count] = x;
        outputs[count] = y;
        inputRows[count] = xRow;
        outputRows[count] = yRow;
        rows[count++] = n;
    }

    /// Adds the product of each expert over its slots in `x` and `y`, see [Routing].
    ///
    /// @param n rows that were routed
    public Projections addExperts(Rows y, Experts w, Rows x, Routing routing, int n) {
        if (routing.isOnHeap()) {
            int[] firstSlot = routing.firstSlot();
            for (int e = 0; e < w.count(); e++) {
                add(y, firstSlot[e], w.get(e), null, x, firstSlot[e], firstSlot[e + 1] - firstSlot[e]);
            }
            return this;
        }
        if (x.width() != w.cols() || y.width() != w.rows() || w.count() != routing.spec().experts()) {
            throw new IllegalArgumentException("projection: %d experts of %d × %d from width %d to width %d, %d routed"
                    .formatted(w.count(), w.rows(), w.cols(), x.width(), y.width(), routing.spec().experts()));
        }
        int slots = Math.multiplyExact(n, routing.spec().perRow());
        if (slots > x.capacity() || slots > y.capacity()) {
            throw new IllegalArgumentException("projection: %d slots from %d to %d rows"
                    .formatted(slots, x.capacity(), y.capacity()));
        }
        matrices[count] = null;
        experts[count] = w;
        routings[count] = routing;
        biases[count] = null;
        put(y, 0, x, 0, slots);
        return this;
    }

    public int count() {
        return count;
    }

    /// The matrix of an entry that is not one for [#experts].
    public Matrix matrix(int i) {
        return Objects.requireNonNull(matrices[i]);
    }

    /// The experts that an entry stands for, or null if it is a single product.
    public @Nullable Experts experts(int i) {
        return experts[i];
    }

    /// Which slots belong to which of the experts.
    public Routing routing(int i) {
        return Objects.requireNonNull(routings[i]);
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

    /// Rows of the product; of experts, the slots of all.
    public int rows(int i) {
        return rows[i];
    }
}

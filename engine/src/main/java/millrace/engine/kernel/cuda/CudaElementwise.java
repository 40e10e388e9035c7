package millrace.engine.kernel.cuda;

import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// The operations whose rows do not meet: norm.cu, rotate.cu, swiglu.cu, add.cu, gather.cu, combine.cu. They give the bits
/// of the scalar loops.
///
/// Every one takes the most rows that there may be, and where the device finds how many there are (`live`, an address of
/// an int; 0 for as many as said): rows behind these are left as they are. Nothing is allocated, and nothing but a launch
/// happens, so that all may be recorded in a graph.
final class CudaElementwise {
    /// Threads of a block where each has its own column.
    private static final int COLUMNS = 128;

    /// Threads of a block that norms one long vector, and of one that norms short ones.
    private static final int NORM_THREADS = 256;
    private static final int SHORT_THREADS = 128;

    /// As in norm.cu: threads of a short vector, and floats of a long one that lie in shared memory at a time.
    private static final int NORM_PARTIALS = 16;
    private static final int NORM_STAGE = 2048;
    private static final int NORM_SHARED = Float.BYTES * (2 * NORM_STAGE + 1);

    /// From here on a vector is worth a block of its own.
    static final int LONG_VECTOR = 512;

    private final Gpu gpu;
    private final Kernel rmsNorm;
    private final Kernel rmsNormShort;
    private final Kernel addNorm;
    private final Kernel layerNorm;
    private final Kernel rotate;
    private final Kernel swiglu;
    private final Kernel add;
    private final Kernel gather;
    private final Kernel gatherInPlace;
    private final Kernel combine;

    CudaElementwise(Gpu gpu) {
        this.gpu = gpu;
        rmsNorm = gpu.kernel("rms_norm");
        rmsNormShort = gpu.kernel("rms_norm_short");
        addNorm = gpu.kernel("add_rms_norm");
        layerNorm = gpu.kernel("layer_norm");
        rotate = gpu.kernel("rotate");
        swiglu = gpu.kernel("swiglu");
        add = gpu.kernel("add");
        gather = gpu.kernel("gather");
        gatherInPlace = gpu.kernel("gather_in_place");
        combine = gpu.kernel("combine");
    }

    /// Norms `heads` consecutive vectors of n in each row; `y` may be `x`.
    ///
    /// @param weight device address of n floats
    void rmsNorm(Rows y, Rows x, long weight, int n, float eps, int rows, int heads, long live) {
        requireRows(y, rows);
        requireRows(x, rows);
        if (x.width() != heads * n || y.width() != x.width()) {
            throw new IllegalArgumentException(
                    "rmsNorm: %d heads of %d in rows of %d and %d".formatted(heads, n, x.width(), y.width()));
        }
        if (rows == 0) {
            return;
        }
        boolean isLong = n >= LONG_VECTOR;
        Launch launch = gpu.launch(isLong ? rmsNorm : rmsNormShort);
        launch.ptr(y.addressAt(0)).ptr(x.addressAt(0)).ptr(weight).i32(n).i32(heads);
        launch.i32(y.stride()).i32(x.stride()).f32(eps).i32(rows).ptr(live);
        int vectors = Math.multiplyExact(rows, heads);
        if (isLong) {
            launch.run(vectors, 1, 1, NORM_THREADS, NORM_SHARED);
        } else {
            launch.run(Math.ceilDiv(vectors, SHORT_THREADS / NORM_PARTIALS), 1, 1, SHORT_THREADS, 0);
        }
    }

    /// `x += added`, then `y` the norm of it.
    ///
    /// @param weight device address of a float for each column
    void addNorm(Rows y, Rows x, Rows added, long weight, float eps, int rows, long live) {
        requireRows(y, rows);
        requireRows(x, rows);
        requireRows(added, rows);
        requireWidth("addNorm", x, added);
        requireWidth("addNorm", x, y);
        if (rows == 0) {
            return;
        }
        Launch launch = gpu.launch(addNorm);
        launch.ptr(y.addressAt(0)).ptr(x.addressAt(0)).ptr(added.addressAt(0)).ptr(weight).i32(x.width());
        launch.i32(y.stride()).i32(x.stride()).i32(added.stride()).f32(eps).i32(rows).ptr(live);
        launch.run(rows, 1, 1, NORM_THREADS, NORM_SHARED);
    }

    /// Norms each row about its mean; `y` may be `x`.
    ///
    /// @param weight device address of a float for each column
    /// @param bias as `weight`
    void layerNorm(Rows y, Rows x, long weight, long bias, float eps, int rows, long live) {
        requireRows(y, rows);
        requireRows(x, rows);
        requireWidth("layerNorm", y, x);
        if (rows == 0) {
            return;
        }
        Launch launch = gpu.launch(layerNorm);
        launch.ptr(y.addressAt(0)).ptr(x.addressAt(0)).ptr(weight).ptr(bias).i32(x.width());
        launch.i32(y.stride()).i32(x.stride()).f32(eps).i32(rows).ptr(live);
        launch.run(Math.ceilDiv(rows, SHORT_THREADS / NORM_PARTIALS), 1, 1, SHORT_THREADS, 0);
    }

    /// Rotates `angles.width()` dimensions of each head, in place.
    void rotate(Rows x, int rows, int heads, int headDim, int from, Rows angles, boolean interleaved, long live) {
        requireRows(x, rows);
        requireRows(angles, rows);
        if (x.width() != heads * headDim || from + angles.width() > headDim) {
            throw new IllegalArgumentException("rotate: %d heads of %d in rows of %d, %d dimensions from %d"
                    .formatted(heads, headDim, x.width(), angles.width(), from));
        }
        int half = angles.width() / 2;
        Launch launch = gpu.launch(rotate);
        launch.ptr(x.addressAt(0)).ptr(angles.addressAt(0)).i32(x.stride()).i32(angles.stride());
        launch.i32(heads).i32(headDim).i32(from).i32(half).i32(interleaved ? 1 : 0).i32(rows).ptr(live);
        runColumns(launch, rows, heads * half);
    }

    /// `gate = silu(gate) ⊙ up`.
    void swiglu(Rows gate, Rows up, int rows, long live) {
        requireRows(gate, rows);
        requireRows(up, rows);
        requireWidth("swiglu", gate, up);
        Launch launch = gpu.launch(swiglu);
        launch.ptr(gate.addressAt(0)).ptr(up.addressAt(0)).i32(gate.stride()).i32(up.stride());
        launch.i32(gate.width()).i32(rows).ptr(live);
        runColumns(launch, rows, gate.width());
    }

    /// `x += y`.
    void add(Rows x, Rows y, int rows, long live) {
        requireRows(x, rows);
        requireRows(y, rows);
        requireWidth("add", x, y);
        Launch launch = gpu.launch(add);
        launch.ptr(x.addressAt(0)).ptr(y.addressAt(0)).i32(x.stride()).i32(y.stride());
        launch.i32(x.width()).i32(rows).ptr(live);
        runColumns(launch, rows, x.width());
    }

    /// `y[i] = x[sources[i]]`; `y` may be `x` if `sources[i] ≥ i`.
    ///
    /// @param sources device address of `rows` ints
    void gather(Rows y, Rows x, long sources, int rows, long live) {
        requireRows(y, rows);
        requireWidth("gather", y, x);
        if (y.addressAt(0) != x.addressAt(0)) {
            Launch launch = gpu.launch(gather);
            launch.ptr(y.addressAt(0)).ptr(x.addressAt(0)).ptr(sources).i32(y.stride()).i32(x.stride());
            launch.i32(y.width()).i32(rows).ptr(live);
            runColumns(launch, rows, y.width());
        } else if (rows > 0) {
            Launch launch = gpu.launch(gatherInPlace);
            launch.ptr(x.addressAt(0)).ptr(sources).i32(x.stride()).i32(x.width()).i32(rows).ptr(live);
            launch.run(Math.ceilDiv(x.width(), COLUMNS), 1, 1, COLUMNS, 0);
        }
    }

    /// `y[t] = Σⱼ weights[t][j] · x[slots[t][j]] + shared[t]`, j ascending.
    ///
    /// @param slots device address of `[rows][perRow]` ints
    /// @param weights device address of `[rows][perRow]` floats
    void combine(
            Rows y, Rows x, long slots, long weights, int perRow, @Nullable Rows shared, int rows, long live) {
        requireRows(y, rows);
        requireWidth("combine", y, x);
        if (shared != null) {
            requireRows(shared, rows);
            requireWidth("combine", y, shared);
        }
        Launch launch = gpu.launch(combine);
        launch.ptr(y.addressAt(0)).ptr(x.addressAt(0)).ptr(slots).ptr(weights);
        launch.ptr(shared == null ? 0 : shared.addressAt(0)).i32(y.stride()).i32(x.stride());
        launch.i32(shared == null ? 0 : shared.stride()).i32(perRow).i32(y.width()).i32(rows).ptr(live);
        runColumns(launch, rows, y.width());
    }

    private static void runColumns(Launch launch, int rows, int columns) {
        if (rows > 0) {
            launch.run(rows, Math.ceilDiv(columns, COLUMNS), 1, COLUMNS, 0);
        }
    }

    private static void requireRows(Rows view, int rows) {
        if (view.address() == 0) {
            throw new IllegalArgumentException("rows: expected a matrix on the device, got one on the heap");
        }
        if (rows < 0 || rows > view.capacity()) {
            throw new IllegalArgumentException("rows: expected at most " + view.capacity() + ", got " + rows);
        }
    }

    private static void requireWidth(String what, Rows a, Rows b) {
        if (a.width() != b.width()) {
            throw new IllegalArgumentException(what + ": rows of " + b.width() + " for rows of " + a.width());
        }
    }
}

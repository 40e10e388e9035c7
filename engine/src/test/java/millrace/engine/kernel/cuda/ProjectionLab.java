package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;

/// A device, matrices on it, and what products of them should be.
final class ProjectionLab implements AutoCloseable {
    private static final double U = 0x1p-24;

    final Gpu gpu = StandIn.open();
    final Arena arena = Arena.ofShared();
    final CudaTensors tensors;
    final CudaProjections projections;

    ProjectionLab() {
        tensors = new CudaTensors(
                (source, part, bytes, again) -> {
                    long address = gpu.allocate(bytes.byteSize(), "a tensor");
                    gpu.upload(address, bytes);
                    return address;
                },
                ProjectionLab::each);
        projections = new CudaProjections(gpu, tensors);
    }

    /// Normal weights, adopted.
    Matrix matrix(WeightFormat format, int rows, int cols, long seed) {
        return matrix(format, rows, cols, seed, 0);
    }

    /// Normal weights, a share of which is replaced by any bits of a number that is not below 2⁻⁶⁰ or above 2⁶⁰, or by ±0.
    Matrix matrix(WeightFormat format, int rows, int cols, long seed, double outliers) {
        var random = new SplittableRandom(seed);
        boolean halves = format == WeightFormat.BF16 || format == WeightFormat.PACKED;
        MemorySegment data = arena.allocate(4L * rows * cols, 64);
        for (int i = 0; i < rows * cols; i++) {
            float value = (float) (0.02 * random.nextGaussian());
            if (random.nextDouble() < outliers) {
                int exponent = random.nextInt(-60, 60);
                float magnitude = Math.scalb(1 + (float) random.nextDouble(), exponent);
                magnitude = random.nextInt(4) == 0 ? 0 : magnitude;
                value = Math.copySign(magnitude, value);
            }
            if (halves) {
                data.set(ValueLayout.JAVA_SHORT, 2L * i, BFloat16.fromFloat(value));
            } else {
                data.set(ValueLayout.JAVA_FLOAT, 4L * i, value);
            }
        }
        return adopted(Matrix.Source.rowMajor(halves ? DType.BF16 : DType.F32, data, rows, cols), format);
    }

    /// These bits, adopted.
    Matrix matrix(WeightFormat format, short[] halves, int rows, int cols) {
        MemorySegment data = arena.allocateFrom(ValueLayout.JAVA_SHORT, halves);
        return adopted(Matrix.Source.rowMajor(DType.BF16, data, rows, cols), format);
    }

    private Matrix adopted(Matrix.Source source, WeightFormat format) {
        Matrix matrix = Matrix.pack(arena, source, format, ProjectionLab::each);
        tensors.adopt(matrix);
        return matrix;
    }

    static void each(int count, IntConsumer task) {
        IntStream.range(0, count).forEach(task);
    }

    float[] array(int n, long seed) {
        var random = new SplittableRandom(seed);
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    /// Rows on the device; a stride may be larger than the width, and the rest holds NaN.
    Rows rows(int rows, int width, int stride) {
        long address = gpu.allocate(4L * rows * stride, "rows");
        Rows all = Rows.device(new float[0], address, rows, stride);
        put(all, filled(rows * stride));
        return all.columns(0, width);
    }

    private static float[] filled(int n) {
        float[] nan = new float[n];
        Arrays.fill(nan, Float.NaN);
        return nan;
    }

    /// Writes the first rows of a view, `width` values each.
    void put(Rows rows, float[] values) {
        try (Arena own = Arena.ofConfined()) {
            for (int r = 0; r < values.length / rows.width(); r++) {
                MemorySegment row = own.allocate(4L * rows.width());
                MemorySegment.copy(values, r * rows.width(), row, ValueLayout.JAVA_FLOAT, 0, rows.width());
                gpu.upload(rows.addressAt(r), row);
            }
        }
    }

    /// Reads the first rows of a view.
    float[] get(Rows rows, int count) {
        float[] values = new float[count * rows.width()];
        try (Arena own = Arena.ofConfined()) {
            MemorySegment all = own.allocate(4L * rows.length());
            gpu.download(all, rows.address());
            for (int r = 0; r < count; r++) {
                MemorySegment.copy(all, ValueLayout.JAVA_FLOAT, 4L * rows.at(r), values, r * rows.width(), rows.width());
            }
        }
        return values;
    }

    /// Fills a matrix with NaN.
    void clear(Rows rows) {
        put(new Rows(rows.values(), rows.address(), rows.length(), 0, rows.stride(), rows.stride()), filled(rows.length()));
    }

    void setInt(long address, int value) {
        try (Arena own = Arena.ofConfined()) {
            gpu.upload(address, own.allocateFrom(ValueLayout.JAVA_INT, value));
        }
    }

    long ints(int... values) {
        try (Arena own = Arena.ofConfined()) {
            MemorySegment segment = own.allocateFrom(ValueLayout.JAVA_INT, values);
            long address = gpu.allocate(segment.byteSize(), "ints");
            gpu.upload(address, segment);
            return address;
        }
    }

    /// The products of the first rows of x with one matrix.
    float[] product(Matrix w, float[] bias, float[] x, int n) {
        Rows input = rows(n, w.cols(), w.cols());
        Rows output = rows(n, w.rows(), w.rows());
        put(input, Arrays.copyOf(x, n * w.cols()));
        projections.run(new Projections(1).add(output, w, bias, input, n));
        return get(output, n);
    }

    /// By how much a result may differ from the exact sum, as docs/numerics.md says, by its largest share of it: 1 is the
    /// bound.
    static double worst(Matrix w, float[] bias, float[] x, int n, float[] y) {
        double worst = 0;
        float[] codes = new float[w.cols()];
        double[] weights = new double[w.cols()];
        for (int row = 0; row < w.rows(); row++) {
            int panel = row / Matrix.PANEL_ROWS;
            WeightFormat format = w.panelFormat(panel);
            Panels.codes(format, w.data(), w.panelOffset(panel), w.cols(), row % Matrix.PANEL_ROWS, codes, 0);
            for (int k = 0; k < w.cols(); k++) {
                int group = format.grouped() ? k / format.group() : 0;
                weights[k] = (double) codes[k]
                        * Panels.scale(format, w.data(), w.panelOffset(panel), row % Matrix.PANEL_ROWS, group);
            }
            for (int t = 0; t < n; t++) {
                double sum = bias == null ? 0 : bias[row];
                double magnitude = Math.abs(sum);
                for (int k = 0; k < w.cols(); k++) {
                    double product = weights[k] * x[t * w.cols() + k];
                    sum += product;
                    magnitude += Math.abs(product);
                }
                double bound = bound(w) * U * magnitude;
                double error = Math.abs(y[t * w.rows() + row] - sum);
                worst = error <= bound ? Math.max(worst, bound == 0 ? 0 : error / bound) : Double.POSITIVE_INFINITY;
            }
        }
        return worst;
    }

    /// The factor of u in the bound.
    private static double bound(Matrix w) {
        int slices = CudaMatrix.slices(w.rows(), w.cols());
        return 76 + 2 * Math.ceilDiv(Math.ceilDiv(w.cols(), 64), slices) + slices;
    }

    @Override
    public void close() {
        gpu.close();
        arena.close();
    }
}

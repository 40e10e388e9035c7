package millrace.engine.resident;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntConsumer;
import millrace.engine.format.BFloat16;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;

/// Small regions of every kind, of random weights.
final class TestRegions {
    private TestRegions() {}

    static void oneByOne(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    /// A matrix of normally distributed weights.
    static Matrix matrix(Arena arena, WeightFormat format, int rows, int cols, long seed) {
        Random random = new Random(seed);
        boolean halves = format == WeightFormat.BF16 || format == WeightFormat.PACKED;
        MemorySegment data = arena.allocate((halves ? 2L : 4L) * rows * cols, 64);
        for (int i = 0; i < rows * cols; i++) {
            float value = (float) random.nextGaussian();
            if (halves) {
                Words.half(data, 2L * i, BFloat16.fromFloat(value));
            } else {
                Words.real(data, 4L * i, value);
            }
        }
        DType dtype = halves ? DType.BF16 : DType.F32;
        return Matrix.pack(arena, Matrix.Source.rowMajor(dtype, data, rows, cols), format, TestRegions::oneByOne);
    }

    /// Two matrices of a format, with panels of their own blocks, and what belongs to them.
    static List<Region> of(Arena arena, WeightFormat format) {
        List<Region> regions = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Matrix matrix = matrix(arena, format, 40, 70 + i, 7L * format.ordinal() + i);
            regions.add(new MatrixRegion(format.id() + " " + i, matrix));
            if (format == WeightFormat.PACKED) {
                regions.add(ArrayRegion.ofPanels(format.id() + " " + i + " panels", matrix));
            }
        }
        return regions;
    }

    /// Arrays of both kinds.
    static List<Region> arrays(long seed) {
        Random random = new Random(seed);
        float[] floats = new float[200];
        double[] doubles = new double[32];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = (float) random.nextGaussian();
        }
        for (int i = 0; i < doubles.length; i++) {
            doubles[i] = random.nextDouble();
        }
        return List.of(ArrayRegion.of("norm", floats), ArrayRegion.of("frequencies", doubles));
    }
}

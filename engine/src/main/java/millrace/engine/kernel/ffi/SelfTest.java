package millrace.engine.kernel.ffi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.format.BFloat16;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.cpu.Loops;
import org.jspecify.annotations.Nullable;

/// A small case of every native function against the specification, when the library is loaded: a library that was
/// built wrongly, or runs on a processor that computes otherwise, must not serve.
final class SelfTest {
    private static final long SEED = 20261130;
    /// More than one chunk of depths, and an odd number.
    private static final int COLS = 131;
    private static final int[] ROWS = {1, 2, 3, 4, 9};

    private final Loops tested;
    private final Loops specification;
    private final SplittableRandom random = new SplittableRandom(SEED);

    private SelfTest(Loops tested, Loops specification) {
        this.tested = tested;
        this.specification = specification;
    }

    /// The first difference, or null.
    static @Nullable String failure(Loops tested, Loops specification) {
        try {
            return new SelfTest(tested, specification).run();
        } catch (LinkageError e) {
            return "self-test: " + e.getMessage();
        }
    }

    private @Nullable String run() {
        try (Arena arena = Arena.ofConfined()) {
            for (WeightFormat format : WeightFormat.values()) {
                Matrix w = weights(arena, format);
                int panels = Loops.PANELS;
                for (int rows : ROWS) {
                    String failure = project(w, rows, panels);
                    if (failure != null) {
                        return failure;
                    }
                    panels = panels % Loops.PANELS + 1;
                }
            }
        }
        String failure = elementwise();
        return failure != null ? failure : new AttentionSelfTest(tested, specification, random).run();
    }

    private @Nullable String project(Matrix w, int rows, int panels) {
        float[] x = values(rows * COLS);
        float[] expected = new float[Loops.tileRows(rows) * Loops.TILE];
        float[] got = expected.clone();
        specification.project(w, 0, panels, x, 0, COLS, rows, expected);
        tested.project(w, 0, panels, x, 0, COLS, rows, got);
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < panels * Matrix.PANEL_ROWS; i++) {
                if (differ(expected[r * Loops.TILE + i], got[r * Loops.TILE + i])) {
                    return "self-test: project " + w.format() + ", " + rows + " rows, output " + i + ": expected "
                            + expected[r * Loops.TILE + i] + ", got " + got[r * Loops.TILE + i];
                }
            }
        }
        return null;
    }

    private @Nullable String elementwise() {
        float[] partials = new float[Matrix.PANEL_ROWS];
        float[] x = values(COLS);
        float[] same = x.clone();
        if (differ(specification.sumOfSquares(x, 1, COLS - 1, partials), tested.sumOfSquares(x, 1, COLS - 1, partials))) {
            return "self-test: sumOfSquares differs";
        }
        float[] up = values(COLS);
        specification.swiglu(x, 1, up, 2, COLS - 2);
        tested.swiglu(same, 1, up, 2, COLS - 2);
        if (differ(x, same)) {
            return "self-test: swiglu differs";
        }
        float expected = specification.softmax(x, 3, COLS - 3, 0.7f, partials);
        float got = tested.softmax(same, 3, COLS - 3, 0.7f, partials);
        return differ(x, same) || differ(expected, got) ? "self-test: softmax differs" : null;
    }

    private static boolean differ(float[] expected, float[] got) {
        for (int i = 0; i < expected.length; i++) {
            if (differ(expected[i], got[i])) {
                return true;
            }
        }
        return false;
    }

    private static boolean differ(float expected, float got) {
        return Float.floatToIntBits(expected) != Float.floatToIntBits(got);
    }

    /// Rounded to BF16 if the format is of halves. A few are tiny, so that packed weights have escapes.
    private Matrix weights(Arena arena, WeightFormat format) {
        boolean halves = format == WeightFormat.BF16 || format == WeightFormat.PACKED;
        MemorySegment values = arena.allocate((long) Loops.TILE * COLS * Float.BYTES);
        for (int i = 0; i < Loops.TILE * COLS; i++) {
            float value = random.nextInt(64) == 0 ? Math.scalb(value(), -random.nextInt(90)) : value();
            if (halves) {
                values.set(ValueLayout.JAVA_SHORT, 2L * i, BFloat16.fromFloat(value));
            } else {
                values.set(ValueLayout.JAVA_FLOAT, 4L * i, value);
            }
        }
        Matrix.Source source =
                Matrix.Source.rowMajor(halves ? DType.BF16 : DType.F32, values, Loops.TILE, COLS);
        return Matrix.pack(arena, source, format, (count, task) -> IntStream.range(0, count).forEach(task));
    }

    private float[] values(int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = value();
        }
        return values;
    }

    private float value() {
        return (float) random.nextDouble(-4, 4);
    }
}

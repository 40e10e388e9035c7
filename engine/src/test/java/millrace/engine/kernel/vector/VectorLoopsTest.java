package millrace.engine.kernel.vector;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.TileLoops;
import millrace.engine.kernel.cpu.LoopsCases;
import millrace.engine.kernel.cpu.LoopsCases.Fill;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Vector loops give the bits of the scalar ones.
final class VectorLoopsTest {
    private static final long SEED = 20261130;

    @ParameterizedTest
    @EnumSource
    void bitsShouldBeThoseOfTheSpecification(Fill fill) {
        Map<String, float[]> expected = LoopsCases.runAll(new ScalarLoops(), fill, SEED);
        Map<String, float[]> actual = LoopsCases.runAll(new VectorLoops(), fill, SEED);
        assertThat(actual.keySet()).containsExactlyElementsOf(expected.keySet());
        expected.forEach((name, bits) ->
                assertThat(bits(actual.get(name))).as("%s, %s, seed %d", name, fill, SEED).isEqualTo(bits(bits)));
    }

    @Test
    void compiledLoopsShouldGiveTheBitsOfInterpretedOnes() {
        long first = LoopsCases.digest(LoopsCases.runAll(new VectorLoops(), Fill.USUAL, SEED));
        for (int i = 0; i < 40; i++) {
            assertThat(LoopsCases.digest(LoopsCases.runAll(new VectorLoops(), Fill.USUAL, SEED)))
                    .as("round %d, seed %d", i, SEED)
                    .isEqualTo(first);
        }
    }

    /// A loop that the compiler does not turn into vectors is slower than the plain one. The best of many short runs
    /// tells, even on a crowded machine.
    @ParameterizedTest
    @EnumSource
    void loopsShouldBeMuchFasterThanTheSpecification(Timed timed) {
        try (Arena arena = Arena.ofConfined()) {
            Runnable scalar = timed.prepare(new ScalarLoops(), arena);
            Runnable vector = timed.prepare(new VectorLoops(), arena);
            long slow = best(scalar, 200);
            long fast = best(vector, 200);
            // The compiler has its own pace.
            for (int i = 0; i < 1_000 && fast >= slow / 3; i++) {
                fast = Math.min(fast, best(vector, 200));
            }
            assertThat(fast).as("ns, where the scalar loop takes %d", slow).isLessThan(slow / 3);
        }
    }

    enum Timed {
        BF16_ONE_ROW,
        BF16_TWO_ROWS,
        BF16_MANY_ROWS,
        F32_ONE_ROW,
        F32_TWO_ROWS,
        F32_MANY_ROWS,
        PACKED_ONE_ROW,
        PACKED_ESCAPES_ONE_ROW,
        PACKED_MANY_ROWS,
        INT8_ONE_ROW,
        INT8_MANY_ROWS,
        INT4_ONE_ROW,
        INT4_MANY_ROWS,
        FP8_ONE_ROW,
        FP8_MANY_ROWS,
        SCORE,
        ACCUMULATE,
        SOFTMAX,
        SWIGLU,
        FOLD,
        DECODE_BF16,
        DECODE_INT8,
        DECODE_INT4,
        DECODE_INT4_PAIRS,
        DECODE_FP8,
        BLOCK_INT8,
        BLOCK_FP8;

        Runnable prepare(TileLoops loops, Arena arena) {
            float[] x = new float[16 * 256];
            float[] y = new float[16 * 256];
            float[] sums = new float[16];
            return switch (this) {
                case BF16_ONE_ROW -> project(loops, arena, WeightFormat.BF16, 1);
                case BF16_TWO_ROWS -> project(loops, arena, WeightFormat.BF16, 2);
                case BF16_MANY_ROWS -> project(loops, arena, WeightFormat.BF16, 16);
                case F32_ONE_ROW -> project(loops, arena, WeightFormat.F32, 1);
                case F32_TWO_ROWS -> project(loops, arena, WeightFormat.F32, 2);
                case F32_MANY_ROWS -> project(loops, arena, WeightFormat.F32, 16);
                case PACKED_ONE_ROW -> project(loops, arena, WeightFormat.PACKED, 1);
                case PACKED_ESCAPES_ONE_ROW -> project(loops, escapes(arena), 1);
                case PACKED_MANY_ROWS -> project(loops, arena, WeightFormat.PACKED, 16);
                case INT8_ONE_ROW -> project(loops, arena, WeightFormat.INT8, 1);
                case INT8_MANY_ROWS -> project(loops, arena, WeightFormat.INT8, 16);
                case INT4_ONE_ROW -> project(loops, arena, WeightFormat.INT4, 1);
                case INT4_MANY_ROWS -> project(loops, arena, WeightFormat.INT4, 16);
                case FP8_ONE_ROW -> project(loops, arena, WeightFormat.FP8, 1);
                case FP8_MANY_ROWS -> project(loops, arena, WeightFormat.FP8, 16);
                case SCORE -> () -> loops.score(x, 0, 256, 16, y, 0, 256, new float[256], 0, 16, true);
                case FOLD -> () -> loops.fold(y, 0, x, 0, 32, y, 64, 16, false);
                case ACCUMULATE -> () -> loops.accumulate(x, 0, 16, y, 0, 256, 256, x, 256);
                case SOFTMAX -> () -> loops.softmax(x, 0, 4096, 1, sums);
                case SWIGLU -> () -> loops.swiglu(x, 0, y, 0, 4096);
                case DECODE_BF16 -> decode(loops, arena, TileFormat.BF16, x);
                case DECODE_INT8 -> decode(loops, arena, TileFormat.INT8, x);
                case DECODE_INT4 -> decode(loops, arena, TileFormat.INT4, x);
                case DECODE_INT4_PAIRS -> decode(loops, arena, TileFormat.INT4_PAIRS, x);
                case DECODE_FP8 -> decode(loops, arena, TileFormat.FP8, x);
                case BLOCK_INT8 -> block(loops, arena, new CacheShape.Grouped(TileFormat.INT8, 128));
                case BLOCK_FP8 -> block(loops, arena, new CacheShape.Latent(TileFormat.FP8, TileFormat.BF16, 256, 64));
            };
        }

        private static Runnable project(Loops loops, Arena arena, WeightFormat format, int rows) {
            MemorySegment zeros = arena.allocate(64 * 512 * 4);
            DType dtype = format == WeightFormat.F32 ? DType.F32 : DType.BF16;
            return project(loops, pack(arena, Matrix.Source.rowMajor(dtype, zeros, 64, 512), format), rows);
        }

        /// One weight in 64 escapes, and so almost every block has escapes.
        private static Matrix escapes(Arena arena) {
            MemorySegment halves = arena.allocate(64 * 512 * 2);
            for (int i = 0; i < 64 * 512; i++) {
                int exponent = i % 64 == 0 ? 32 + i / 64 % 100 : 120 - i % 8;
                halves.set(ValueLayout.JAVA_SHORT, 2L * i, (short) (exponent << 7));
            }
            Matrix w = pack(arena, Matrix.Source.rowMajor(DType.BF16, halves, 64, 512), WeightFormat.PACKED);
            assertThat(w.rawPanel(0)).isFalse();
            return w;
        }

        private static Matrix pack(Arena arena, Matrix.Source source, WeightFormat format) {
            return Matrix.pack(arena, source, format, (n, task) -> IntStream.range(0, n).forEach(task));
        }

        private static Runnable project(Loops loops, Matrix w, int rows) {
            float[] x = new float[rows * 512];
            float[] tile = new float[Loops.tileRows(rows) * Loops.TILE];
            return () -> loops.project(w, 0, 4, x, 0, 512, rows, tile);
        }

        private static Runnable decode(TileLoops loops, Arena arena, TileFormat format, float[] out) {
            long tile = arena.allocate(format.bytes(16, 256), Memory.ALIGNMENT).address();
            return () -> loops.decode(format, tile, 16, 256, out, 0);
        }

        private static Runnable block(Loops loops, Arena arena, CacheShape shape) {
            long[] pages = {arena.allocate(shape.blockBytes(), Memory.ALIGNMENT).address()};
            int queries = 8;
            float[] q = new float[queries * shape.keyDim()];
            float[] scores = new float[queries * 16];
            float[] sums = new float[queries * shape.valueLanes()];
            float[] scratch = new float[shape.scratchFloats()];
            return () -> {
                loops.scores(shape, pages, 0, 1, 0, q, 0, queries, scores, 0, 16, scratch);
                loops.sums(shape, pages, 0, 1, 16, 0, scores, 0, 16, queries, sums, 0, scratch);
            };
        }
    }

    private static long best(Runnable loop, int rounds) {
        long best = Long.MAX_VALUE;
        for (int i = 0; i < rounds; i++) {
            long start = System.nanoTime();
            loop.run();
            best = Math.min(best, System.nanoTime() - start);
        }
        return best;
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 256})
    void narrowerMachinesShouldGiveTheSameBits(int bits) throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder(
                        java,
                        "--add-modules",
                        "jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dmillrace.vector.bits=" + bits,
                        "-cp",
                        home(Narrow.class) + File.pathSeparator + home(VectorLoops.class),
                        Narrow.class.getName())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).isZero();
        long expected = LoopsCases.digest(LoopsCases.runAll(new ScalarLoops(), Fill.ANY, SEED));
        assertThat(printed.strip()).isEqualTo(bits + " " + expected);
    }

    /// Where a class was loaded from: runners of tests do not all put it on the class path of the system.
    private static String home(Class<?> type) {
        try {
            return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    /// Run in a JVM of its own: the width of vectors is fixed when a JVM starts.
    static final class Narrow {
        private Narrow() {}

        public static void main(String[] args) {
            long digest = LoopsCases.digest(LoopsCases.runAll(new VectorLoops(), Fill.ANY, SEED));
            System.out.println(VectorLoops.bits() + " " + digest);
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < values.length; i++) {
            bits[i] = Float.floatToIntBits(values[i]);
        }
        return bits;
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Float8;
import millrace.engine.kernel.ExpMath;
import millrace.engine.kernel.cuda.Emulator.Result;
import millrace.engine.kernel.cuda.Emulator.Shape;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// What kernels rely on: warps, fragments, copies, barriers, and functions with the bits that Java has.
class EmulatorTest {
    private static final Result DONE = new Result(0, "");

    @ParameterizedTest
    @ValueSource(longs = {StandinOptions.FORWARD, StandinOptions.REVERSE, StandinOptions.SHUFFLED})
    void aWarpExchangesValues(long schedule) {
        int[] in = new Random(3).ints(64, -9, 1000).toArray();
        try (Emulator emulator = Emulator.open().with("schedule", schedule)) {
            MemorySegment out = emulator.words(new int[64 * 11]);
            assertThat(emulator.run("conformance_warp", Shape.of(1, 64, 0), emulator.words(in), out)).isEqualTo(DONE);
            for (int i = 0; i < 64; i++) {
                int[] got = out.asSlice(i * 44L, 44).toArray(ValueLayout.JAVA_INT);
                assertThat(got).as("thread " + i).isEqualTo(exchanged(in, i / 32 * 32, i % 32));
            }
        }
    }

    private static int[] exchanged(int[] all, int warp, int lane) {
        int[] v = Arrays.copyOfRange(all, warp, warp + 32);
        int votes = 0;
        int alike = 0;
        for (int l = 0; l < 32; l++) {
            votes |= (v[l] & 1) << l;
            alike |= (Integer.remainderUnsigned(v[l], 3) == Integer.remainderUnsigned(v[lane], 3) ? 1 : 0) << l;
        }
        return new int[] {
            v[5],
            v[lane / 8 * 8 + (lane + 1) % 8],
            v[lane < 3 ? lane : lane - 3],
            v[lane % 16 > 13 ? lane : lane + 2],
            v[lane ^ 9],
            votes,
            IntStream.of(v).sum(),
            IntStream.of(v).min().orElseThrow(),
            IntStream.of(v).reduce((a, b) -> Integer.compareUnsigned(a, b) > 0 ? a : b).orElseThrow(),
            alike,
            IntStream.range(lane / 16 * 16, lane / 16 * 16 + 16).map(l -> v[l]).sum()
        };
    }

    @ParameterizedTest
    @CsvSource({"conformance_mma_bf16,0", "conformance_mma_bf16,1", "conformance_mma_f16,0", "conformance_mma_f16,1"})
    void aProductOfFragmentsIsAProductOfMatrices(String kernel, int truncate) {
        boolean bf16 = kernel.endsWith("bf16");
        Random random = new Random(5);
        short[] a = new short[256];
        short[] b = new short[128];
        fill(a, random, bf16);
        fill(b, random, bf16);
        float[] d = new float[128];
        for (int i = 0; i < d.length; i++) {
            d[i] = (float) random.nextGaussian();
        }
        try (Emulator emulator = Emulator.open().with("truncate", truncate)) {
            MemorySegment out = emulator.arena.allocateFrom(ValueLayout.JAVA_FLOAT, d);
            Result result = emulator.run(
                    kernel, Shape.of(1, 32, 0), emulator.arena.allocateFrom(ValueLayout.JAVA_SHORT, a),
                    emulator.arena.allocateFrom(ValueLayout.JAVA_SHORT, b), out);
            assertThat(result).isEqualTo(DONE);
            for (int row = 0; row < 16; row++) {
                for (int column = 0; column < 8; column++) {
                    double sum = d[row * 8 + column];
                    double terms = Math.abs(sum);
                    for (int k = 0; k < 16; k++) {
                        double term = (double) value(a[row * 16 + k], bf16) * value(b[column * 16 + k], bf16);
                        sum += term;
                        terms += Math.abs(term);
                    }
                    assertThat((double) out.getAtIndex(ValueLayout.JAVA_FLOAT, row * 8 + column))
                            .as(row + ", " + column).isCloseTo(sum, Offset.offset(terms * 0x1p-20));
                }
            }
        }
    }

    private static void fill(short[] values, Random random, boolean bf16) {
        for (int i = 0; i < values.length; i++) {
            float v = (float) random.nextGaussian();
            values[i] = bf16 ? BFloat16.fromFloat(v) : Float.floatToFloat16(v);
        }
    }

    private static float value(short bits, boolean bf16) {
        return bf16 ? BFloat16.toFloat(bits) : Float.float16ToFloat(bits);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void severalProductsInOneMeetingAreThoseOneByOne(int truncate) {
        // Halves of at most 2 in both formats, so that nothing overflows.
        int[] words = new Random(9).ints(24 * 32).map(w -> w & 0xbfffbfff).toArray();
        try (Emulator emulator = Emulator.open().with("truncate", truncate)) {
            MemorySegment differ = emulator.words(new int[32]);
            assertThat(emulator.run("conformance_mma_groups", Shape.of(1, 32, 0), emulator.words(words), differ)).isEqualTo(DONE);
            assertThat(differ.mismatch(emulator.words(new int[32]))).isEqualTo(-1);
        }
    }

    @Test
    void functionsHaveTheBitsOfJava() {
        int[] floats = IntStream.concat(
                new Random(11).ints(200_000), IntStream.of(0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7f7fffff, 0x42b17217, 0xc2cff1b5)).toArray();
        same(0, floats, x -> bits(ExpMath.exp(Float.intBitsToFloat(x))));
        same(1, floats, x -> bits(ExpMath.sigmoid(Float.intBitsToFloat(x))));
        same(2, floats, x -> BFloat16.fromFloat(Float.intBitsToFloat(x)) & 0xffff);
        same(3, floats, x -> Float8.fromFloat(Float.intBitsToFloat(x)) & 0xff);
        same(3, IntStream.range(0x3a000000 >> 10, 0x44000000 >> 10).map(i -> i << 10).toArray(),
                x -> Float8.fromFloat(Float.intBitsToFloat(x)) & 0xff);
        same(4, IntStream.range(0, 256).toArray(), x -> bits(Float8.toFloat((byte) x)));
        same(5, floats, x -> Float.floatToFloat16(Float.intBitsToFloat(x)) & 0xffff);
        same(6, IntStream.range(0, 65536).toArray(), x -> bits(Float.float16ToFloat((short) x)));
    }

    @Test
    void threePartsAddUpToTheWhole() {
        // Above 2^-100, so that no part is a denormal; three times eight bits are the 24 of an F32.
        int[] floats = new Random(12).ints(100_000).filter(x -> (x >>> 23 & 0xff) > 27 && (x >>> 23 & 0xff) < 254).toArray();
        same(7, floats, x -> x);
    }

    private static int bits(float value) {
        return Float.floatToIntBits(value);
    }

    /// NaNs of any kind are alike.
    private static void same(int function, int[] in, IntUnaryOperator expected) {
        try (Emulator emulator = Emulator.open()) {
            MemorySegment out = emulator.words(new int[in.length]);
            Result result = emulator.run(
                    "conformance_math", Shape.of((in.length + 255) / 256, 256, 0), emulator.words(in), out, function, in.length);
            assertThat(result).isEqualTo(DONE);
            for (int i = 0; i < in.length; i++) {
                int got = out.getAtIndex(ValueLayout.JAVA_INT, i);
                int wanted = expected.applyAsInt(in[i]);
                boolean nan = Float.isNaN(Float.intBitsToFloat(got)) && Float.isNaN(Float.intBitsToFloat(wanted))
                        || Float.isNaN(Float.intBitsToFloat(in[i])) && function == 5;
                if (got != wanted && !nan) {
                    assertThat(Integer.toHexString(got)).as("function %d of %x", function, in[i]).isEqualTo(Integer.toHexString(wanted));
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"0,0", "0,1", "0,2", "1,0", "1,1", "2,0", "2,2"})
    void bulkCopiesLandBeforeTheirWaitEnds(long schedule, long landing) {
        int steps = 7;
        try (Emulator emulator = Emulator.open().with("schedule", schedule).with("landing", landing)) {
            MemorySegment in = emulator.floats(steps * 4 * 64);
            MemorySegment out = emulator.arena.allocate(in.byteSize(), 16);
            assertThat(emulator.run("conformance_bulk", Shape.of(1, 64, 2 * 4 * 4 * 64 + 16), in, out, steps)).isEqualTo(DONE);
            assertThat(out.mismatch(in)).isEqualTo(-1);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {StandinOptions.FORWARD, StandinOptions.REVERSE, StandinOptions.SHUFFLED})
    void warpsMeetAtNamedBarriersAndThoseThatLeftAreNotWaitedFor(long schedule) {
        try (Emulator emulator = Emulator.open().with("schedule", schedule)) {
            MemorySegment out = emulator.words(new int[128]);
            assertThat(emulator.run("conformance_named_barriers", Shape.of(1, 96, 0), out)).isEqualTo(DONE);
            int[] right = IntStream.range(0, 128).map(i -> 100 * (i / 32) + 31 - i % 32).toArray();
            assertThat(out.mismatch(emulator.words(right))).isEqualTo(-1);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 5})
    void everyThreadOfAGridRunsOnce(long threads) {
        try (Emulator emulator = Emulator.open().with("threads", threads)) {
            int all = 3 * 5 * 2 * 7 * 3 * 2;
            MemorySegment sum = emulator.words(0, 0);
            MemorySegment places = emulator.words(new int[all]);
            assertThat(emulator.run("conformance_grid", new Shape(3, 5, 2, 7, 3, 2, 0), sum, places)).isEqualTo(DONE);
            assertThat(sum.get(ValueLayout.JAVA_LONG, 0)).isEqualTo((all - 1) * (long) all / 2);
            assertThat(places.mismatch(emulator.words(IntStream.range(0, all).toArray()))).isEqualTo(-1);
        }
    }
}

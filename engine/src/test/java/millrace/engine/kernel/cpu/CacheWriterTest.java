package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Hadamard;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/// What the cache gives back of what was stored: read by attention with one visible token, whose output is the value;
/// and the bytes that docs/formats.md shows.
final class CacheWriterTest {
    private static final long SEED = 5;

    static Stream<CacheShape> shapes() {
        return Stream.of(
                new CacheShape.Grouped(TileFormat.F32, 37),
                new CacheShape.Grouped(TileFormat.BF16, 37),
                new CacheShape.Grouped(TileFormat.INT8, 37),
                new CacheShape.Grouped(TileFormat.INT4, 64),
                new CacheShape.Latent(TileFormat.F32, TileFormat.F32, 300, 6),
                new CacheShape.Latent(TileFormat.BF16, TileFormat.BF16, 300, 6),
                new CacheShape.Latent(TileFormat.INT8, TileFormat.BF16, 300, 6),
                new CacheShape.Latent(TileFormat.FP8, TileFormat.BF16, 300, 6),
                new CacheShape.Latent(TileFormat.FP8, TileFormat.FP8, 300, 6));
    }

    static Stream<CacheShape> scaledShapes() {
        return shapes().filter(shape -> format(shape).scaled());
    }

    private static TileFormat format(CacheShape shape) {
        return switch (shape) {
            case CacheShape.Grouped grouped -> grouped.format();
            case CacheShape.Latent latent -> latent.latentFormat();
        };
    }

    private static int valueDim(CacheShape shape) {
        return switch (shape) {
            case CacheShape.Grouped grouped -> grouped.headDim();
            case CacheShape.Latent latent -> latent.rank();
        };
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void valueOfTheOnlyTokenShouldComeBackAsTheFormatKeepsIt(CacheShape shape) {
        float[] value = random(valueDim(shape));
        assertKept(shape, value, 0, value.length, roundTrip(shape, value));
    }

    /// One group far larger than its neighbours must not cost them their digits.
    @ParameterizedTest
    @CsvSource({"INT8", "FP8"})
    void groupsOfALatentShouldNotShareAScale(TileFormat format) {
        var shape = new CacheShape.Latent(format, TileFormat.BF16, 300, 6);
        float[] latent = random(300);
        for (int i = 128; i < 256; i++) {
            latent[i] *= 1000;
        }
        float[] back = roundTrip(shape, latent);
        assertKept(shape, latent, 0, 128, back);
        assertKept(shape, latent, 128, 256, back);
        assertKept(shape, latent, 256, 300, back);
    }

    @ParameterizedTest
    @MethodSource("scaledShapes")
    void zerosShouldComeBackAsZeros(CacheShape shape) {
        assertThat(roundTrip(shape, new float[valueDim(shape)])).containsOnly(0);
    }

    @ParameterizedTest
    @MethodSource("scaledShapes")
    void smallestNumbersShouldNotBecomeSomethingElse(CacheShape shape) {
        float[] tiny = new float[valueDim(shape)];
        Arrays.fill(tiny, Float.MIN_VALUE);
        for (float value : roundTrip(shape, tiny)) {
            assertThat(value).isBetween(0f, 0x1p-100f);
        }
    }

    /// F16 has 24 steps below its smallest normal number: scales there are coarse, but not below what they must hold.
    @Test
    void scalesShouldBeRoundedUp() {
        var shape = new CacheShape.Grouped(TileFormat.INT8, 16);
        for (float magnitude = 0x1p-14f; magnitude < 2.7e6f; magnitude *= 1.37f) {
            float[] value = random(16);
            for (int i = 0; i < value.length; i++) {
                value[i] *= magnitude;
            }
            float step = CacheWriter.amax(value, 0, 16) / 127 + 0x1p-24f;
            float[] back = roundTrip(shape, value);
            for (int i = 0; i < 16; i++) {
                assertThat(back[i]).as("value %d of %s", i, magnitude).isCloseTo(value[i], within(step * 0.502f));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("shapes")
    void valueThatIsNotANumberShouldNotBeHidden(CacheShape shape) {
        for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
            float[] v = random(valueDim(shape));
            v[3] = bad;
            assertThat(Float.isFinite(roundTrip(shape, v)[3])).as("%s", bad).isFalse();
        }
    }

    @Test
    void valueBeyondTheRangeOfAScaleShouldNotBeHidden() {
        float[] v = random(32);
        v[5] = 1e30f;
        assertThat(roundTrip(new CacheShape.Grouped(TileFormat.INT8, 32), v)[0]).isNaN();
        assertThat(roundTrip(new CacheShape.Grouped(TileFormat.INT4, 32), v)[0]).isNaN();
        v[5] = 65504 * 127f;
        assertThat(roundTrip(new CacheShape.Grouped(TileFormat.INT8, 32), v)[5]).isEqualTo(v[5]);
    }

    /// Keys are kept like values: a query that picks a dimension must find in its score what the value would give.
    @ParameterizedTest
    @MethodSource("shapes")
    void keysShouldBeKeptLikeValues(CacheShape shape) {
        float[] key = random(valueDim(shape));
        float[] kept = roundTrip(shape, key);
        try (Arena arena = Arena.ofConfined();
                Backend backend = Backend.open("scalar", 1)) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            var batch = new CacheBatch(1);
            batch.add(new long[] {block}, 1, 0, 1, 0);
            Rows stored = new Rows(key, 0, key.length, key.length);
            store(backend.kernels(), shape, batch, stored);
            float[] q = new float[shape.keyDim()];
            float[] scores = new float[16];
            float[] scratch = new float[shape.scratchFloats()];
            for (int d = 0; d < key.length; d++) {
                Arrays.fill(q, 0);
                q[d] = 1;
                if (shape instanceof CacheShape.Grouped g && g.rotated()) {
                    Hadamard.rotate(q, 0, q.length);
                }
                new ScalarLoops().scores(shape, new long[] {block}, 0, 1, 0, q, 0, 1, scores, 0, 16, scratch);
                assertThat(scores[0]).as("dimension %d", d).isCloseTo(kept[d], within(2e-6f));
            }
        }
    }

    @Test
    void bytesOfInt8ShouldBeThoseOfTheDocumentation() {
        var shape = new CacheShape.Grouped(TileFormat.INT8, 4);
        try (Arena arena = Arena.ofConfined()) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            float[] k = {1, -2, 0.5f, 4};
            float[] v = {0.25f, 0, -0.125f, 1};
            CacheWriter.write(shape, block, 5, k, 0, v, 0, new float[0]);
            assertThat(hex(block + 20, 4)).isEqualTo("20c1107f");
            assertThat(shape.valueOffset()).isEqualTo(64);
            // Token 5 is byte 1 of the second row of words.
            assertThat(hex(block + 64 + 64, 16)).isEqualTo("00200000" + "00000000" + "00f00000" + "007f0000");
            assertThat(shape.keyScaleOffset()).isEqualTo(320);
            assertThat(hex(block + 320 + 10, 2)).isEqualTo("0928");
            assertThat(hex(block + 352 + 10, 2)).isEqualTo("0920");
        }
    }

    @Test
    void bytesOfInt4ShouldBeThoseOfTheDocumentation() {
        var shape = new CacheShape.Grouped(TileFormat.INT4, 32);
        try (Arena arena = Arena.ofConfined()) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            float[] k = new float[32];
            float[] v = new float[32];
            k[0] = 1;
            k[1] = 1;
            v[2] = -2;
            CacheWriter.write(shape, block, 6, k, 0, v, 0, new float[32]);
            // Rotated: 2 · 0.17677669 in even dimensions, 0 in odd ones.
            assertThat(hex(block + 24, 4)).isEqualTo("08080808");
            assertThat(hex(block + 64 * 3 + 24, 4)).isEqualTo("08080808");
            assertThat(hex(block + 512, 2)).isEqualTo("0000");
            assertThat(shape.valueOffset()).isEqualTo(256);
            // Rotated: −0.35355338 where dimension & 2 is 0, else the opposite.
            assertThat(hex(block + 256 + 64, 16)).isEqualTo("00008800" + "00008800" + "00007700" + "00007700");
            assertThat(shape.keyScaleOffset()).isEqualTo(512);
            assertThat(hex(block + 512 + 12, 2)).isEqualTo("a9a9");
            assertThat(hex(block + 544 + 12, 2)).isEqualTo("a929");
        }
    }

    @Test
    void bytesOfLatentsShouldBeThoseOfTheDocumentation() {
        float[] latent = {1, -0.5f, 3, 448};
        float[] rope = {1.5f, -900};
        assertThat(latent(TileFormat.INT8, TileFormat.BF16, latent, rope))
                .isEqualTo("00 00 01 7f | c03f 61c4 | 87c36140");
        assertThat(latent(TileFormat.FP8, TileFormat.BF16, latent, rope))
                .isEqualTo("38 b0 44 7e | c03f 61c4 | 0000803f");
        // 900 ≤ 448 · 4: codes of 0.25, −0.125, 0.75, 112 and of 0.375, −225.
        assertThat(latent(TileFormat.FP8, TileFormat.FP8, latent, rope))
                .isEqualTo("28 a0 34 6e | 2c f6 | 00008040");
    }

    /// The codes of token 0, by parts.
    private static String latent(TileFormat format, TileFormat ropeFormat, float[] latent, float[] rope) {
        var shape = new CacheShape.Latent(format, ropeFormat, latent.length, rope.length);
        try (Arena arena = Arena.ofConfined()) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            CacheWriter.write(shape, block, 0, latent, 0, rope, 0);
            var line = new StringBuilder();
            for (int d = 0; d < latent.length; d++) {
                line.append(hex(block + 4L * d, 1)).append(' ');
            }
            line.append("| ");
            for (int d = 0; d < rope.length; d++) {
                line.append(hex(block + shape.ropeOffset() + 4L * d, ropeFormat == TileFormat.BF16 ? 2 : 1)).append(' ');
            }
            return line.append("| ").append(hex(block + shape.scaleOffset(), 4)).toString();
        }
    }

    private static String hex(long address, int bytes) {
        return HexFormat.of().formatHex(Memory.ALL.asSlice(address, bytes).toArray(ValueLayout.JAVA_BYTE));
    }

    private static void assertKept(CacheShape shape, float[] stored, int from, int to, float[] back) {
        float amax = CacheWriter.amax(stored, from, to - from);
        for (int i = from; i < to; i++) {
            float error = switch (format(shape)) {
                case F32 -> 0;
                case BF16 -> Math.abs(stored[i]) / 256;
                case INT8 -> amax / 253;
                // The rotated head has the length of the head: no value of it exceeds that, and so no step an eighth.
                case INT4, INT4_PAIRS -> length(stored) / 8;
                // Half of the last of three bits; or half of the smallest step.
                case FP8 -> Math.max(Math.abs(stored[i]) / 16, amax / 448 * 0x1p-9f);
            };
            assertThat(back[i]).as("value %d, seed %d", i, SEED).isCloseTo(stored[i], within(error));
        }
    }

    private static float length(float[] x) {
        double squares = 0;
        for (float value : x) {
            squares += value * value;
        }
        return (float) Math.sqrt(squares);
    }

    private static void store(Kernels kernels, CacheShape shape, CacheBatch batch, Rows v) {
        switch (shape) {
            case CacheShape.Grouped grouped -> kernels.store(grouped, batch, 0, 1, v, v);
            case CacheShape.Latent latent -> kernels.store(latent, batch, 0, v, Rows.allocate(1, latent.ropeDim()));
        }
    }

    private static float[] roundTrip(CacheShape shape, float[] value) {
        try (Arena arena = Arena.ofConfined();
                Backend backend = Backend.open("scalar", 1)) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            var batch = new CacheBatch(1);
            batch.add(new long[] {block}, 1, 0, 1, 0);
            Kernels kernels = backend.kernels();
            store(kernels, shape, batch, new Rows(value, 0, value.length, value.length));
            Rows out = Rows.allocate(1, value.length);
            Rows q = Rows.allocate(1, value.length);
            switch (shape) {
                case CacheShape.Grouped grouped -> kernels.attend(grouped, batch, 0, 1, 1, 0, q, out);
                case CacheShape.Latent latent ->
                    kernels.attend(latent, batch, 0, 1, 0, q, Rows.allocate(1, latent.ropeDim()), out);
            }
            return out.values();
        }
    }

    private static float[] random(int n) {
        var random = new SplittableRandom(SEED);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) random.nextDouble(-3, 3);
        }
        return x;
    }
}

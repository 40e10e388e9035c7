package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import millrace.engine.format.BFloat16;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.TileFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What the cache gives back of what was stored: read by attention with one visible token, whose output is the value.
final class CacheWriterTest {
    private static final long SEED = 5;

    @ParameterizedTest
    @EnumSource
    void valueOfTheOnlyTokenShouldComeBackAsTheFormatKeepsIt(TileFormat format) {
        var shape = new CacheShape.Grouped(format, 37);
        float[] v = random(37);
        float[] back = roundTrip(shape, v);
        assertKept(format, v, 0, 37, back);
    }

    @ParameterizedTest
    @EnumSource
    void latentOfTheOnlyTokenShouldComeBackAsTheFormatKeepsIt(TileFormat format) {
        TileFormat rope = format == TileFormat.F32 ? TileFormat.F32 : TileFormat.BF16;
        var shape = new CacheShape.Latent(format, rope, 300, 6);
        float[] latent = random(300);
        // One group far larger than its neighbours: it must not cost them their digits.
        for (int i = 128; i < 256; i++) {
            latent[i] *= 1000;
        }
        float[] back = roundTrip(shape, latent);
        assertKept(format, latent, 0, 128, back);
        assertKept(format, latent, 128, 256, back);
        assertKept(format, latent, 256, 300, back);
    }

    @Test
    void zerosAndTinyValuesShouldNotBecomeSomethingElse() {
        var shape = new CacheShape.Grouped(TileFormat.INT8, 16);
        assertThat(roundTrip(shape, new float[16])).containsOnly(0);
        float[] tiny = new float[16];
        Arrays.fill(tiny, Float.MIN_VALUE);
        assertThat(roundTrip(shape, tiny)).containsOnly(0);
    }

    @ParameterizedTest
    @EnumSource
    void valueThatIsNotANumberShouldNotBeHidden(TileFormat format) {
        float[] v = random(16);
        v[3] = Float.NaN;
        assertThat(roundTrip(new CacheShape.Grouped(format, 16), v)[3]).isNaN();
    }

    private static void assertKept(TileFormat format, float[] stored, int from, int to, float[] back) {
        float amax = CacheWriter.scale(stored, from, to - from) * 127;
        for (int i = from; i < to; i++) {
            switch (format) {
                case F32 -> assertThat(back[i]).isEqualTo(stored[i]);
                case BF16 ->
                    assertThat(back[i]).isEqualTo(BFloat16.toFloat(BFloat16.fromFloat(stored[i])));
                case INT8 ->
                    assertThat(back[i]).as("value %d, seed %d", i, SEED).isCloseTo(stored[i], within(amax / 253));
            }
        }
    }

    private static float[] roundTrip(CacheShape shape, float[] value) {
        try (Arena arena = Arena.ofConfined();
                Backend backend = Backend.open("auto", 1)) {
            long block = Memory.allocate(arena, shape.blockBytes(), "a test").address();
            var batch = new CacheBatch(1);
            batch.add(new long[] {block}, 1, 0, 1, 0);
            Rows v = new Rows(value, 0, value.length, value.length);
            Kernels kernels = backend.kernels();
            switch (shape) {
                case CacheShape.Grouped grouped -> {
                    Rows out = Rows.allocate(1, grouped.headDim());
                    kernels.store(grouped, batch, 0, 1, v, v);
                    kernels.attend(grouped, batch, 0, 1, 1, 0, Rows.allocate(1, grouped.headDim()), out);
                    return out.values();
                }
                case CacheShape.Latent latent -> {
                    Rows out = Rows.allocate(1, latent.rank());
                    kernels.store(latent, batch, 0, v, Rows.allocate(1, latent.ropeDim()));
                    Rows latentQ = Rows.allocate(1, latent.rank());
                    kernels.attend(latent, batch, 0, 1, 0, latentQ, Rows.allocate(1, latent.ropeDim()), out);
                    return out.values();
                }
            }
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

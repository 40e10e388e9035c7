package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.TileFormat;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.jspecify.annotations.Nullable;

/// The device's pages against those that the CPU writes, byte by byte, with what was there before.
@Tag(DeviceContract.TAG)
final class CudaStoreTest {
    private static final int KV_HEADS = 2;

    private static @Nullable Gpu gpu;

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
    }

    @AfterAll
    static void close() {
        if (gpu != null) {
            gpu.close();
        }
    }

    static Stream<CacheShape> shapes() {
        return Stream.concat(CacheFixture.awkwardShapes(), CacheFixture.usualShapes());
    }

    /// Three sequences in two steps: parts of pages, pages that a step begins and ends in, several rows in one word.
    @ParameterizedTest
    @MethodSource("shapes")
    void bytesShouldBeThoseOfTheCpu(CacheShape shape) {
        int heads = shape instanceof CacheShape.Grouped ? KV_HEADS : 1;
        try (CacheFixture f = new CacheFixture(Objects.requireNonNull(gpu), shape, heads, 9, 3);
                Backend backend = Backend.open("scalar", 1)) {
            f.scribble();
            int[][] sequences = {f.sequence(37), f.sequence(16), f.sequence(5)};
            int[][] steps = {{21, 3, 0}, {16, 13, 5}};
            int[] stored = new int[3];
            CudaInputs device = f.inputs(40, 4);
            CudaStore store = new CudaStore(f.gpu);
            for (int[] step : steps) {
                var batch = new CacheBatch(3);
                device.inputs().clear();
                int rows = 0;
                for (int s = 0; s < 3; s++) {
                    if (step[s] > 0) {
                        batch.add(f.onHost(sequences[s]), sequences[s].length, rows, step[s], stored[s]);
                        CacheFixture.add(device.inputs(), f.onDevice(sequences[s]), stored[s], step[s]);
                    }
                    rows += step[s];
                    stored[s] += step[s];
                }
                Rows first = f.rows(awkward(f, rows, heads, f.keyWidth()), rows, heads * f.keyWidth());
                Rows second = f.rows(awkward(f, rows, heads, f.otherWidth()), rows, heads * f.otherWidth());
                f.storeOnHost(backend.kernels(), batch, onHost(first), onHost(second));
                device.send();
                f.store(store, device.of(device.inputs().batch()), rows, first, second);
            }
            assertThat(f.download().mismatch(f.host)).as("first byte that differs").isEqualTo(-1);
        }
    }

    /// A recorded step has blocks for rows that are not there; these read nothing and write nothing.
    @Test
    void rowsThatAreNotThereShouldNotBeStored() {
        for (CacheShape shape : List.of(
                CacheFixture.grouped(TileFormat.INT8, 37), CacheFixture.latent(TileFormat.FP8, TileFormat.BF16, 300, 18))) {
            try (CacheFixture f = new CacheFixture(Objects.requireNonNull(gpu), shape, 1, 2, 3)) {
                f.scribble();
                CudaInputs device = f.inputs(4, 2);
                CacheFixture.add(device.inputs(), f.onDevice(f.sequence(20)), 17, 1);
                device.send();
                MemorySegment before = f.download();
                Rows first = f.rows(f.gaussians(4 * f.keyWidth(), 1), 4, f.keyWidth());
                Rows second = f.rows(f.gaussians(4 * f.otherWidth(), 1), 4, f.otherWidth());
                f.store(new CudaStore(f.gpu), device.of(device.inputs().batch()), 4, first, second);
                MemorySegment after = f.download();
                long changed = LongStream.range(0, after.byteSize())
                        .filter(at -> after.get(ValueLayout.JAVA_BYTE, at) != before.get(ValueLayout.JAVA_BYTE, at))
                        .count();
                assertThat(changed).isBetween(1L, shape.blockBytes() / CacheShape.TOKENS);
            }
        }
    }

    /// A grid has 65,535 blocks in all of its directions but the first.
    @Test
    void launchesForMoreRowsThanAGridHasElsewhereShouldStoreAll() {
        int launched = 65_600;
        int rows = 5;
        CacheShape shape = CacheFixture.grouped(TileFormat.F32, 3);
        try (CacheFixture f = new CacheFixture(Objects.requireNonNull(gpu), shape, 1, 1, 8);
                Backend backend = Backend.open("scalar", 1)) {
            f.scribble();
            int[] sequence = f.sequence(rows);
            CudaInputs device = f.inputs(rows, 1);
            CacheFixture.add(device.inputs(), f.onDevice(sequence), 0, rows);
            var batch = new CacheBatch(1);
            batch.add(f.onHost(sequence), 1, 0, rows, 0);
            Rows keys = f.rows(f.gaussians(launched * f.keyWidth(), 1), launched, f.keyWidth());
            Rows values = f.rows(f.gaussians(launched * f.otherWidth(), 1), launched, f.otherWidth());
            f.storeOnHost(backend.kernels(), batch, onHost(keys), onHost(values));
            device.send();
            f.store(new CudaStore(f.gpu), device.of(device.inputs().batch()), launched, keys, values);
            assertThat(f.download().mismatch(f.host)).as("first byte that differs").isEqualTo(-1);
        }
    }

    /// Every order of lanes, warps and blocks, as rows of one word come in.
    @Test
    void bytesShouldNotDependOnTheSchedule() {
        StandIn.inEverySchedule(() -> {
            for (CacheShape shape : List.of(
                    CacheFixture.grouped(TileFormat.INT4, 32), CacheFixture.latent(TileFormat.INT8, TileFormat.BF16, 140, 6))) {
                bytesShouldBeThoseOfTheCpu(shape);
            }
        });
    }

    private static Rows onHost(Rows rows) {
        return new Rows(rows.values(), rows.offset(), rows.stride(), rows.width());
    }

    /// Rows of usual numbers, and heads of what formats have cases for: zeros of both signs, denormals, outliers, numbers
    /// beyond a scale's range, equal magnitudes of both signs, halves of steps, and what is no number.
    private static float[] awkward(CacheFixture f, int rows, int heads, int width) {
        float[] x = f.gaussians(rows * heads * width, 1);
        for (int head = 0; head < rows * heads; head++) {
            int from = head * width;
            int one = from + f.random.nextInt(width);
            switch (head % 23) {
                case 1 -> fill(x, from, width, i -> i % 2 == 0 ? 0f : -0f);
                case 3 -> fill(x, from, width, i -> Float.intBitsToFloat(f.random.nextInt(1 << 20)));
                case 5 -> x[one] = 1e30f;
                case 7 -> x[one] = Float.NaN;
                case 9 -> x[one] = Float.NEGATIVE_INFINITY;
                case 11 -> fill(x, from, width, i -> i % 3 == 0 ? 2.5f : -2.5f);
                case 13 -> fill(x, from, width, i -> (f.random.nextInt(255) - 127) / 2f);
                case 15 -> x[one] = 3000;
                case 17 -> fill(x, from, width, i -> (float) (f.random.nextGaussian() * 0x1p-130));
                case 19 -> x[one] = 65504 * 127f;
                case 21 -> fill(x, from, width, i -> 448f / (1 << f.random.nextInt(20)));
                default -> {
                    // Usual numbers.
                }
            }
        }
        return x;
    }

    private interface Filler {
        float at(int i);
    }

    private static void fill(float[] x, int from, int n, Filler filler) {
        for (int i = 0; i < n; i++) {
            x[from + i] = filler.at(i);
        }
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Stream;
import millrace.engine.BackendException;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kernel.TileFormat;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Attention on the device against F64 with a derived bound, and against itself bit by bit: whatever a row is computed
/// beside, however a prompt is cut.
@Tag(DeviceContract.TAG)
final class CudaAttentionTest {
    private static final long SEED = 11;
    private static final float SCALE = 0.3f;

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

    /// Devices of compute capability 8.6, 8.9 and 12.x have 99 KB.
    @Test
    void latentsThatABlockHasNoRoomForShouldBeRefused() {
        Gpu device = Objects.requireNonNull(gpu);
        var attention = new CudaAttention(device);
        CacheShape latents = CacheFixture.latent(TileFormat.FP8, TileFormat.BF16, 512, 64);
        attention.require(latents, true);
        try (StandIn.Setting setting = StandIn.with("shared", 99 << 10);
                Gpu small = StandIn.open()) {
            var refusing = new CudaAttention(small);
            setting.during(() -> assertThatThrownBy(() -> refusing.require(latents, false))
                    .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_SHARED_MEMORY"))
                    .hasMessage("backend \"cuda\": Millrace CUDA stand-in (CPU): expected 110208 bytes of shared memory in a block, "
                            + "which attention over latents of rank 512 takes, got 101376; take a device of compute capability "
                            + "8.0, 9.x or 10.x by engine.cuda.device, or set engine.backend to native"));
            refusing.require(CacheFixture.grouped(TileFormat.INT8, 256), false);
        }
    }

    static Stream<CacheShape> awkwardShapes() {
        return CacheFixture.awkwardShapes();
    }

    static Stream<CacheShape> usualShapes() {
        return CacheFixture.usualShapes();
    }

    /// A sequence whose positions are all stored, and a query for each of them.
    private static final class Sequence {
        final CacheFixture f;
        final int heads;
        final int length;
        final int[] numbers;
        final float[] q;
        final float[] ropeQ;
        final int qWidth;
        final int ropeWidth;

        Sequence(CacheFixture f, int heads, int length) {
            this(f, heads, length, true);
        }

        /// @param stored whether keys and values are stored; else pages are taken as they are
        Sequence(CacheFixture f, int heads, int length, boolean stored) {
            this.f = f;
            this.heads = heads;
            this.length = length;
            numbers = f.sequence(length);
            qWidth = heads * f.keyWidth();
            // Heads of a query have other dimensions before those that are rotated.
            ropeWidth = f.shape instanceof CacheShape.Latent l ? heads * (l.ropeDim() + 3) : 1;
            q = f.gaussians(length * qWidth, 1);
            ropeQ = f.gaussians(length * ropeWidth, 1);
            if (stored) {
                store();
            }
        }

        /// By the CPU, whose bytes the device's are.
        private void store() {
            var batch = new CacheBatch(1);
            batch.add(f.onHost(numbers), numbers.length, 0, length, 0);
            int first = f.kvHeads * f.keyWidth();
            int second = f.kvHeads * f.otherWidth();
            try (Backend backend = Backend.open("scalar", 1)) {
                f.storeOnHost(
                        backend.kernels(),
                        batch,
                        new Rows(f.gaussians(length * first, 1), 0, first, first),
                        new Rows(f.gaussians(length * second, 1), 0, second, second));
            }
            f.upload();
        }

        CacheReference reference(int kvHead) {
            long[] blocks = f.onHost(numbers);
            for (int i = 0; i < blocks.length; i++) {
                blocks[i] += CacheFixture.LAYER_OFFSET + kvHead * f.shape.blockBytes();
            }
            return new CacheReference(f.shape, blocks, length);
        }

        /// The query that meets keys as the cache has them: for latents both parts, one after another.
        float[] query(int position, int head) {
            int dim = f.keyWidth();
            int at = position * qWidth + head * dim;
            if (!(f.shape instanceof CacheShape.Latent l)) {
                return Arrays.copyOfRange(q, at, at + dim);
            }
            float[] both = Arrays.copyOf(Arrays.copyOfRange(q, at, at + dim), dim + l.ropeDim());
            int headDim = ropeWidth / heads;
            System.arraycopy(ropeQ, position * ropeWidth + (head + 1) * headDim - l.ropeDim(), both, dim, l.ropeDim());
            return both;
        }
    }

    /// A part of a step: consecutive positions of a sequence.
    private record Part(Sequence sequence, int start, int rows) {}

    private static float[] attend(CudaAttention attention, int ceiling, Part... parts) {
        Sequence any = parts[0].sequence();
        CacheFixture f = any.f;
        int rows = Arrays.stream(parts).mapToInt(Part::rows).sum();
        int pages = Arrays.stream(parts).mapToInt(p -> p.sequence().numbers.length).max().orElseThrow();
        CudaInputs device = f.inputs(ceiling, pages);
        StepInputs inputs = device.inputs();
        float[] q = new float[ceiling * any.qWidth];
        float[] ropeQ = new float[ceiling * any.ropeWidth];
        Arrays.fill(q, Float.NaN);
        int row = 0;
        for (Part part : parts) {
            Sequence s = part.sequence();
            CacheFixture.add(inputs, f.onDevice(s.numbers), part.start(), part.rows());
            System.arraycopy(s.q, part.start() * s.qWidth, q, row * s.qWidth, part.rows() * s.qWidth);
            System.arraycopy(s.ropeQ, part.start() * s.ropeWidth, ropeQ, row * s.ropeWidth, part.rows() * s.ropeWidth);
            row += part.rows();
        }
        device.send();
        float[] poison = new float[ceiling * any.qWidth];
        Arrays.fill(poison, 77);
        Rows out = f.rows(poison, ceiling, any.qWidth);
        Rows deviceQ = f.rows(q, ceiling, any.qWidth);
        Rows deviceRope = f.rows(ropeQ, ceiling, any.ropeWidth);
        run(attention, f, device.of(inputs.batch()), ceiling, any.heads, deviceQ, deviceRope, out);
        float[] result = f.fetch(out);
        for (int i = rows * any.qWidth; i < result.length; i++) {
            assertThat(result[i]).as("a row that is not there").isEqualTo(77);
        }
        return Arrays.copyOf(result, rows * any.qWidth);
    }

    private static void run(
            CudaAttention attention, CacheFixture f, CudaCacheBatch batch, int rows, int heads, Rows q, Rows rope, Rows out) {
        long at = CacheFixture.LAYER_OFFSET;
        switch (f.shape) {
            case CacheShape.Grouped g -> attention.attend(g, batch, rows, at, heads, f.kvHeads, SCALE, q, out);
            case CacheShape.Latent l -> attention.attend(l, batch, rows, at, heads, SCALE, q, rope, out);
        }
    }

    private static CacheFixture fixture(CacheShape shape, int kvHeads, int pages) {
        CacheFixture f = new CacheFixture(Objects.requireNonNull(gpu), shape, kvHeads, pages, SEED);
        f.scribble();
        return f;
    }

    private static int kvHeads(CacheShape shape) {
        return shape instanceof CacheShape.Grouped ? 2 : 1;
    }

    private static int heads(CacheShape shape) {
        return shape instanceof CacheShape.Grouped ? 6 : 3;
    }

    private static void assertWithinBounds(Sequence s, int[] positions, float[] results) {
        int group = s.heads / s.f.kvHeads;
        int dim = s.f.keyWidth();
        for (int kv = 0; kv < s.f.kvHeads; kv++) {
            CacheReference reference = s.reference(kv);
            for (int i = 0; i < positions.length; i++) {
                for (int head = kv * group; head < (kv + 1) * group; head++) {
                    double[][] expected = reference.attend(s.query(positions[i], head), positions[i] + 1, SCALE);
                    double errors = 0;
                    double squares = 0;
                    for (int d = 0; d < dim; d++) {
                        double result = results[i * s.qWidth + head * dim + d];
                        assertThat(result)
                                .as("position %d, head %d, dimension %d", positions[i], head, d)
                                .isCloseTo(expected[0][d], within(expected[1][d]));
                        errors += (result - expected[0][d]) * (result - expected[0][d]);
                        squares += expected[0][d] * expected[0][d];
                    }
                    // Bounds are worst cases; a part that is missing would hide in them.
                    assertThat(Math.sqrt(errors / squares))
                            .as("position %d, head %d", positions[i], head)
                            .isLessThan(8e-6);
                }
            }
        }
    }

    /// Single rows at the edges of pages and splits, on pages in any order, in one step of several sequences' lengths.
    @ParameterizedTest
    @MethodSource("awkwardShapes")
    void resultsShouldBeWithinTheirBounds(CacheShape shape) {
        try (CacheFixture f = fixture(shape, kvHeads(shape), 44)) {
            Sequence s = new Sequence(f, heads(shape), 700);
            int[] positions = {0, 14, 15, 16, 254, 255, 256, 699};
            Part[] parts = Arrays.stream(positions).mapToObj(p -> new Part(s, p, 1)).toArray(Part[]::new);
            CudaAttention attention = new CudaAttention(f.gpu);
            assertWithinBounds(s, positions, attend(attention, 8, parts));
            // As devices do it inside an mma.
            try (StandIn.Setting setting = StandIn.with("truncate", 1)) {
                setting.during(() -> assertWithinBounds(s, positions, attend(attention, 8, parts)));
            }
        }
    }

    static Stream<CacheShape> someShapes() {
        return CacheFixture.awkwardShapes().skip(3);
    }

    /// Lanes, warps and blocks go on in any order, with and without partial sums.
    @ParameterizedTest
    @MethodSource("someShapes")
    void bitsShouldNotDependOnTheSchedule(CacheShape shape) {
        try (CacheFixture f = fixture(shape, kvHeads(shape), 20)) {
            Sequence s = new Sequence(f, heads(shape), 300);
            CudaAttention[] attentions = {new CudaAttention(f.gpu), new CudaAttention(f.gpu, 0)};
            Part[] parts = {new Part(s, 270, 5), new Part(s, 299, 1)};
            float[] first = attend(attentions[0], 6, parts);
            for (CudaAttention attention : attentions) {
                StandIn.inEverySchedule(() -> assertThat(attend(attention, 6, parts)).isEqualTo(first));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("usualShapes")
    void resultsOfPublishedSizesShouldBeWithinTheirBounds(CacheShape shape) {
        try (CacheFixture f = fixture(shape, 1, 18)) {
            Sequence s = new Sequence(f, shape instanceof CacheShape.Grouped ? 8 : 16, 280);
            int[] positions = {40, 279};
            float[] results = attend(new CudaAttention(f.gpu), 2, new Part(s, 40, 1), new Part(s, 279, 1));
            assertWithinBounds(s, positions, results);
        }
    }

    /// The whole prompt in one step, in chunks, row by row, beside other sequences: the same bits.
    @ParameterizedTest
    @MethodSource("awkwardShapes")
    void bitsShouldNotDependOnChunksOrOnTheBatch(CacheShape shape) {
        try (CacheFixture f = fixture(shape, kvHeads(shape), 40)) {
            Sequence s = new Sequence(f, heads(shape), 300);
            Sequence other = new Sequence(f, heads(shape), 290);
            CudaAttention attention = new CudaAttention(f.gpu);
            float[] whole = attend(attention, 300, new Part(s, 0, 300));
            int width = s.qWidth;
            for (int[] chunk : new int[][] {{0, 1}, {1, 15}, {250, 13}, {263, 37}}) {
                float[] part = attend(attention, chunk[1], new Part(s, chunk[0], chunk[1]));
                assertThat(part).as("rows %d to %d", chunk[0], chunk[0] + chunk[1])
                        .isEqualTo(Arrays.copyOfRange(whole, chunk[0] * width, (chunk[0] + chunk[1]) * width));
            }
            Part[] parts = new Part[37];
            for (int i = 0; i < parts.length; i++) {
                parts[i] = i % 9 == 0 ? new Part(s, 299 - i, 1) : new Part(other, 289 - 8 * i, 1);
            }
            float[] batch = attend(attention, 64, parts);
            for (int i = 0; i < parts.length; i += 9) {
                assertThat(Arrays.copyOfRange(batch, i * width, (i + 1) * width)).as("row %d of 37", i)
                        .isEqualTo(Arrays.copyOfRange(whole, (299 - i) * width, (300 - i) * width));
            }
            // Without room for partial sums a block has all splits of a row.
            float[] alone = attend(new CudaAttention(f.gpu, 0), 1, new Part(s, 297, 1));
            assertThat(alone).isEqualTo(Arrays.copyOfRange(whole, 297 * width, 298 * width));
        }
    }

    /// 131 splits: factors are found by 128, sums joined one after another.
    @Test
    void manySplitsShouldBeJoinedLikeThoseOfOneBlock() {
        var shape = new CacheShape.Grouped(TileFormat.INT8, 16);
        int length = 256 * 130 + 5;
        try (CacheFixture f = fixture(shape, 1, length / 16 + 1)) {
            // Random codes, scales small enough for every split to count.
            for (int page = 0; page < f.pages; page++) {
                long block = page * f.pageBytes + CacheFixture.LAYER_OFFSET;
                for (long at = shape.keyScaleOffset(); at < shape.blockBytes(); at += 2) {
                    f.host.set(ValueLayout.JAVA_SHORT, block + at, Float.floatToFloat16(f.random.nextInt(1, 9) / 1024f));
                }
            }
            f.upload();
            Sequence s = new Sequence(f, 2, length, false);
            Part last = new Part(s, length - 1, 1);
            float[] joined = attend(new CudaAttention(f.gpu), 1, last);
            assertThat(joined).isEqualTo(attend(new CudaAttention(f.gpu, 0), 1, last));
            assertWithinBounds(s, new int[] {length - 1}, joined);
        }
    }

    /// What other sequences left behind in the last page must not be met, not even as a factor of 0.
    @ParameterizedTest
    @MethodSource("awkwardShapes")
    void numbersBehindTheLastTokenShouldNotMatter(CacheShape shape) {
        try (CacheFixture f = fixture(shape, kvHeads(shape), 2)) {
            f.host.fill((byte) 0xFF);
            f.upload();
            Sequence s = new Sequence(f, heads(shape), 21);
            float[] results = attend(new CudaAttention(f.gpu), 1, new Part(s, 20, 1));
            assertWithinBounds(s, new int[] {20}, results);
        }
    }

    @Test
    void operandsOfTheHostShouldBeRefused() {
        var shape = CacheFixture.grouped(TileFormat.BF16, 16);
        try (CacheFixture f = fixture(shape, 1, 1)) {
            CudaInputs device = f.inputs(1, 1);
            CudaCacheBatch batch = device.of(device.inputs().batch());
            Rows q = f.rows(new float[32], 1, 32);
            CudaAttention attention = new CudaAttention(f.gpu);
            assertThatThrownBy(() -> attention.attend(shape, batch, 1, 0, 2, 1, SCALE, Rows.allocate(1, 32), q))
                    .hasMessage("cuda: expected 1 rows of 32 on the device, got 1 of 32 at 0");
            assertThatThrownBy(() -> attention.attend(shape, batch, 2, 0, 2, 1, SCALE, q, q))
                    .hasMessageStartingWith("cuda: expected 2 rows of 32 on the device, got 1 of 32 at ");
            assertThatThrownBy(() -> attention.attend(shape, batch, 1, 0, 2, 3, SCALE, q, q))
                    .hasMessage("cuda: expected heads in groups of equal size, got 2 heads for 3 KV heads");
        }
    }

    /// A recorded step serves the lengths and rows that are there when it is repeated.
    @Test
    void recordedLaunchesShouldServeOtherLengths() {
        var shape = new CacheShape.Grouped(TileFormat.INT8, 32);
        try (CacheFixture f = fixture(shape, 1, 40)) {
            Sequence a = new Sequence(f, 4, 300);
            Sequence b = new Sequence(f, 4, 290);
            CudaAttention attention = new CudaAttention(f.gpu);
            CudaInputs device = f.inputs(4, 20);
            CudaCacheBatch batch = device.of(device.inputs().batch());
            Rows q = f.rows(new float[4 * a.qWidth], 4, a.qWidth);
            Rows out = f.rows(new float[4 * a.qWidth], 4, a.qWidth);
            Graph graph = f.gpu.capture("a test", () -> run(attention, f, batch, 4, 4, q, q, out));
            for (Part[] parts : new Part[][] {
                {new Part(a, 3, 1)}, {new Part(a, 299, 1), new Part(b, 20, 1), new Part(b, 289, 1)}, {new Part(b, 256, 1)}
            }) {
                device.inputs().clear();
                for (int i = 0; i < parts.length; i++) {
                    Sequence s = parts[i].sequence();
                    CacheFixture.add(device.inputs(), f.onDevice(s.numbers), parts[i].start(), 1);
                    System.arraycopy(s.q, parts[i].start() * s.qWidth, q.values(), i * s.qWidth, s.qWidth);
                }
                f.send(q);
                device.send();
                f.gpu.launch(graph);
                assertThat(Arrays.copyOf(f.fetch(out), parts.length * a.qWidth)).isEqualTo(attend(attention, 4, parts));
            }
        }
    }
}

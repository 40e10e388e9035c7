package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kernel.TileFormat;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.jspecify.annotations.Nullable;

/// Attention over chosen positions has, bit for bit, the results of attention over a sequence of these positions alone, which
/// another test holds to bounds.
@Tag(DeviceContract.TAG)
final class CudaChosenAttentionTest {
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

    static Stream<CacheShape> shapes() {
        return Stream.concat(CacheFixture.awkwardShapes(), Stream.of(
                        CacheFixture.latent(TileFormat.BF16, TileFormat.BF16, 512, 64),
                        CacheFixture.latent(TileFormat.INT8, TileFormat.BF16, 512, 64)))
                .filter(CacheShape.Latent.class::isInstance);
    }

    static Stream<CacheShape> someShapes() {
        return shapes().limit(5).skip(1);
    }

    /// Stored positions, whose query is the same at all of them but for the last two numbers.
    private static final class Sequence {
        final CacheFixture f;
        final CacheShape.Latent shape;
        final int[] numbers;
        final float[] latents;
        final float[] ropes;

        Sequence(CacheFixture f, int length, float[] latents, float[] ropes) {
            this.f = f;
            this.latents = latents;
            this.ropes = ropes;
            shape = (CacheShape.Latent) f.shape;
            numbers = f.sequence(length);
            CudaInputs device = f.inputs(length, numbers.length);
            CacheFixture.add(device.inputs(), f.onDevice(numbers), 0, length);
            device.send();
            Rows first = f.rows(latents, length, shape.rank());
            Rows second = f.rows(ropes, length, shape.ropeDim());
            f.store(new CudaStore(f.gpu), device.of(device.inputs().batch()), length, first, second);
        }

        static Sequence random(CacheFixture f, int length) {
            CacheShape.Latent shape = (CacheShape.Latent) f.shape;
            return new Sequence(f, length, f.gaussians(length * shape.rank(), 1), f.gaussians(length * shape.ropeDim(), 1));
        }

        /// One of these positions alone.
        Sequence of(int... positions) {
            float[] c = new float[positions.length * shape.rank()];
            float[] k = new float[positions.length * shape.ropeDim()];
            for (int i = 0; i < positions.length; i++) {
                System.arraycopy(latents, positions[i] * shape.rank(), c, i * shape.rank(), shape.rank());
                System.arraycopy(ropes, positions[i] * shape.ropeDim(), k, i * shape.ropeDim(), shape.ropeDim());
            }
            return new Sequence(f, positions.length, c, k);
        }
    }

    /// A row: the last position that it sees, and those that it attends to, or null for all.
    private record Row(Sequence sequence, int position, int @Nullable [] chosen) {
        static Row all(Sequence s, int position) {
            return new Row(s, position, null);
        }
    }

    private static final class Step {
        final CacheFixture f;
        final CacheShape.Latent shape;
        final int heads;
        final int rows;
        final int headDim;
        final CudaInputs device;
        final Selection selection;
        final Rows latentQ;
        final Rows q;
        final Rows out;

        /// @param rows that launches have blocks for
        Step(CacheFixture f, int heads, int rows, int most) {
            this.f = f;
            this.heads = heads;
            this.rows = rows;
            shape = (CacheShape.Latent) f.shape;
            headDim = shape.ropeDim() + 3;
            device = f.inputs(rows, 64);
            selection = Selection.device(rows, most, f.gpu.allocate(Selection.bytes(rows, most), "a test"));
            latentQ = f.rows(new float[rows * heads * shape.rank()], rows, heads * shape.rank());
            q = f.rows(new float[rows * heads * headDim], rows, heads * headDim);
            out = f.rows(new float[rows * heads * shape.rank()], rows, heads * shape.rank());
        }

        /// Every row has the queries of its place in the step, whatever it sees.
        void send(Row... parts) {
            StepInputs inputs = device.inputs();
            inputs.clear();
            int[] counts = new int[rows];
            int[] positions = new int[rows * selection.most()];
            Arrays.fill(positions, Integer.MAX_VALUE);
            for (int row = 0; row < parts.length; row++) {
                Row part = parts[row];
                CacheFixture.add(inputs, f.onDevice(part.sequence().numbers), part.position(), 1);
                counts[row] = part.chosen() == null ? Selection.ALL : part.chosen().length;
                if (part.chosen() != null) {
                    System.arraycopy(part.chosen(), 0, positions, row * selection.most(), part.chosen().length);
                }
            }
            fill(latentQ);
            fill(q);
            Arrays.fill(out.values(), 77);
            f.send(latentQ);
            f.send(q);
            f.send(out);
            device.send();
            try (Arena arena = Arena.ofConfined()) {
                f.gpu.upload(selection.countsAddress(), arena.allocateFrom(ValueLayout.JAVA_INT, counts));
                f.gpu.upload(selection.positionsAddress(), arena.allocateFrom(ValueLayout.JAVA_INT, positions));
            }
        }

        private static void fill(Rows rows) {
            for (int i = 0; i < rows.values().length; i++) {
                rows.values()[i] = (float) Math.sin(i * 12.9898) * 2;
            }
        }

        void attend(CudaAttention attention) {
            CudaCacheBatch batch = device.of(device.inputs().batch());
            attention.attend(shape, batch, rows, CacheFixture.LAYER_OFFSET, heads, SCALE, latentQ, q, selection, out);
        }

        void attendToAll(CudaAttention attention) {
            CudaCacheBatch batch = device.of(device.inputs().batch());
            attention.attend(shape, batch, rows, CacheFixture.LAYER_OFFSET, heads, SCALE, latentQ, q, out);
        }

        float[] results() {
            float[] results = f.fetch(out);
            int there = device.inputs().rows() * out.width();
            for (int i = there; i < results.length; i++) {
                assertThat(results[i]).as("a row that is not there").isEqualTo(77);
            }
            return Arrays.copyOf(results, there);
        }
    }

    private static CacheFixture fixture(CacheShape shape, int pages) {
        CacheFixture f = new CacheFixture(Objects.requireNonNull(gpu), shape, 1, pages, 7);
        f.scribble();
        return f;
    }

    /// Every n-th position, or so.
    private static int[] some(CacheFixture f, int length, int count) {
        return IntStream.generate(() -> f.random.nextInt(length)).distinct().limit(count).sorted().toArray();
    }

    private static float[] dense(CudaAttention attention, int heads, Row... rows) {
        CacheFixture f = rows[0].sequence().f;
        Step step = new Step(f, heads, rows.length, 1);
        step.send(rows);
        step.attendToAll(attention);
        return step.results();
    }

    private static float[] sparse(CudaAttention attention, int heads, int most, Row... rows) {
        // One row that is not there.
        Step step = new Step(rows[0].sequence().f, heads, rows.length + 1, most);
        step.send(rows);
        step.attend(attention);
        return step.results();
    }

    /// Lists that end in, at and behind a page and a split, one position, and rows that see all beside them; tokens in any slots
    /// of pages in any order; heads that fill no tile.
    @ParameterizedTest
    @MethodSource("shapes")
    void resultsShouldBeThoseOfASequenceOfTheChosen(CacheShape shape) {
        try (CacheFixture f = fixture(shape, 170)) {
            Sequence s = Sequence.random(f, 700);
            int[][] lists = {{699}, some(f, 700, 15), some(f, 650, 256), some(f, 700, 300)};
            int heads = 19;
            Row[] rows = new Row[lists.length + 2];
            Row[] alone = new Row[rows.length];
            for (int i = 0; i < lists.length; i++) {
                rows[i] = new Row(s, 699, lists[i]);
                alone[i] = Row.all(s.of(lists[i]), lists[i].length - 1);
            }
            rows[4] = Row.all(s, 40);
            rows[5] = Row.all(s, 299);
            alone[4] = rows[4];
            alone[5] = rows[5];
            CudaAttention attention = new CudaAttention(f.gpu);
            float[] expected = dense(attention, heads, alone);
            assertThat(sparse(attention, heads, 300, rows)).isEqualTo(expected);
            // Without room for partial sums a block has all splits of a row.
            assertThat(sparse(new CudaAttention(f.gpu, 0), heads, 300, rows)).isEqualTo(expected);
        }
    }

    /// A list of every position, longer than a split.
    @ParameterizedTest
    @MethodSource("shapes")
    void aListOfAllPositionsShouldGiveTheBitsOfAttentionToAll(CacheShape shape) {
        try (CacheFixture f = fixture(shape, 40)) {
            Sequence s = Sequence.random(f, 600);
            CudaAttention attention = new CudaAttention(f.gpu);
            int[] all = IntStream.range(0, 587).toArray();
            float[] results = sparse(attention, 3, 600, new Row(s, 586, all), Row.all(s, 586));
            assertThat(results).isEqualTo(dense(attention, 3, Row.all(s, 586), Row.all(s, 586)));
        }
    }

    /// A row that sees more than lists have room for is served, too, by blocks that have all of its splits.
    @Test
    void rowsThatSeeMoreThanAListShouldBeServed() {
        try (CacheFixture f = fixture(CacheFixture.latent(TileFormat.BF16, TileFormat.BF16, 44, 6), 50)) {
            Sequence s = Sequence.random(f, 700);
            CudaAttention attention = new CudaAttention(f.gpu);
            float[] results = sparse(attention, 3, 300, Row.all(s, 699), new Row(s, 699, new int[] {3}));
            float[] expected = dense(attention, 3, Row.all(s, 699));
            assertThat(Arrays.copyOf(results, expected.length)).isEqualTo(expected);
        }
    }

    /// Lanes, warps and blocks go on in any order, with and without partial sums.
    @ParameterizedTest
    @MethodSource("someShapes")
    void bitsShouldNotDependOnTheSchedule(CacheShape shape) {
        try (CacheFixture f = fixture(shape, 30)) {
            Sequence s = Sequence.random(f, 400);
            Row[] rows = {new Row(s, 399, some(f, 399, 270)), Row.all(s, 20)};
            CudaAttention[] attentions = {new CudaAttention(f.gpu), new CudaAttention(f.gpu, 0)};
            float[] first = sparse(attentions[0], 3, 280, rows);
            for (CudaAttention attention : attentions) {
                StandIn.inEverySchedule(() -> assertThat(sparse(attention, 3, 280, rows)).isEqualTo(first));
            }
        }
    }

    /// A recorded step serves rows that choose, rows that see all, and how many of them there are.
    @Test
    void recordedLaunchesShouldServeOtherLists() {
        CacheShape shape = CacheFixture.latent(TileFormat.FP8, TileFormat.BF16, 140, 6);
        try (CacheFixture f = fixture(shape, 50)) {
            Sequence s = Sequence.random(f, 700);
            CudaAttention attention = new CudaAttention(f.gpu);
            Step step = new Step(f, 5, 4, 300);
            Graph graph = f.gpu.capture("a test", () -> step.attend(attention));
            for (Row[] rows : new Row[][] {
                {Row.all(s, 4)},
                {new Row(s, 699, some(f, 700, 300)), Row.all(s, 299), new Row(s, 500, some(f, 500, 7)), Row.all(s, 0)},
                {new Row(s, 699, some(f, 700, 257)), Row.all(s, 17)}
            }) {
                step.send(rows);
                f.gpu.launch(graph);
                assertThat(step.results()).isEqualTo(sparse(attention, 5, 300, rows));
            }
        }
    }

    @Test
    void operandsOfTheHostShouldBeRefused() {
        CacheShape.Latent shape = CacheFixture.latent(TileFormat.BF16, TileFormat.BF16, 44, 6);
        try (CacheFixture f = fixture(shape, 1)) {
            Step step = new Step(f, 2, 1, 3);
            CudaCacheBatch batch = step.device.of(step.device.inputs().batch());
            assertThatThrownBy(() -> new CudaAttention(f.gpu)
                            .attend(shape, batch, 1, 0, 2, SCALE, step.latentQ, step.q, Selection.onHeap(1, 3), step.out))
                    .hasMessage("cuda: expected a selection of 1 rows on the device, got one of 1 at 0");
        }
    }
}

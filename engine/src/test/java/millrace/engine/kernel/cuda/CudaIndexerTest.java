package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
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
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.jspecify.annotations.Nullable;

/// The indexer on the device: its bytes against the CPU's, and its choice against a sort of the same scores.
///
/// Most numbers here are small integers, so that scores are exact in every order of summation and every choice is the only
/// right one, of equal scores too. What rounding may change is held to bounds.
@Tag(DeviceContract.TAG)
final class CudaIndexerTest {
    private static final int LAYER_OFFSET = CacheFixture.LAYER_OFFSET;

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

    /// Pages with room for a block of index keys.
    private static CacheFixture fixture(CacheShape.Keys shape, int pages) {
        // Keys and values take more than keys.
        CacheFixture f = new CacheFixture(
                Objects.requireNonNull(gpu), new CacheShape.Grouped(shape.format(), shape.dim()), 1, pages, 5);
        f.scribble();
        return f;
    }

    private static Rows onHost(float[] values, int width) {
        return new Rows(values, 0, width, width);
    }

    // ------------------------------------------------------------------------------------------------------------ bytes

    /// Parts of two sequences in one step, keys of every magnitude, with what was there before.
    @ParameterizedTest
    @CsvSource({"F32, 37", "BF16, 37", "BF16, 128", "INT8, 37", "INT8, 66", "INT8, 128"})
    void storedBytesShouldBeThoseOfTheCpu(TileFormat format, int dim) {
        var shape = new CacheShape.Keys(format, dim);
        try (CacheFixture f = fixture(shape, 4);
                Backend backend = Backend.open("scalar", 1)) {
            int[][] sequences = {f.sequence(37), f.sequence(5)};
            float[] keys = f.gaussians(26 * dim, 1);
            for (int row = 0; row < 26; row++) {
                int at = row * dim + f.random.nextInt(dim);
                switch (row % 9) {
                    case 1 -> Arrays.fill(keys, row * dim, (row + 1) * dim, -0f);
                    case 2 -> keys[at] = 1e30f;
                    case 4 -> keys[at] = Float.NaN;
                    case 5 -> keys[at] = Float.NEGATIVE_INFINITY;
                    case 7 -> IntStream.range(row * dim, (row + 1) * dim).forEach(i -> keys[i] *= 0x1p-130f);
                    default -> {
                        // Usual numbers.
                    }
                }
            }
            CudaInputs device = f.inputs(26, 3);
            CacheFixture.add(device.inputs(), f.onDevice(sequences[0]), 14, 22);
            CacheFixture.add(device.inputs(), f.onDevice(sequences[1]), 1, 4);
            var batch = new CacheBatch(2);
            batch.add(f.onHost(sequences[0]), 3, 0, 22, 14);
            batch.add(f.onHost(sequences[1]), 1, 22, 4, 1);
            backend.kernels().store(shape, batch, LAYER_OFFSET, onHost(keys, dim));
            device.send();
            StandIn.inEverySchedule(() -> {
                var indexer = new CudaIndexer(f.gpu);
                // Blocks for more rows than there are write nothing.
                Rows rows = f.rows(Arrays.copyOf(keys, 31 * dim), 31, dim);
                indexer.store(shape, device.of(device.inputs().batch()), 31, LAYER_OFFSET, rows);
                assertThat(f.download().mismatch(f.host)).as("first byte that differs").isEqualTo(-1);
            });
        }
    }

    // ----------------------------------------------------------------------------------------------------------- choice

    /// A sequence of keys, and for each position a query of several heads, with a weight for each.
    private static final class Index {
        final CacheFixture f;
        final CacheShape.Keys shape;
        final int heads;
        final int length;
        final int[] numbers;
        final float[] keys;
        final float[] q;
        final float[] weights;

        /// Small integers.
        Index(CacheFixture f, CacheShape.Keys shape, int heads, int length) {
            this(f, shape, heads, length, integers(f, length * shape.dim(), 3));
        }

        Index(CacheFixture f, CacheShape.Keys shape, int heads, int length, float[] keys) {
            this.f = f;
            this.shape = shape;
            this.heads = heads;
            this.length = length;
            this.keys = keys;
            numbers = f.sequence(length);
            q = integers(f, length * heads * shape.dim(), 4);
            weights = integers(f, length * heads, 3);
            if (shape.format() == TileFormat.INT8) {
                // A scale of 1: codes are the numbers.
                for (int p = 0; p < length; p++) {
                    keys[p * shape.dim() + p % shape.dim()] = 127;
                }
            }
        }

        private static float[] integers(CacheFixture f, int n, int most) {
            float[] x = new float[n];
            for (int i = 0; i < n; i++) {
                x[i] = f.random.nextInt(2 * most + 1) - most;
            }
            return x;
        }

        /// By the device, whose bytes another test compares.
        void store(CudaIndexer indexer) {
            CudaInputs device = f.inputs(length, numbers.length);
            CacheFixture.add(device.inputs(), f.onDevice(numbers), 0, length);
            device.send();
            indexer.store(
                    shape, device.of(device.inputs().batch()), length, LAYER_OFFSET, f.rows(keys, length, shape.dim()));
        }

        double score(int position, int other, double scale) {
            int dim = shape.dim();
            double score = 0;
            for (int h = 0; h < heads; h++) {
                double dot = 0;
                for (int d = 0; d < dim; d++) {
                    dot += (double) q[(position * heads + h) * dim + d] * keys[other * dim + d];
                }
                score += weights[position * heads + h] * scale * Math.max(0, dot);
            }
            return score;
        }

        /// The positions that a row attends to, by a stable sort.
        int[] expected(int position, int most) {
            if (position < most) {
                return new int[] {Selection.ALL};
            }
            double[] scores = new double[position + 1];
            Arrays.setAll(scores, p -> score(position, p, 1));
            Comparator<Integer> best = Comparator.comparingDouble(p -> Double.isNaN(scores[p]) ? -Double.MAX_VALUE : -scores[p]);
            return IntStream.rangeClosed(0, position)
                    .boxed()
                    .sorted(best)
                    .limit(most)
                    .mapToInt(p -> p)
                    .sorted()
                    .toArray();
        }
    }

    /// Rows of a step: consecutive positions of a sequence.
    private record Part(Index index, int start, int rows) {}

    private static final class Step {
        final CacheFixture f;
        final CudaInputs device;
        final Rows q;
        final Rows weights;
        final int capacity;

        Step(Index any, int capacity) {
            f = any.f;
            this.capacity = capacity;
            device = f.inputs(capacity, f.pages);
            q = f.rows(new float[capacity * any.heads * any.shape.dim()], capacity, any.heads * any.shape.dim());
            weights = f.rows(new float[capacity * any.heads], capacity, any.heads);
        }

        CudaCacheBatch batch() {
            return device.of(device.inputs().batch());
        }

        void send(Part... parts) {
            StepInputs inputs = device.inputs();
            inputs.clear();
            Arrays.fill(q.values(), Float.NaN);
            int row = 0;
            for (Part part : parts) {
                Index s = part.index();
                CacheFixture.add(inputs, f.onDevice(s.numbers), part.start(), part.rows());
                System.arraycopy(s.q, part.start() * q.width(), q.values(), row * q.width(), part.rows() * q.width());
                System.arraycopy(s.weights, part.start() * s.heads, weights.values(), row * s.heads, part.rows() * s.heads);
                row += part.rows();
            }
            f.send(q);
            f.send(weights);
            device.send();
        }

        void select(CudaIndexer indexer, Index any, int positions, float scale, Selection into) {
            indexer.select(any.shape, batch(), capacity, positions, LAYER_OFFSET, any.heads, scale, q, weights, into);
        }
    }

    private static List<int[]> chosen(CacheFixture f, Selection selection, int rows) {
        int[] counts = ints(f, selection.countsAddress(), rows);
        int[] positions = ints(f, selection.positionsAddress(), rows * selection.most());
        List<int[]> chosen = new ArrayList<>();
        for (int row = 0; row < rows; row++) {
            int from = row * selection.most();
            chosen.add(counts[row] < 0
                    ? new int[] {counts[row]}
                    : Arrays.copyOfRange(positions, from, from + counts[row]));
        }
        return chosen;
    }

    private static int[] ints(CacheFixture f, long address, int count) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(4L * count, 8);
            f.gpu.download(copy, address);
            return copy.toArray(ValueLayout.JAVA_INT);
        }
    }

    private static List<int[]> select(CudaIndexer indexer, int most, float scale, Part... parts) {
        int rows = Arrays.stream(parts).mapToInt(Part::rows).sum();
        // Two rows that are not there.
        Step step = new Step(parts[0].index(), rows + 2);
        step.send(parts);
        Selection selection = indexer.selection(rows + 2, most);
        step.select(indexer, parts[0].index(), step.batch().longest(), scale, selection);
        return chosen(step.f, selection, rows);
    }

    private static void assertChosen(List<int[]> chosen, int most, Part... parts) {
        int row = 0;
        for (Part part : parts) {
            for (int i = 0; i < part.rows(); i++) {
                int position = part.start() + i;
                assertThat(chosen.get(row++))
                        .as("position %d, the best %d", position, most)
                        .isEqualTo(part.index().expected(position, most));
            }
        }
    }

    /// Many equal scores; single rows at edges of pages, of blocks and of what all see; heads that fill no tile. One window, and
    /// windows of 256 positions with fewer or more of them than are chosen.
    @ParameterizedTest
    @CsvSource({"F32, 5, 3", "BF16, 37, 17", "BF16, 128, 32", "INT8, 37, 3", "INT8, 66, 33"})
    void theBestShouldBeChosenAndOfEqualsTheLowest(TileFormat format, int dim, int heads) {
        var shape = new CacheShape.Keys(format, dim);
        try (CacheFixture f = fixture(shape, 60)) {
            Index s = new Index(f, shape, heads, 700);
            Index other = new Index(f, shape, heads, 200);
            CudaIndexer[] indexers = {new CudaIndexer(f.gpu), new CudaIndexer(f.gpu, 0)};
            s.store(indexers[0]);
            other.store(indexers[0]);
            for (int most : new int[] {1, 7, 64, 300}) {
                Part[] parts = {
                    new Part(s, 0, 1),
                    new Part(s, 62, 4),
                    new Part(other, 199, 1),
                    new Part(s, 299, 3),
                    new Part(s, 511, 2),
                    new Part(s, 699, 1)
                };
                for (CudaIndexer indexer : indexers) {
                    assertChosen(select(indexer, most, 1, parts), most, parts);
                }
            }
        }
    }

    /// Lanes, warps and blocks go on in any order.
    @ParameterizedTest
    @EnumSource(names = {"F32", "BF16", "INT8"})
    void choicesShouldNotDependOnTheSchedule(TileFormat format) {
        var shape = new CacheShape.Keys(format, 37);
        try (CacheFixture f = fixture(shape, 40)) {
            Index s = new Index(f, shape, 18, 600);
            CudaIndexer[] indexers = {new CudaIndexer(f.gpu), new CudaIndexer(f.gpu, 0)};
            s.store(indexers[0]);
            Part[] parts = {new Part(s, 90, 1), new Part(s, 597, 3)};
            for (CudaIndexer indexer : indexers) {
                StandIn.inEverySchedule(() -> assertChosen(select(indexer, 100, 1, parts), 100, parts));
            }
        }
    }

    /// Keys that nobody likes score 0, above those with a negative weight; what is not finite is NaN here, and the largest.
    @Test
    void scoresThatAreNoNumbersShouldNotBeHidden() {
        var shape = new CacheShape.Keys(TileFormat.F32, 8);
        try (CacheFixture f = fixture(shape, 25)) {
            Index s = new Index(f, shape, 2, 400, new float[400 * 8]);
            Arrays.fill(s.q, 1);
            Arrays.fill(s.weights, -1);
            for (int p = 0; p < 400; p += 3) {
                s.keys[8 * p] = 1 + p % 5;
            }
            s.keys[8 * 300] = Float.NaN;
            s.keys[8 * 390] = Float.NaN;
            s.keys[8 * 350] = Float.POSITIVE_INFINITY;
            CudaIndexer indexer = new CudaIndexer(f.gpu, 0);
            s.store(indexer);
            int[] none = IntStream.range(0, 400).filter(p -> p % 3 != 0).limit(97).toArray();
            int[] expected = IntStream.concat(Arrays.stream(none), IntStream.of(300, 350, 390)).toArray();
            assertThat(select(indexer, 100, 1, new Part(s, 399, 1)).getFirst()).isEqualTo(expected);
            Arrays.fill(s.weights, 1);
            s.keys[8 * 300] = 2;
            s.store(indexer);
            assertThat(select(indexer, 2, 1, new Part(s, 399, 1)).getFirst()).containsExactly(350, 390);
        }
    }

    /// Numbers of every kind: INT8 has the CPU's integers and so its choice; elsewhere nothing is chosen that is worse than what
    /// is not by more than rounding allows.
    @ParameterizedTest
    @EnumSource(names = {"F32", "BF16", "INT8"})
    void choicesOfRandomNumbersShouldBeWithinRounding(TileFormat format) {
        var shape = new CacheShape.Keys(format, 128);
        int most = 100;
        try (CacheFixture f = fixture(shape, 40);
                Backend backend = Backend.open("scalar", 1)) {
            Index s = new Index(f, shape, 32, 600, f.gaussians(600 * 128, 1));
            float scale = (float) (1 / Math.sqrt(32 * 128));
            System.arraycopy(f.gaussians(s.q.length, 2), 0, s.q, 0, s.q.length);
            System.arraycopy(f.gaussians(s.weights.length, 1), 0, s.weights, 0, s.weights.length);
            for (int i = 0; i < s.keys.length && format == TileFormat.BF16; i++) {
                s.keys[i] = Float.intBitsToFloat(Float.floatToRawIntBits(s.keys[i]) & 0xFFFF0000);
            }
            CudaIndexer indexer = new CudaIndexer(f.gpu);
            s.store(indexer);
            Part[] parts = {new Part(s, 598, 2)};
            List<int[]> chosen = select(indexer, most, scale, parts);
            MemorySegment.copy(f.download(), 0, f.host, 0, f.host.byteSize());
            var batch = new CacheBatch(1);
            batch.add(f.onHost(s.numbers), s.numbers.length, 0, 2, 598);
            Selection onHost = backend.kernels().selection(2, most);
            Rows q = onHost(Arrays.copyOfRange(s.q, 598 * 4096, 600 * 4096), 4096);
            Rows weights = onHost(Arrays.copyOfRange(s.weights, 598 * 32, 600 * 32), 32);
            backend.kernels().select(shape, batch, LAYER_OFFSET, 32, scale, q, weights, onHost);
            for (int row = 0; row < 2; row++) {
                int[] ofTheCpu = Arrays.copyOfRange(onHost.positions(), row * most, row * most + onHost.counts()[row]);
                if (format == TileFormat.INT8) {
                    assertThat(chosen.get(row)).isEqualTo(ofTheCpu);
                } else {
                    assertWithinRounding(s, 598 + row, scale, chosen.get(row));
                }
            }
        }
    }

    private static void assertWithinRounding(Index s, int position, float scale, int[] chosen) {
        assertThat(chosen).hasSize(100).isSorted().doesNotHaveDuplicates();
        double worst = Double.POSITIVE_INFINITY;
        double best = Double.NEGATIVE_INFINITY;
        double bound = 0;
        for (int p = 0; p <= position; p++) {
            double score = s.score(position, p, scale);
            if (Arrays.binarySearch(chosen, p) >= 0) {
                worst = Math.min(worst, score);
            } else {
                best = Math.max(best, score);
            }
            double magnitude = 0;
            for (int h = 0; h < s.heads; h++) {
                double terms = 0;
                for (int d = 0; d < 128; d++) {
                    terms += Math.abs(s.q[(position * s.heads + h) * 128 + d] * s.keys[p * 128 + d]);
                }
                magnitude += Math.abs(s.weights[position * s.heads + h]) * scale * terms;
            }
            // Of a dot as numerics.md has it for scores, then a rounding of each weight and of each addition.
            bound = Math.max(bound, (35 * 3 * 8 + 8 + s.heads + 2) * 0x1p-24 * magnitude);
        }
        assertThat(best - worst).as("how much better than a chosen one another is").isLessThanOrEqualTo(2 * bound);
    }

    // ------------------------------------------------------------------------------------------------------------ steps

    /// A recorded step serves the rows and lengths that are there when it is repeated, whether they see all or choose.
    @Test
    void recordedLaunchesShouldServeOtherLengths() {
        var shape = new CacheShape.Keys(TileFormat.INT8, 32);
        int most = 20;
        try (CacheFixture f = fixture(shape, 80)) {
            Index a = new Index(f, shape, 4, 700);
            Index b = new Index(f, shape, 4, 290);
            CudaIndexer indexer = new CudaIndexer(f.gpu, 0);
            a.store(indexer);
            b.store(indexer);
            Step step = new Step(a, 4);
            Selection selection = indexer.selection(4, most);
            Graph graph = f.gpu.capture(
                    "a test", () -> step.select(indexer, a, step.batch().mostPositions(), 1, selection));
            for (Part[] parts : new Part[][] {
                {new Part(a, 3, 1)},
                {new Part(a, 699, 1), new Part(b, 19, 1), new Part(b, 20, 1), new Part(b, 289, 1)},
                {new Part(b, 5, 1), new Part(a, 600, 1)}
            }) {
                step.send(parts);
                f.gpu.launch(graph);
                assertChosen(chosen(f, selection, parts.length), most, parts);
            }
        }
    }

    @Test
    void choicesOfRowsThatAreWantedShouldMoveToTheFront() {
        var shape = new CacheShape.Keys(TileFormat.BF16, 16);
        try (CacheFixture f = fixture(shape, 30)) {
            Index s = new Index(f, shape, 4, 400);
            CudaIndexer indexer = new CudaIndexer(f.gpu);
            s.store(indexer);
            Step step = new Step(s, 6);
            step.send(new Part(s, 297, 6));
            Selection selection = indexer.selection(6, 300);
            step.select(indexer, s, 303, 1, selection);
            List<int[]> all = chosen(f, selection, 6);
            DeviceLab lab = new DeviceLab(f.gpu);
            indexer.gather(selection, lab.ints(1, 2, 4, 5), 4, lab.ints(3));
            List<int[]> moved = chosen(f, selection, 6);
            assertThat(moved.subList(0, 3)).containsExactly(all.get(1), all.get(2), all.get(4));
            assertThat(moved.subList(3, 6)).as("behind those that are there").containsExactly(all.get(3), all.get(4), all.get(5));
        }
    }

    @Test
    void operandsOfTheHostShouldBeRefused() {
        var shape = new CacheShape.Keys(TileFormat.BF16, 16);
        try (CacheFixture f = fixture(shape, 1)) {
            Index s = new Index(f, shape, 4, 16);
            CudaIndexer indexer = new CudaIndexer(f.gpu);
            Step step = new Step(s, 2);
            step.send(new Part(s, 3, 2));
            assertThatThrownBy(() -> step.select(indexer, s, 5, 1, Selection.onHeap(2, 4)))
                    .hasMessage("cuda: expected a selection of 2 rows on the device, got one of 2 at 0");
            assertThatThrownBy(() -> step.select(indexer, s, 5, 1, indexer.selection(1, 4)))
                    .hasMessageStartingWith("cuda: expected a selection of 2 rows on the device, got one of 1 at ");
            assertThatThrownBy(() -> indexer.store(shape, step.batch(), 2, 0, Rows.allocate(2, 16)))
                    .hasMessage("cuda: expected 2 rows of 16 on the device, got 2 of 16 at 0");
        }
    }
}

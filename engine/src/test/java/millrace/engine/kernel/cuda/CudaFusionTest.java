package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.stream.IntStream;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Gate, up and activation in one launch: the bits of the three, whatever the format, the shape of a block and the company.
@Tag(DeviceContract.TAG)
final class CudaFusionTest {
    /// Rows and columns with 1, 2, 4 and 8 slices, with ragged panels and units, of several blocks.
    private static final int[][] SHAPES = {{1, 1}, {33, 64}, {150, 130}, {50, 300}, {23, 577}};

    private static ProjectionLab lab;
    private static CudaElementwise elementwise;

    @BeforeAll
    static void open() {
        lab = new ProjectionLab();
        elementwise = new CudaElementwise(lab.gpu);
    }

    @AfterAll
    static void close() {
        if (lab != null) {
            lab.close();
        }
    }

    /// A gate and what it gates, with room for the results.
    private static final class Pair {
        private final Matrix gate;
        private final Matrix up;
        private final Rows x;
        private final Rows gates;
        private final Rows ups;

        Pair(WeightFormat gateFormat, WeightFormat upFormat, int rows, int cols, int most) {
            gate = lab.matrix(gateFormat, rows, cols, 21);
            up = lab.matrix(upFormat, rows, cols, 22);
            x = lab.rows(most, cols, cols);
            lab.put(x, lab.array(most * cols, 23));
            gates = lab.rows(most, rows, rows + 3);
            ups = lab.rows(most, rows, rows);
        }

        Projections list(int n) {
            return new Projections(2).add(gates, gate, null, x, n).add(ups, up, null, x, n);
        }

        /// By three launches.
        float[] expected(int n) {
            lab.projections.run(list(n));
            elementwise.swiglu(gates, ups, n, 0);
            return lab.get(gates, n);
        }

        void clear() {
            lab.clear(gates);
            lab.clear(ups);
        }
    }

    private static boolean allNaN(float[] values) {
        return IntStream.range(0, values.length).allMatch(i -> Float.isNaN(values[i]));
    }

    @ParameterizedTest
    @EnumSource
    void aPairShouldHaveTheBitsOfItsPartsInEveryShapeOfBlock(WeightFormat format) {
        for (int[] shape : SHAPES) {
            Pair pair = new Pair(format, format, shape[0], shape[1], 17);
            for (int n : new int[] {1, 9, 17}) {
                float[] expected = pair.expected(n);
                for (int block = -1; block < 3; block++) {
                    pair.clear();
                    lab.projections.force(block);
                    assertThat(lab.projections.runGated(pair.list(n), 0, 0)).isTrue();
                    lab.projections.force(-1);
                    assertThat(lab.get(pair.gates, n))
                            .as("%s, %d × %d, %d rows, shape %d", format, shape[0], shape[1], n, block)
                            .containsExactly(expected);
                    assertThat(lab.get(pair.ups, n)).as("what nobody reads is not written").matches(up -> allNaN(up));
                }
            }
        }
    }

    @Test
    void schedulesAndLandingsShouldChangeNothing() {
        for (int block = 0; block < 3; block++) {
            lab.projections.force(block);
            Pair pair = new Pair(WeightFormat.INT4, WeightFormat.INT4, 50, 700, 9);
            float[] expected = pair.expected(9);
            StandIn.inEverySchedule(() -> {
                for (int landing = 0; landing < 3; landing++) {
                    pair.clear();
                    try (StandIn.Setting copies = StandIn.with("landing", landing)) {
                        copies.during(() -> {
                            assertThat(lab.projections.runGated(pair.list(9), 0, 0)).isTrue();
                            assertThat(lab.get(pair.gates, 9)).containsExactly(expected);
                        });
                    }
                }
            });
            lab.projections.force(-1);
        }
    }

    /// What an exponential makes of the largest and of NaN is swiglu's too.
    @Test
    void numbersThatAreNotFiniteShouldShowInTheirRow() {
        Pair pair = new Pair(WeightFormat.BF16, WeightFormat.BF16, 20, 70, 3);
        float[] x = lab.array(3 * 70, 5);
        x[70] = Float.NaN;
        x[140] = 3e38f;
        lab.put(pair.x, x);
        float[] expected = pair.expected(3);
        assertThat(allNaN(Arrays.copyOfRange(expected, 20, 40))).isTrue();
        assertThat(lab.projections.runGated(pair.list(3), 0, 0)).isTrue();
        assertThat(lab.get(pair.gates, 3)).containsExactly(expected);
    }

    @Test
    void whatIsNoPairShouldBeLeftToThreeLaunches() {
        Pair mixed = new Pair(WeightFormat.BF16, WeightFormat.INT8, 20, 70, 2);
        assertThat(lab.projections.runGated(mixed.list(2), 0, 0)).as("formats").isFalse();
        Pair pair = new Pair(WeightFormat.BF16, WeightFormat.BF16, 20, 70, 2);
        Projections list = new Projections(2);
        Rows other = lab.rows(2, 70, 70);
        list.add(pair.gates, pair.gate, null, pair.x, 2).add(pair.ups, pair.up, null, other, 2);
        assertThat(lab.projections.runGated(list, 0, 0)).as("inputs").isFalse();
        list.clear().add(pair.gates, pair.gate, null, pair.x, 2).add(pair.ups, pair.up, null, pair.x, 1);
        assertThat(lab.projections.runGated(list, 0, 0)).as("rows").isFalse();
        float[] bias = lab.array(20, 6);
        list.clear().add(pair.gates, pair.gate, bias, pair.x, 2).add(pair.ups, pair.up, null, pair.x, 2);
        assertThat(lab.projections.runGated(list, 0, 0)).as("a bias").isFalse();
        Rows narrow = lab.rows(2, 10, 10);
        list.clear().add(pair.gates, pair.gate, null, pair.x, 2)
                .add(narrow, lab.matrix(WeightFormat.BF16, 10, 70, 7), null, pair.x, 2);
        assertThat(lab.projections.runGated(list, 0, 0)).as("shapes").isFalse();
        assertThat(lab.get(pair.gates, 2)).as("nothing was done").matches(gates -> allNaN(gates));
    }

    /// The same list with the activation and without it: two plans.
    @Test
    void aListShouldNotBeTakenForItsGatedOne() {
        Pair pair = new Pair(WeightFormat.FP8, WeightFormat.FP8, 20, 70, 2);
        float[] expected = pair.expected(2);
        lab.projections.run(pair.list(2));
        float[] gates = lab.get(pair.gates, 2);
        assertThat(lab.projections.runGated(pair.list(2), 0, 0)).isTrue();
        assertThat(lab.get(pair.gates, 2)).containsExactly(expected);
        lab.projections.run(pair.list(2));
        assertThat(lab.get(pair.gates, 2)).containsExactly(gates);
    }

    private static Experts experts(WeightFormat format, int count, int rows, int cols, int seed) {
        Experts experts = new Experts(
                IntStream.range(0, count).mapToObj(e -> lab.matrix(format, rows, cols, seed + e)).toList());
        lab.tensors.adopt(experts);
        return experts;
    }

    /// What a layer does: the shared expert beside those that were chosen, as it is and in a graph whose routing changes.
    @ParameterizedTest
    @EnumSource(names = {"BF16", "PACKED", "INT4"})
    void expertsShouldHaveTheBitsOfTheirPartsInAGraphToo(WeightFormat format) {
        int rows = 37;
        int cols = 130;
        Experts gate = experts(format, 4, rows, cols, 100);
        Experts up = experts(format, 4, rows, cols, 200);
        Pair shared = new Pair(format, format, 20, cols, 8);
        var spec = new RouterSpec(4, 2, 1, 1, true, 1);
        Routing routing = Routing.device(8, spec, lab.gpu.allocate(Routing.bytes(8, spec), "a routing"));
        Rows x = lab.rows(16, cols, cols);
        lab.put(x, lab.array(16 * cols, 3));
        Rows gates = lab.rows(16, rows, rows);
        Rows ups = lab.rows(16, rows, rows);
        Projections pairs = new Projections(4)
                .add(shared.gates, shared.gate, null, shared.x, 8)
                .add(shared.ups, shared.up, null, shared.x, 8)
                .addExperts(gates, gate, x, routing, 8)
                .addExperts(ups, up, x, routing, 8);
        put(routing, 4, 0, 2, 2);
        assertThat(lab.projections.runGated(pairs, 0, 0)).isTrue();
        Graph graph = lab.gpu.capture("pairs", () -> lab.projections.runGated(pairs, 8, 0));
        for (int[] slots : new int[][] {{4, 0, 2, 2}, {0, 0, 16, 0}, {5, 9, 1, 1}}) {
            put(routing, slots);
            lab.projections.run(pairs);
            elementwise.swiglu(shared.gates, shared.ups, 8, 0);
            elementwise.swiglu(gates, ups, 16, 0);
            int all = Arrays.stream(slots).sum();
            float[] expected = lab.get(gates, all);
            float[] expectedShared = lab.get(shared.gates, 8);
            for (int block = -1; block < 4; block++) {
                shared.clear();
                lab.clear(gates);
                lab.clear(ups);
                if (block == 3) {
                    lab.gpu.launch(graph);
                } else {
                    lab.projections.force(block);
                    assertThat(lab.projections.runGated(pairs, 0, 0)).isTrue();
                    lab.projections.force(-1);
                }
                assertThat(lab.get(gates, all)).as("%s, shape %d", format, block).containsExactly(expected);
                assertThat(lab.get(shared.gates, 8)).as("%s, shape %d", format, block).containsExactly(expectedShared);
                assertThat(lab.get(ups, 16)).matches(values -> allNaN(values));
            }
        }
        Experts other = experts(format == WeightFormat.BF16 ? WeightFormat.INT8 : WeightFormat.BF16, 4, rows, cols, 300);
        assertThat(lab.projections.runGated(
                        new Projections(2).addExperts(gates, gate, x, routing, 8).addExperts(ups, other, x, routing, 8), 0, 0))
                .isFalse();
        assertThat(lab.projections.runGated(
                        new Projections(2).addExperts(gates, gate, x, routing, 8).add(shared.ups, shared.up, null, x, 8), 0, 0))
                .as("an expert's and a single one")
                .isFalse();
    }

    private static void put(Routing routing, int... slots) {
        int[] first = new int[slots.length + 1];
        for (int e = 0; e < slots.length; e++) {
            first[e + 1] = first[e] + slots[e];
        }
        try (Arena arena = Arena.ofConfined()) {
            lab.gpu.upload(routing.firstSlotAddress(), arena.allocateFrom(ValueLayout.JAVA_INT, first));
        }
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
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

/// Experts chosen in the device's memory: each has the bits that its matrix gives alone.
@Tag(DeviceContract.TAG)
final class CudaExpertsTest {
    private static final int COLS = 130;
    private static final int ROWS = 37;
    private static final int PER_ROW = 2;

    private static ProjectionLab lab;

    @BeforeAll
    static void open() {
        lab = new ProjectionLab();
    }

    @AfterAll
    static void close() {
        if (lab != null) {
            lab.close();
        }
    }

    private static Experts experts(WeightFormat format, int count) {
        Experts experts = new Experts(IntStream.range(0, count)
                .mapToObj(e -> lab.matrix(format, ROWS, COLS, 100 + e))
                .toList());
        lab.tensors.adopt(experts);
        return experts;
    }

    /// A routing of so many slots of each expert.
    private static Routing routing(int maxRows, int... slots) {
        var spec = new RouterSpec(slots.length, Math.min(PER_ROW, slots.length), 1, 1, true, 1);
        Routing routing = Routing.device(maxRows, spec, lab.gpu.allocate(Routing.bytes(maxRows, spec), "a routing"));
        put(routing, slots);
        return routing;
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

    @ParameterizedTest
    @EnumSource(names = {"BF16", "PACKED", "INT4"})
    void expertsWithoutRowsWithOneAndWithManyShouldHaveTheBitsOfTheirMatricesAlone(WeightFormat format) {
        int[] slots = {0, 1, 9, 0, 70, 8, 0};
        int all = Arrays.stream(slots).sum();
        Experts experts = experts(format, slots.length);
        Routing routing = routing(all / PER_ROW, slots);
        float[] x = lab.array(all * COLS, 1);
        Rows input = lab.rows(all, COLS, COLS);
        Rows output = lab.rows(all + 1, ROWS, ROWS);
        lab.put(input, x);
        Projections list = new Projections(1).addExperts(output, experts, input, routing, all / PER_ROW);
        for (int block = -1; block < 3; block++) {
            lab.clear(output);
            lab.projections.force(block);
            lab.projections.run(list);
            lab.projections.force(-1);
            float[] y = lab.get(output, all + 1);
            int slot = 0;
            for (int e = 0; e < slots.length; e++) {
                if (slots[e] > 0) {
                    float[] own = Arrays.copyOfRange(x, slot * COLS, (slot + slots[e]) * COLS);
                    assertThat(Arrays.copyOfRange(y, slot * ROWS, (slot + slots[e]) * ROWS))
                            .as("%s, expert %d, shape %d", format, e, block)
                            .containsExactly(lab.product(experts.get(e), null, own, slots[e]));
                    slot += slots[e];
                }
            }
            assertThat(y[all * ROWS]).as("behind the last slot").isNaN();
        }
    }

    /// More than a warp has lanes, and those with rows far apart.
    @Test
    void manyExpertsShouldBeFound() {
        int count = 70;
        int[] slots = new int[count];
        slots[0] = 3;
        slots[31] = 10;
        slots[32] = 1;
        slots[69] = 4;
        Experts experts = experts(WeightFormat.INT4, count);
        Routing routing = routing(9, slots);
        float[] x = lab.array(18 * COLS, 2);
        Rows input = lab.rows(18, COLS, COLS);
        Rows output = lab.rows(18, ROWS, ROWS);
        lab.put(input, x);
        lab.projections.run(new Projections(1).addExperts(output, experts, input, routing, 9));
        float[] y = lab.get(output, 18);
        int slot = 0;
        for (int e : new int[] {0, 31, 32, 69}) {
            float[] own = Arrays.copyOfRange(x, slot * COLS, (slot + slots[e]) * COLS);
            assertThat(Arrays.copyOfRange(y, slot * ROWS, (slot + slots[e]) * ROWS))
                    .as("expert %d", e)
                    .containsExactly(lab.product(experts.get(e), null, own, slots[e]));
            slot += slots[e];
        }
    }

    /// What a layer does: the shared expert beside two matrices of the others, in a graph whose routing changes.
    @Test
    void aCapturedListShouldFollowTheRouting() {
        Experts gate = experts(WeightFormat.BF16, 4);
        Experts up = new Experts(List.of(gate.get(3), gate.get(2), gate.get(1), gate.get(0)));
        lab.tensors.adopt(up);
        Matrix shared = lab.matrix(WeightFormat.BF16, 20, COLS, 9);
        Routing routing = routing(8, 4, 0, 2, 2);
        float[] x = lab.array(16 * COLS, 3);
        Rows input = lab.rows(16, COLS, COLS);
        Rows gates = lab.rows(16, ROWS, ROWS);
        Rows ups = lab.rows(16, ROWS, ROWS);
        Rows sharedOut = lab.rows(8, 20, 20);
        lab.put(input, x);
        Projections list = new Projections(3)
                .addExperts(gates, gate, input, routing, 4)
                .addExperts(ups, up, input, routing, 4)
                .add(sharedOut, shared, null, input, 4);
        long live = lab.ints(4);
        lab.projections.run(list, 8, live);
        Graph graph = lab.gpu.capture("experts", () -> lab.projections.run(list, 8, live));
        for (int[] slots : new int[][] {{4, 0, 2, 2}, {0, 16, 0, 0}, {0, 0, 0, 0}}) {
            put(routing, slots);
            int all = Arrays.stream(slots).sum();
            lab.setInt(live, all / PER_ROW);
            lab.clear(gates);
            lab.clear(ups);
            lab.clear(sharedOut);
            lab.gpu.launch(graph);
            int slot = 0;
            for (int e = 0; e < 4; e++) {
                if (slots[e] > 0) {
                    float[] own = Arrays.copyOfRange(x, slot * COLS, (slot + slots[e]) * COLS);
                    int to = (slot + slots[e]) * ROWS;
                    assertThat(Arrays.copyOfRange(lab.get(gates, 16), slot * ROWS, to))
                            .containsExactly(lab.product(gate.get(e), null, own, slots[e]));
                    assertThat(Arrays.copyOfRange(lab.get(ups, 16), slot * ROWS, to))
                            .containsExactly(lab.product(up.get(e), null, own, slots[e]));
                    slot += slots[e];
                }
            }
            float[] y = lab.get(sharedOut, 8);
            float[] expected = all == 0 ? new float[0] : lab.product(shared, null, x, all / PER_ROW);
            assertThat(Arrays.copyOf(y, expected.length)).containsExactly(expected);
            if (all < 16) {
                assertThat(y[expected.length]).isNaN();
                assertThat(lab.get(gates, 16)[all * ROWS]).isNaN();
            }
        }
    }

    @Test
    void expertsOfTwoFormatsShouldBeRefused() {
        Experts mixed = new Experts(
                List.of(lab.matrix(WeightFormat.BF16, 2, 3, 1), lab.matrix(WeightFormat.INT8, 2, 3, 1)));
        assertThatThrownBy(() -> lab.tensors.adopt(mixed))
                .hasMessage("experts: expected matrices of one format, got 2 × 3 bf16 and 2 × 3 int8");
    }
}

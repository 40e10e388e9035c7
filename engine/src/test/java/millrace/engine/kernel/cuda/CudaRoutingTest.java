package millrace.engine.kernel.cuda;

import static millrace.engine.kernel.cuda.DeviceLab.bits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.Random;
import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Experts, weights and slots are those of the host's router.
@Tag(DeviceContract.TAG)
class CudaRoutingTest {
    private static Gpu gpu;
    private static DeviceLab lab;
    private static CudaRouting device;
    private final CpuKernels host = new CpuKernels(new ScalarLoops(), 1);
    private final Random random = new Random(5);

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
        lab = new DeviceLab(gpu);
        device = new CudaRouting(gpu);
    }

    @AfterAll
    static void close() {
        if (gpu != null) {
            gpu.close();
        }
    }

    @BeforeEach
    void own() {
        gpu.own();
    }

    @AfterEach
    void closeHost() {
        host.close();
    }

    private void assertSame(RouterSpec spec, Rows logits, float[] bias, int rows, int live) {
        Routing expected = Routing.onHeap(rows, spec);
        if (live > 0) {
            host.route(expected, logits, bias, live);
        }
        Routing routing = device.allocate(rows, spec);

        device.route(routing, lab.rows(logits), lab.floats(bias), rows, lab.ints(live));

        int pairs = live * spec.perRow();
        assertThat(lab.ints(routing.chosenAddress(), pairs)).isEqualTo(Arrays.copyOf(expected.chosen(), pairs));
        assertThat(bits(lab.floats(routing.weightsAddress(), pairs)))
                .isEqualTo(bits(Arrays.copyOf(expected.weights(), pairs)));
        assertThat(lab.ints(routing.slotsAddress(), pairs)).isEqualTo(Arrays.copyOf(expected.slots(), pairs));
        assertThat(lab.ints(routing.sourcesAddress(), pairs)).isEqualTo(Arrays.copyOf(expected.sources(), pairs));
        assertThat(lab.ints(routing.firstSlotAddress(), spec.experts() + 1)).isEqualTo(expected.firstSlot());
        assertThat(lab.ints(routing.pairsAddress(), 1)).containsExactly(pairs);
    }

    private float[] bias(int experts) {
        float[] bias = new float[experts];
        for (int e = 0; e < experts; e++) {
            bias[e] = (float) (0.2 * random.nextGaussian());
        }
        return bias;
    }

    @ParameterizedTest
    @CsvSource({
        "8, 2, 1, 1, 5, 5", "64, 6, 1, 1, 33, 31", "384, 8, 1, 1, 70, 67", "256, 8, 8, 4, 40, 40", "24, 4, 3, 2, 5, 4",
        "1024, 8, 1, 1, 3, 3", "8, 8, 8, 8, 3, 3", "64, 32, 2, 1, 4, 3", "64, 6, 1, 1, 40, 0", "64, 6, 1, 1, 7, 0"
    })
    void choosesAndSortsAsTheHost(int experts, int perRow, int groups, int kept, int rows, int live) {
        var spec = new RouterSpec(experts, perRow, groups, kept, experts % 3 != 0, 2.5f);

        assertSame(spec, DeviceLab.view(random, rows, experts, 3, 1), bias(experts), rows, live);
    }

    @ParameterizedTest
    @CsvSource({"64, 6, 1, 1", "64, 6, 4, 2"})
    void takesTheLowerIndexOfEqualOnes(int experts, int perRow, int groups, int kept) {
        Rows logits = DeviceLab.view(random, 9, experts, 0, 0);
        for (int i = 0; i < logits.length(); i++) {
            logits.values()[i] = random.nextInt(4);
        }

        assertSame(new RouterSpec(experts, perRow, groups, kept, true, 1f), logits, new float[experts], 9, 9);
    }

    @ParameterizedTest
    @CsvSource({"40, 6, 1, 1, 11", "64, 8, 4, 2, 11", "40, 6, 1, 1, 1", "24, 4, 3, 2, 1"})
    void choosesAsTheHostAmongNumbersThatAreNone(int experts, int perRow, int groups, int kept, int every) {
        Rows logits = DeviceLab.view(random, 12, experts, 0, 0);
        for (int i = 0; i < logits.length(); i++) {
            if (random.nextInt(every) == 0) {
                logits.values()[i] = Float.NaN;
            }
        }

        assertSame(new RouterSpec(experts, perRow, groups, kept, true, 1f), logits, bias(experts), 12, 12);
    }

    @Test
    void sortsThousandsOfRows() {
        var spec = new RouterSpec(12, 3, 1, 1, true, 1f);

        assertSame(spec, DeviceLab.view(random, 700, 12, 0, 0), bias(12), 700, 695);
    }

    @Test
    void givesTheSameSlotsInEverySchedule() {
        var spec = new RouterSpec(48, 5, 4, 3, true, 1f);
        Rows logits = DeviceLab.view(random, 67, 48, 0, 0);
        float[] bias = bias(48);
        StandIn.inEverySchedule(() -> assertSame(spec, logits, bias, 67, 66));
    }

    @Test
    void refusesWhatItHasNoRoomFor() {
        assertThatThrownBy(() -> device.allocate(1, new RouterSpec(1025, 8, 1, 1, true, 1f)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("router: expected at most 1024 experts, 32 groups and 32 chosen on this device, got 1025, 1 and 8");
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.Random;
import java.util.function.Consumer;
import millrace.engine.Sampling;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;
import millrace.engine.sampling.Sampler;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What the device knows of logits is what the host would find, and the greedy token is the sampler's.
@Tag(DeviceContract.TAG)
class CudaGuardTest {
    private static Gpu gpu;
    private static DeviceLab lab;
    private static CudaGuard device;
    private final Random random = new Random(17);

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
        lab = new DeviceLab(gpu);
        device = new CudaGuard(gpu);
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

    private static void assertKnown(RowFacts facts, Rows logits, int row) {
        int first = Float.floatToRawIntBits(logits.values()[logits.at(row)]);
        int largest = 0;
        int differing = 0;
        boolean nan = false;
        for (int i = 0; i < logits.width(); i++) {
            float value = logits.values()[logits.at(row) + i];
            largest = Math.max(largest, Float.floatToRawIntBits(value) & 0x7FFF_FFFF);
            differing |= Float.floatToRawIntBits(value) ^ first;
            nan |= Float.isNaN(value);
        }
        assertThat(facts.largest(row)).isEqualTo(largest);
        assertThat(facts.differing(row)).isEqualTo(differing);
        if (!nan) {
            int best = new Sampler(logits.width())
                    .choose(logits.values(), logits.at(row), Sampling.GREEDY, new int[0], 0, 0);
            assertThat(facts.best(row)).isEqualTo(best);
            assertThat(Float.intBitsToFloat(facts.bestBits(row))).isEqualTo(logits.values()[logits.at(row) + best]);
        }
    }

    private void check(Rows logits, int live) {
        int rows = logits.capacity();
        RowFacts facts = device.allocate(rows, logits.width());
        device.inspect(facts, lab.rows(logits), rows, lab.ints(live));
        device.fetch(facts, live);
        for (int row = 0; row < live; row++) {
            assertKnown(facts, logits, row);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 31, 256, 257, 4095, 4096, 4097, 9001})
    void knowsRowsOfAnyWidth(int width) {
        check(DeviceLab.view(random, 3, width, 0, 0), 2);
    }

    @Test
    void findsNumbersThatAreNoneWhereverTheyStand() {
        Rows logits = DeviceLab.view(random, 6, 5000, 0, 0);
        float[] odd = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.MAX_VALUE, -Float.MAX_VALUE, -0f};
        for (int row = 0; row < odd.length; row++) {
            logits.values()[logits.at(row) + random.nextInt(5000)] = odd[row];
        }
        check(logits, 6);
    }

    @Test
    void takesTheLowestOfEqualTokens() {
        Rows logits = DeviceLab.view(random, 4, 9000, 0, 0);
        Consumer<int[]> same = at -> {
            for (int i = 1; i < at.length; i++) {
                logits.values()[logits.at(at[0]) + at[i]] = 100f;
            }
        };
        same.accept(new int[] {0, 8999, 4096, 4095});
        same.accept(new int[] {1, 300, 299, 5000});
        Arrays.fill(logits.values(), logits.at(2), logits.at(3), 7f);
        for (int i = 0; i < 9000; i++) {
            logits.values()[logits.at(3) + i] = i % 2 == 0 ? -0f : 0f;
        }
        StandIn.inEverySchedule(() -> check(logits, 4));
    }

    @Test
    void refusesRowsOfAnotherWidth() {
        Rows logits = DeviceLab.view(random, 2, 8, 0, 0);
        RowFacts facts = device.allocate(2, 9);
        assertThatThrownBy(() -> device.inspect(facts, logits, 2, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("guard: 2 rows of 8 numbers, for rows of 9 and at most 2");
        assertThatThrownBy(() -> device.inspect(new RowFacts(2, 8), logits, 2, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("guard: expected facts of this backend, got others");
        assertThatThrownBy(() -> device.fetch(facts, 3))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("guard: expected at most 2 rows, got 3");
    }
}

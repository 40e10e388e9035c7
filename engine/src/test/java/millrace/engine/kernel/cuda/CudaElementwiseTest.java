package millrace.engine.kernel.cuda;

import static millrace.engine.kernel.cuda.DeviceLab.bits;
import static millrace.engine.kernel.cuda.DeviceLab.copy;
import static millrace.engine.kernel.cuda.DeviceLab.untouched;
import static millrace.engine.kernel.cuda.DeviceLab.view;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

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
import org.junit.jupiter.params.provider.ValueSource;

/// Every operation on the stand-in gives the bits of the scalar loops, and leaves alone what is not its own.
@Tag(DeviceContract.TAG)
class CudaElementwiseTest {
    private static Gpu gpu;
    private static DeviceLab lab;
    private static CudaElementwise device;
    private final CpuKernels host = new CpuKernels(new ScalarLoops(), 1);
    private final Random random = new Random(20261130);

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
        lab = new DeviceLab(gpu);
        device = new CudaElementwise(gpu);
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

    private static void assertSame(Rows onDevice, Rows expected) {
        assertThat(bits(lab.values(onDevice))).isEqualTo(bits(expected.values()));
    }

    private float[] numbers(int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    @ParameterizedTest
    @CsvSource({"1, 1", "16, 1", "17, 3", "64, 5", "128, 7", "300, 2", "511, 1", "512, 1", "2048, 2", "2049, 1", "5003, 1"})
    void normsVectorsOfAnyLength(int n, int heads) {
        int rows = 5;
        int live = 3;
        Rows x = view(random, rows, n * heads, 3, 2);
        x.values()[x.at(1)] = 0f;
        x.values()[x.at(2)] = 3e19f;
        Rows expected = untouched(rows, n * heads);
        float[] weight = numbers(n);
        Rows y = lab.rows(expected);
        host.rmsNorm(expected, x, weight, 1e-6f, live, heads);

        device.rmsNorm(y, lab.rows(x), lab.floats(weight), n, 1e-6f, rows, heads, lab.ints(live));

        assertSame(y, expected);
    }

    /// Short ones, long ones, and those that take more than one stage: rows behind the live ones are left as they are.
    @ParameterizedTest
    @ValueSource(ints = {1, 16, 37, 512, 2048, 5003})
    void addsAndNorms(int n) {
        int rows = 5;
        int live = 4;
        Rows x = view(random, rows, n, 3, 2);
        Rows added = view(random, rows, n, 1, 0);
        added.values()[added.at(1)] = Float.NaN;
        added.values()[added.at(2)] = Float.NEGATIVE_INFINITY;
        Rows expected = untouched(rows, n);
        float[] weight = numbers(n);
        Rows onDevice = lab.rows(x);
        Rows y = lab.rows(expected);
        host.addNorm(expected, x, added, weight, 1e-6f, live);

        device.addNorm(y, onDevice, lab.rows(added), lab.floats(weight), 1e-6f, rows, lab.ints(live));

        assertSame(y, expected);
        assertSame(onDevice, x);
    }

    @ParameterizedTest
    @ValueSource(ints = {48, 3000})
    void normsInPlace(int n) {
        Rows x = view(random, 4, 2 * n, 0, 1);
        Rows onDevice = lab.rows(x);
        float[] weight = numbers(n);
        host.rmsNorm(x, x, weight, 1e-5f, 4, 2);

        device.rmsNorm(onDevice, onDevice, lab.floats(weight), n, 1e-5f, 4, 2, 0);

        assertSame(onDevice, x);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 15, 16, 37, 128, 1003})
    void normsRowsAboutTheirMean(int n) {
        int rows = 11;
        int live = 9;
        Rows x = view(random, rows, n, 3, 2);
        for (int i = 0; i < n; i++) {
            x.values()[x.at(1) + i] = 1000 + x.values()[x.at(1) + i] / 100;
            x.values()[x.at(2) + i] = 5;
        }
        x.values()[x.at(3)] = 3e19f;
        x.values()[x.at(4)] = Float.NaN;
        Rows expected = untouched(rows, n);
        float[] weight = numbers(n);
        float[] bias = numbers(n);
        Rows y = lab.rows(expected);
        host.layerNorm(expected, x, weight, bias, 1e-6f, live);

        device.layerNorm(y, lab.rows(x), lab.floats(weight), lab.floats(bias), 1e-6f, rows, lab.ints(live));

        assertSame(y, expected);

        Rows inPlace = lab.rows(x);
        host.layerNorm(x, x, weight, bias, 1e-6f, rows);

        device.layerNorm(inPlace, inPlace, lab.floats(weight), lab.floats(bias), 1e-6f, rows, 0);

        assertSame(inPlace, x);
    }

    @ParameterizedTest
    @CsvSource({
        "1, 8, 0, 8, true", "1, 8, 0, 8, false", "5, 24, 0, 24, false", "3, 64, 32, 16, false", "3, 64, 32, 32, true",
        "40, 10, 2, 6, true"
    })
    void rotatesPairsOfBothLayouts(int heads, int headDim, int from, int rotaryDim, boolean interleaved) {
        int rows = 5;
        Rows x = view(random, rows, heads * headDim, 1, 4);
        Rows angles = view(random, rows, rotaryDim, 0, 0);
        Rows onDevice = lab.rows(x);
        host.rotate(x, 4, heads, headDim, from, angles, interleaved);

        device.rotate(onDevice, rows, heads, headDim, from, lab.rows(angles), interleaved, lab.ints(4));

        assertSame(onDevice, x);
    }

    @Test
    void gatesEveryMagnitude() {
        int width = 311;
        Rows gate = view(random, 7, width, 5, 0);
        float[] special = {
            0f, -0f, 1e-45f, -1e-38f, 88.7f, -88.7f, 89f, -89f, 103.9f, -103.9f, 200f, -200f, Float.MAX_VALUE,
            -Float.MAX_VALUE, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.NaN
        };
        System.arraycopy(special, 0, gate.values(), gate.at(2), special.length);
        for (int i = 0; i < width; i++) {
            gate.values()[gate.at(3) + i] = -105f + 0.65f * i;
        }
        Rows up = view(random, 7, width, 0, 2);
        Rows onDevice = lab.rows(gate);
        host.swiglu(gate, up, 6);

        device.swiglu(onDevice, lab.rows(up), 7, lab.ints(6));

        assertSame(onDevice, gate);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 127, 128, 129, 700})
    void adds(int width) {
        Rows x = view(random, 6, width, 0, 3);
        Rows y = view(random, 6, width, 2, 0);
        Rows onDevice = lab.rows(x);
        host.add(x, y, 5);

        device.add(onDevice, lab.rows(y), 6, lab.ints(5));

        assertSame(onDevice, x);
    }

    @Test
    void gathersIntoAnotherMatrix() {
        Rows x = view(random, 9, 130, 1, 1);
        Rows expected = untouched(7, 130);
        int[] sources = {8, 0, 3, 3, 1, 7, 100};
        Rows y = lab.rows(expected);
        host.gather(expected, x, sources, 6);

        device.gather(y, lab.rows(x), lab.ints(sources), 7, lab.ints(6));

        assertSame(y, expected);
    }

    @Test
    void gathersInPlaceFromRowsThatFollow() {
        Rows x = view(random, 40, 200, 4, 0);
        int[] sources = random.ints(0, 40).distinct().limit(23).sorted().toArray();
        Rows onDevice = lab.rows(x);
        host.gather(x, x, sources, 21);

        device.gather(onDevice, onDevice, lab.ints(sources), 23, lab.ints(21));

        assertSame(onDevice, x);
    }

    @ParameterizedTest
    @CsvSource({"1, 1, true", "3, 129, false", "8, 300, true"})
    void combinesExperts(int perRow, int width, boolean withShared) {
        int rows = 6;
        int live = 5;
        int[] slots = random.ints((long) rows * perRow, 0, rows * perRow).toArray();
        float[] weights = numbers(rows * perRow);
        Rows x = view(random, rows * perRow, width, 0, 1);
        Rows shared = withShared ? view(random, rows, width, 2, 0) : null;
        Rows expected = untouched(rows, width);
        Rows y = lab.rows(expected);
        Routing routing = Routing.onHeap(rows, new RouterSpec(perRow, perRow, 1, 1, false, 1f));
        System.arraycopy(slots, 0, routing.slots(), 0, slots.length);
        System.arraycopy(weights, 0, routing.weights(), 0, weights.length);
        host.combine(expected, x, routing, shared, live);

        device.combine(
                y, lab.rows(x), lab.ints(slots), lab.floats(weights), perRow, shared == null ? null : lab.rows(shared),
                rows, lab.ints(live));

        assertSame(y, expected);
    }

    @Test
    void refusesRowsOnTheHeapAndTooManyOfThem() {
        Rows x = view(random, 2, 8, 0, 0);
        Rows onDevice = lab.rows(x);

        assertThatThrownBy(() -> device.add(x, x, 1, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("rows: expected a matrix on the device, got one on the heap");
        assertThatThrownBy(() -> device.add(onDevice, onDevice, 3, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("rows: expected at most 2, got 3");
        assertThatThrownBy(() -> device.swiglu(onDevice, onDevice.columns(0, 4), 1, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("swiglu: rows of 4 for rows of 8");
    }

    @Test
    void givesTheSameBitsInEverySchedule() {
        Rows x = view(random, 3, 3000, 0, 0);
        float[] weight = numbers(3000);
        Rows expected = copy(x);
        host.rmsNorm(expected, x, weight, 1e-6f, 3, 1);
        host.rotate(expected, 3, 10, 300, 0, x.columns(0, 300), false);
        StandIn.inEverySchedule(() -> {
            Rows onDevice = lab.rows(x);
            Rows y = lab.rows(untouched(3, 3000));
            device.rmsNorm(y, onDevice, lab.floats(weight), 3000, 1e-6f, 3, 1, 0);
            device.rotate(y, 3, 10, 300, 0, onDevice.columns(0, 300), false, 0);
            assertSame(y, expected);
        });
    }

    @Test
    void touchesNothingWhereNoRowIsLive() {
        Rows x = view(random, 3, 20, 0, 0);
        Rows onDevice = lab.rows(x);
        long none = lab.ints(0);

        device.rmsNorm(onDevice, onDevice, lab.floats(numbers(20)), 20, 1e-6f, 3, 1, none);
        device.rotate(onDevice, 3, 1, 20, 0, onDevice, false, none);
        device.swiglu(onDevice, onDevice, 3, none);
        device.addNorm(onDevice, onDevice, onDevice, lab.floats(numbers(20)), 1e-6f, 3, none);
        device.addNorm(onDevice, onDevice, onDevice, lab.floats(numbers(20)), 1e-6f, 0, 0);
        device.add(onDevice, onDevice, 3, none);
        device.gather(onDevice, onDevice, lab.ints(0, 1, 2), 3, none);

        assertSame(onDevice, x);
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Exp3sPanel;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Products on the stand-in against exact sums and the scalar loops, and their bits against one another.
@Tag(DeviceContract.TAG)
final class CudaProjectionsTest {
    /// Rows and columns: single ones, odd ones, less and more than a panel, than a group and than a unit, and with every
    /// number of slices.
    private static final int[][] SHAPES = {
        {1, 1}, {3, 2}, {16, 31}, {17, 33}, {33, 64}, {2, 65}, {40, 127}, {15, 130}, {50, 300}, {20, 577}
    };

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

    @ParameterizedTest
    @EnumSource
    void errorsShouldStayBelowTheirBoundsForEveryShape(WeightFormat format) {
        double worst = 0;
        try (var cpu = new CpuKernels(new ScalarLoops(), 1)) {
            for (int[] shape : SHAPES) {
                int n = 1 + shape[1] % 10;
                Matrix w = lab.matrix(format, shape[0], shape[1], 7);
                float[] x = lab.array(n * shape[1], 8);
                float[] bias = shape[0] % 2 == 0 ? null : lab.array(shape[0], 9);
                if (bias != null) {
                    lab.tensors.adopt(bias);
                }
                float[] y = lab.product(w, bias, x, n);
                double share = ProjectionLab.worst(w, bias, x, n, y);
                assertThat(share).as("%s, %d rows", w, n).isLessThanOrEqualTo(1);
                worst = Math.max(worst, share);
                Rows expected = Rows.allocate(n, shape[0]);
                cpu.project(new Projections(1).add(expected, w, bias, new Rows(x, 0, shape[1], shape[1]), n));
                for (int i = 0; i < y.length; i++) {
                    assertThat(y[i]).isCloseTo(expected.values()[i], Offset.offset(1e-5f));
                }
            }
        }
        // The bound is for the worst case of a device that cuts; one that rounds stays far below it.
        assertThat(worst).isLessThan(0.2).isPositive();
    }

    @ParameterizedTest
    @EnumSource
    void aRowShouldHaveTheSameBitsAloneAndAmongOthersInEveryShapeOfBlock(WeightFormat format) {
        for (int[] shape : new int[][] {{23, 577}, {150, 130}}) {
            int most = 17;
            Matrix w = lab.matrix(format, shape[0], shape[1], 3);
            float[] x = lab.array(most * shape[1], 4);
            float[] alone = new float[most * shape[0]];
            for (int r = 0; r < most; r += 8) {
                float[] row = Arrays.copyOfRange(x, r * shape[1], (r + 1) * shape[1]);
                System.arraycopy(lab.product(w, null, row, 1), 0, alone, r * shape[0], shape[0]);
            }
            for (int block = 0; block < 3; block++) {
                lab.projections.force(block);
                for (int n : new int[] {2, 9, 17}) {
                    float[] all = lab.product(w, null, x, n);
                    for (int r = 0; r < n; r += 8) {
                        assertThat(Arrays.copyOfRange(all, r * shape[0], (r + 1) * shape[0]))
                                .as("%s, row %d of %d, shape %d", w, r, n, block)
                                .containsExactly(Arrays.copyOfRange(alone, r * shape[0], (r + 1) * shape[0]));
                    }
                }
            }
            lab.projections.force(-1);
        }
    }

    @Test
    void packedWeightsShouldGiveTheBitsOfBf16WithEscapesAndWithout() {
        boolean[] met = new boolean[2];
        for (double outliers : new double[] {0, 0.002, 0.01}) {
            // Several panels of several units in each of two slices, and a ragged end of both.
            Matrix packed = lab.matrix(WeightFormat.PACKED, 40, 190, 5, outliers);
            Matrix plain = lab.matrix(WeightFormat.BF16, 40, 190, 5, outliers);
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment bytes = CudaMatrix.bytes(arena, packed, ProjectionLab::each);
                for (int p = 0; p < packed.panels(); p++) {
                    long offset = Words.twice(bytes, 8L * p);
                    assertThat(Exp3sPanel.isRaw(bytes, offset & -2)).isEqualTo((offset & 1) != 0);
                    met[(int) offset & 1] = true;
                }
            }
            float[] x = lab.array(9 * 190, 6);
            for (int block = 0; block < 3; block++) {
                lab.projections.force(block);
                assertThat(lab.product(packed, null, x, 9))
                        .as("%s outliers, shape %d", outliers, block)
                        .containsExactly(lab.product(plain, null, x, 9));
            }
            lab.projections.force(-1);
        }
        assertThat(met).as("panels with codes, raw panels").containsExactly(true, true);
    }

    /// Bits that no arithmetic makes: subnormal numbers count as zero or as themselves, an infinity or a NaN shows.
    @Test
    void weightsThatAreNotFiniteShouldShowInTheirRowsOnly() {
        short[] halves = new short[16 * 256];
        Arrays.fill(halves, BFloat16.fromFloat(1));
        halves[256 * 3 + 5] = (short) 0x7F80;
        halves[256 * 7 + 200] = (short) 0xFFC1;
        halves[256 * 9] = 1;
        halves[256 * 9 + 1] = (short) 0x8000;
        for (WeightFormat format : new WeightFormat[] {WeightFormat.BF16, WeightFormat.PACKED}) {
            float[] y = lab.product(lab.matrix(format, halves, 16, 256), null, lab.array(256, 1), 1);
            for (int r = 0; r < 16; r++) {
                assertThat(Float.isFinite(y[r])).as("%s, row %d", format, r).isEqualTo(r != 3 && r != 7);
            }
            assertThat(y[7]).isNaN();
        }
    }

    @Test
    void activationsThatAreNotFiniteShouldShowInAllOutputsOfTheirTokenOnly() {
        Matrix w = lab.matrix(WeightFormat.INT8, 20, 70, 2);
        float[] x = lab.array(3 * 70, 3);
        x[70 + 69] = Float.POSITIVE_INFINITY;
        float[] y = lab.product(w, null, x, 3);
        for (int i = 0; i < 60; i++) {
            assertThat(Float.isNaN(y[i])).as("output %d", i).isEqualTo(i / 20 == 1);
        }
    }

    /// Views whose rows begin anywhere: copies of 16 bytes are not possible then.
    @Test
    void viewsOfAnyOffsetAndStrideShouldDo() {
        Matrix w = lab.matrix(WeightFormat.BF16, 18, 96, 11);
        float[] x = lab.array(5 * 96, 12);
        float[] expected = lab.product(w, null, x, 5);
        for (int offset : new int[] {0, 1, 4}) {
            for (int stride : new int[] {101, 104}) {
                Rows input = lab.rows(5, stride, stride).columns(offset, 96);
                Rows output = lab.rows(6, 23, 23).columns(2, 18);
                lab.put(input, x);
                lab.projections.run(new Projections(1).add(output, 1, w, null, input, 0, 5));
                float[] y = lab.get(output, 6);
                assertThat(Arrays.copyOfRange(y, 18, y.length)).as("%d, %d", offset, stride).containsExactly(expected);
                assertThat(Arrays.copyOf(y, 18)).as("the row before").containsOnly(Float.NaN);
                float[] all = lab.get(new Rows(output.values(), output.address(), output.length(), 0, 23, 23), 6);
                assertThat(all[23]).as("columns beside").isNaN();
                assertThat(all[23 + 20]).isNaN();
            }
        }
    }

    /// One launch for each format, whatever the matrices' sizes; one of them without a bias.
    @Test
    void productsOfOneListShouldNotMeet() {
        Projections list = new Projections(8);
        Rows input = lab.rows(3, 130, 130);
        float[] x = lab.array(3 * 130, 20);
        lab.put(input, x);
        List<Rows> outputs = new ArrayList<>();
        List<float[]> expected = new ArrayList<>();
        WeightFormat[] formats = {WeightFormat.BF16, WeightFormat.INT4, WeightFormat.BF16, WeightFormat.PACKED};
        int[] rows = {33, 17, 1, 150};
        for (int i = 0; i < formats.length; i++) {
            Matrix w = lab.matrix(formats[i], rows[i], 130, 30 + i);
            float[] bias = i == 1 ? null : lab.array(rows[i], 40 + i);
            if (bias != null) {
                lab.tensors.adopt(bias);
            }
            expected.add(lab.product(w, bias, x, 3));
            outputs.add(lab.rows(3, rows[i], rows[i]));
            list.add(outputs.get(i), w, bias, input, 3);
        }
        for (int again = 0; again < 2; again++) {
            lab.projections.run(list);
            for (int i = 0; i < formats.length; i++) {
                assertThat(lab.get(outputs.get(i), 3)).as("product %d", i).containsExactly(expected.get(i));
            }
        }
        // Not of one number of rows: tables that are sent each time.
        list.clear();
        for (int i = 0; i < formats.length; i++) {
            outputs.set(i, lab.rows(3, rows[i], rows[i]));
            list.add(outputs.get(i), lab.matrix(formats[i], rows[i], 130, 30 + i), null, input, 1 + i % 3);
        }
        lab.projections.run(list);
        for (int i = 0; i < formats.length; i++) {
            float[] y = lab.get(outputs.get(i), 3);
            int written = (1 + i % 3) * rows[i];
            assertThat(Arrays.copyOf(y, written)).doesNotContain(Float.NaN);
            assertThat(Arrays.copyOfRange(y, written, y.length)).as("product %d", i).matches(rest -> allNaN(rest));
        }
    }

    private static boolean allNaN(float[] values) {
        for (float v : values) {
            if (!Float.isNaN(v)) {
                return false;
            }
        }
        return true;
    }

    /// What a recorded step does: launches for a bucket, and the number of rows in the device's memory.
    @Test
    void rowsBeyondTheLiveOnesShouldBeAbsentAndTheOthersHaveTheSameBitsInEveryBucket() {
        Matrix w = lab.matrix(WeightFormat.INT8, 35, 100, 50);
        float[] x = lab.array(17 * 100, 51);
        float[] expected = lab.product(w, null, x, 17);
        Rows input = lab.rows(64, 100, 100);
        Rows output = lab.rows(64, 35, 35);
        lab.put(input, x);
        Projections list = new Projections(1).add(output, w, null, input, 1);
        lab.projections.run(list);
        long live = lab.ints(0);
        for (int bucket : new int[] {4, 16, 32}) {
            lab.projections.run(list, bucket, live);
            Graph graph = lab.gpu.capture("products", () -> lab.projections.run(list, bucket, live));
            for (int rows : new int[] {3, 0, bucket}) {
                lab.clear(output);
                lab.setInt(live, rows);
                lab.gpu.launch(graph);
                float[] y = lab.get(output, 64);
                int count = 35 * Math.min(17, rows);
                assertThat(Arrays.copyOf(y, count)).as("%d of %d", rows, bucket).containsExactly(Arrays.copyOf(expected, count));
                assertThat(Arrays.copyOfRange(y, 35 * rows, y.length)).matches(rest -> allNaN(rest));
            }
        }
    }

    /// Activations that no device could hold at once.
    @Test
    void longRowsShouldDo() {
        Matrix w = lab.matrix(WeightFormat.FP8, 16, 18_432, 80);
        float[] x = lab.array(2 * 18_432, 81);
        float[] y = lab.product(w, null, x, 2);
        assertThat(ProjectionLab.worst(w, null, x, 2, y)).isLessThan(0.1);
        lab.projections.force(2);
        assertThat(lab.product(w, null, x, 2)).containsExactly(y);
        lab.projections.force(-1);
    }

    /// The order of sums is part of the profile.
    @Test
    void slicesShouldFollowFromTheShape() {
        assertThat(CudaMatrix.slices(1, 64)).isEqualTo(1);
        assertThat(CudaMatrix.slices(16, 65)).isEqualTo(2);
        assertThat(CudaMatrix.slices(16, 7 * 64)).isEqualTo(4);
        assertThat(CudaMatrix.slices(4096, 4096)).isEqualTo(8);
        assertThat(CudaMatrix.slices(4097, 4096)).isEqualTo(4);
        assertThat(CudaMatrix.slices(8192, 4096)).isEqualTo(4);
        assertThat(CudaMatrix.slices(8193, 4096)).isEqualTo(2);
        assertThat(CudaMatrix.slices(65_536, 4096)).isEqualTo(2);
        assertThat(CudaMatrix.slices(65_537, 4096)).isEqualTo(1);
    }

    @Test
    void schedulesShouldChangeNothing() {
        Matrix w = lab.matrix(WeightFormat.INT4, 50, 700, 60);
        float[] x = lab.array(9 * 700, 61);
        for (int block = 0; block < 3; block++) {
            lab.projections.force(block);
            float[] expected = lab.product(w, null, x, 9);
            StandIn.inEverySchedule(() -> {
                for (int landing = 0; landing < 3; landing++) {
                    try (StandIn.Setting copies = StandIn.with("landing", landing)) {
                        copies.during(() -> assertThat(lab.product(w, null, x, 9)).containsExactly(expected));
                    }
                }
            });
        }
        lab.projections.force(-1);
    }

    /// Sums of a matrix unit that cuts instead of rounding: other bits, the same bound.
    @Test
    void aDeviceThatCutsShouldStayBelowTheBoundToo() {
        Matrix w = lab.matrix(WeightFormat.BF16, 20, 1000, 70);
        float[] x = lab.array(2 * 1000, 71);
        float[] rounded = lab.product(w, null, x, 2);
        try (StandIn.Setting cut = StandIn.with("truncate", 1)) {
            cut.during(() -> {
                float[] y = lab.product(w, null, x, 2);
                assertThat(y).isNotEqualTo(rounded);
                assertThat(ProjectionLab.worst(w, null, x, 2, y)).isLessThan(1);
            });
        }
    }

    @Test
    void whatIsNotOnTheDeviceShouldBeRefused() {
        Matrix w = lab.matrix(WeightFormat.BF16, 4, 4, 1);
        Rows device = lab.rows(1, 4, 4);
        assertThatThrownBy(() -> lab.projections.run(new Projections(1).add(device, w, null, Rows.allocate(1, 4), 1)))
                .hasMessage("projection: expected rows on the device, got rows on the heap");
        Matrix stranger = Matrix.allocate(lab.arena, WeightFormat.BF16, 4, 4);
        assertThatThrownBy(() -> lab.projections.run(new Projections(1).add(device, stranger, null, device, 1)))
                .hasMessage("weights: expected 4 × 4 bf16 on the device, got one that was not adopted");
        Projections uneven = new Projections(2).add(device, w, null, device, 1).add(lab.rows(2, 4, 4), w, null, lab.rows(2, 4, 4), 2);
        assertThatThrownBy(() -> lab.projections.run(uneven, 4, 0))
                .hasMessage("projection: expected products of one number of rows in a bucket");
    }

    /// Neither Java nor the device: a step may be recorded.
    @Test
    void listsThatAreKnownShouldAllocateNothing() {
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        Matrix first = lab.matrix(WeightFormat.BF16, 20, 30, 90);
        Matrix second = lab.matrix(WeightFormat.INT8, 10, 30, 91);
        Rows input = lab.rows(64, 30, 30);
        Rows output = lab.rows(64, 20, 20);
        Rows narrow = output.columns(0, 10);
        Projections list = new Projections(2);
        long device = 0;
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 30 && least > 0; round++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int n = 1; n < 30; n += 4) {
                list.clear();
                list.add(output, first, null, input, n);
                list.add(narrow, second, null, input, n);
                lab.projections.run(list);
            }
            least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
            device = round == 0 ? lab.gpu.memoryLeft() : device;
        }
        assertThat(least).as("bytes in 8 runs").isZero();
        assertThat(lab.gpu.memoryLeft()).isEqualTo(device);
    }
}

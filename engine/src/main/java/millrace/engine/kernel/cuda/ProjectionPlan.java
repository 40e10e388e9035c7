package millrace.engine.kernel.cuda;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// The tables that a list of products needs on the device: its products, and for each shape of a block which block takes
/// which panels of which product. Made once for a list; how many rows there are is told at each launch.
final class ProjectionPlan {
    /// Product in project.h.
    private static final int PRODUCT_BYTES = 80;

    /// An entry of `blocks` in project.h: the product, and its first panel.
    private static final int BLOCK_BYTES = 8;

    /// Warps of a block, as in project.h.
    private static final int WARPS = 8;

    /// Stands for the rows of the launch in a product.
    private static final int ROWS_OF_LAUNCH = -1;

    /// Products of one format, which one launch can take; first single ones, then those of experts.
    record Part(WeightFormat format, Blocks narrow, Blocks wide, int experts) {}

    /// Blocks of one shape for one token group.
    ///
    /// @param first where they begin among all
    /// @param singles of single products
    /// @param ofExperts of products of experts, which stand behind them
    record Blocks(int first, int singles, int ofExperts) {}

    final int hash;
    @Nullable ProjectionPlan next;

    private final boolean uniform;
    private final boolean gated;
    private final @Nullable Matrix[] matrices;
    private final @Nullable Experts[] experts;
    private final @Nullable Routing[] routings;
    private final float @Nullable [][] biases;
    private final long[] inputs;
    private final long[] outputs;
    private final int[] strides;
    private final int[] rows;
    private final List<Part> parts = new ArrayList<>();
    private final List<int[]> blocks = new ArrayList<>();
    private long address;

    /// @param uniform whether all single products have one number of rows
    /// @param gated whether products are pairs of a gate and what it gates, see [#pairs]
    ProjectionPlan(Projections list, boolean uniform, boolean gated, int hash) {
        int count = list.count();
        this.uniform = uniform;
        this.gated = gated;
        this.hash = hash;
        matrices = new Matrix[count];
        experts = new Experts[count];
        routings = new Routing[count];
        biases = new float[count][];
        inputs = new long[count];
        outputs = new long[count];
        strides = new int[2 * count];
        rows = new int[count];
        for (int i = 0; i < count; i++) {
            experts[i] = list.experts(i);
            matrices[i] = experts[i] == null ? list.matrix(i) : experts[i].get(0);
            routings[i] = experts[i] == null ? null : list.routing(i);
            biases[i] = list.bias(i);
            inputs[i] = input(list, i);
            outputs[i] = output(list, i);
            strides[2 * i] = list.input(i).stride();
            strides[2 * i + 1] = list.output(i).stride();
            rows[i] = list.rows(i);
        }
        for (WeightFormat format : WeightFormat.values()) {
            addPart(format);
        }
    }

    /// Whether each product at an even place and the one behind it can share blocks: of one format, shape and input, without bias.
    static boolean pairs(Projections list) {
        for (int i = 0; i < list.count(); i += 2) {
            Experts gates = list.experts(i);
            Experts ups = list.experts(i + 1);
            if ((gates == null) != (ups == null) || gates != null && list.routing(i) != list.routing(i + 1)) {
                return false;
            }
            Matrix gate = gates == null ? list.matrix(i) : gates.get(0);
            Matrix up = ups == null ? list.matrix(i + 1) : ups.get(0);
            if (gate.format() != up.format()
                    || gate.rows() != up.rows()
                    || gate.cols() != up.cols()
                    || input(list, i) != input(list, i + 1)
                    || list.input(i).stride() != list.input(i + 1).stride()
                    || list.rows(i) != list.rows(i + 1)
                    || list.bias(i) != null
                    || list.bias(i + 1) != null) {
                return false;
            }
        }
        return true;
    }

    private static long input(Projections list, int i) {
        return requireDevice(list.input(i)).addressAt(list.inputRow(i));
    }

    private static long output(Projections list, int i) {
        return requireDevice(list.output(i)).addressAt(list.outputRow(i));
    }

    private static Rows requireDevice(Rows rows) {
        if (rows.address() == 0) {
            throw new IllegalArgumentException("projection: expected rows on the device, got rows on the heap");
        }
        return rows;
    }

    /// Depends on what [#matches] compares.
    static int hash(Projections list, boolean gated) {
        int hash = gated ? -list.count() : list.count();
        for (int i = 0; i < list.count(); i++) {
            Experts e = list.experts(i);
            hash = 31 * hash + System.identityHashCode(e == null ? list.matrix(i) : e);
            hash = 31 * hash + Long.hashCode(input(list, i));
            hash = 31 * hash + Long.hashCode(output(list, i));
        }
        return hash;
    }

    /// Whether this is the plan of a list, which has the same number of rows in all single products.
    boolean matches(Projections list, boolean asGated) {
        if (!uniform || gated != asGated || list.count() != rows.length) {
            return false;
        }
        for (int i = 0; i < rows.length; i++) {
            Experts e = list.experts(i);
            if (experts[i] != e
                    || (e == null ? matrices[i] != list.matrix(i) : routings[i] != list.routing(i))
                    || biases[i] != list.bias(i)
                    || inputs[i] != input(list, i)
                    || outputs[i] != output(list, i)
                    || strides[2 * i] != list.input(i).stride()
                    || strides[2 * i + 1] != list.output(i).stride()) {
                return false;
            }
        }
        return true;
    }

    private void addPart(WeightFormat format) {
        int ofExperts = 0;
        boolean any = false;
        for (int i = 0; i < rows.length; i++) {
            any |= matrix(i).format() == format;
            Experts e = experts[i];
            ofExperts = e == null || matrix(i).format() != format ? ofExperts : Math.max(ofExperts, e.count());
        }
        if (any) {
            parts.add(new Part(format, addBlocks(format, false), addBlocks(format, true), ofExperts));
        }
    }

    private Blocks addBlocks(WeightFormat format, boolean wide) {
        int first = blocks.size();
        addBlocks(format, wide, false);
        int singles = blocks.size() - first;
        addBlocks(format, wide, true);
        return new Blocks(first, singles, blocks.size() - first - singles);
    }

    private void addBlocks(WeightFormat format, boolean wide, boolean ofExperts) {
        for (int i = 0; i < rows.length; i += gated ? 2 : 1) {
            Matrix w = matrix(i);
            if (w.format() == format && experts[i] != null == ofExperts) {
                int panels = wide ? WARPS : WARPS / CudaMatrix.slices(w.rows(), w.cols());
                for (int p = 0; p < w.panels(); p += panels) {
                    blocks.add(new int[] {i, p});
                }
            }
        }
    }

    private Matrix matrix(int i) {
        Matrix matrix = matrices[i];
        assert matrix != null;
        return matrix;
    }

    /// Bytes of the tables.
    long bytes() {
        return (long) PRODUCT_BYTES * rows.length + (long) BLOCK_BYTES * blocks.size();
    }

    /// Writes the tables that go to an address of the device.
    void write(Projections list, CudaTensors tensors, MemorySegment out, long to) {
        address = to;
        for (int i = 0; i < rows.length; i++) {
            writeProduct(list, i, tensors, out.asSlice((long) PRODUCT_BYTES * i, PRODUCT_BYTES));
        }
        long at = (long) PRODUCT_BYTES * rows.length;
        for (int[] block : blocks) {
            out.set(JAVA_INT, at, block[0]);
            out.set(JAVA_INT, at + 4, block[1]);
            at += BLOCK_BYTES;
        }
    }

    private void writeProduct(Projections list, int i, CudaTensors tensors, MemorySegment out) {
        Experts e = experts[i];
        float[] bias = biases[i];
        CudaMatrix w = tensors.matrix(matrix(i));
        out.set(JAVA_LONG, 0, e == null ? w.address() : tensors.address(e));
        out.set(JAVA_LONG, 8, inputs[i]);
        // What is gated goes where its gate finds it.
        out.set(JAVA_LONG, 16, outputs[gated ? i & -2 : i]);
        out.set(JAVA_LONG, 24, bias == null ? 0 : tensors.address(bias));
        out.set(JAVA_LONG, 32, e == null ? 0 : list.routing(i).firstSlotAddress());
        out.set(JAVA_LONG, 40, w.panelBytes());
        out.set(JAVA_INT, 48, w.host().rows());
        out.set(JAVA_INT, 52, w.host().cols());
        out.set(JAVA_INT, 56, strides[2 * i]);
        out.set(JAVA_INT, 60, strides[2 * (gated ? i & -2 : i) + 1]);
        out.set(JAVA_INT, 64, uniform ? ROWS_OF_LAUNCH : rows[i]);
        out.set(JAVA_INT, 68, w.slices());
        out.set(JAVA_INT, 72, e == null ? 0 : e.count());
        out.set(JAVA_INT, 76, gated ? 1 + i % 2 : 0);
    }

    /// Parts, one for each format that occurs.
    List<Part> parts() {
        return parts;
    }

    /// Address of the products.
    long products() {
        return address;
    }

    /// Address of an entry of `blocks`.
    long blocks(int i) {
        return address + (long) PRODUCT_BYTES * rows.length + (long) BLOCK_BYTES * i;
    }
}

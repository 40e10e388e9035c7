package millrace.engine;

import java.util.List;
import java.util.Map;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;

/// The operations of [KernelBench] that a backend may do at once, and beside each those that it is made of.
final class FusionBench {
    private static final int[] BATCHES = {1, 8};

    /// Rows take a microsecond or so: a pass norms them many times.
    private static final int NORMS = 256;

    private static final List<String> WAYS = List.of("", KernelBench.APART);

    private final KernelBench bench;
    private final Backend backend;
    private final Kernels kernels;
    private final Rows x;
    private final Rows gate;
    private final Rows up;

    /// @param x input of products, `[row][cols]`
    /// @param gate room for their results, `[row][rows]`
    FusionBench(KernelBench bench, Backend backend, Rows x, Rows gate) {
        this.bench = bench;
        this.backend = backend;
        this.x = x;
        this.gate = gate;
        kernels = backend.kernels();
        up = kernels.rows(KernelBench.MOST_ROWS, gate.width());
    }

    /// @param matrices of each format, in copies
    void add(Map<WeightFormat, List<Matrix>> matrices) {
        for (int batch : BATCHES) {
            for (String way : WAYS) {
                matrices.forEach((format, copies) -> gated(format, copies, batch, way));
                addNorm(batch, way);
            }
        }
    }

    /// Products of a gate and of what it gates, and the activation.
    private void gated(WeightFormat format, List<Matrix> copies, int batch, String way) {
        Matrix first = copies.getFirst();
        long bytes = 2 * first.data().byteSize();
        int perPass = kernels.memoryBytes() > 0 ? bench.operations(kernels, bytes, Integer.MAX_VALUE) : 1;
        var list = new Projections(2);
        var next = new int[1];
        String shape = "2 of " + first.rows() + " x " + first.cols();
        long flops = 4L * first.rows() * first.cols() * batch * perPass;
        double tokens = (double) batch * perPass;
        var one = new KernelBench.Case(
                "gated" + way, backend.name(), format.id(), shape, batch, bytes * perPass, flops, tokens);
        bench.add(one, () -> {
            for (int i = 0; i < perPass; i++) {
                list.clear()
                        .add(gate, copies.get(next[0]++ % copies.size()), null, x, batch)
                        .add(up, copies.get(next[0]++ % copies.size()), null, x, batch);
                if (way.isEmpty()) {
                    kernels.projectGated(list, gate, up, batch);
                } else {
                    kernels.project(list);
                    kernels.swiglu(gate, up, batch);
                }
            }
            kernels.fetch(gate, 1);
        });
    }

    /// The sum of two rows, and its norm.
    private void addNorm(int batch, String way) {
        int width = x.width();
        float[] weight = new float[width];
        kernels.adopt(weight);
        Rows sum = KernelBench.random(kernels, batch, width);
        Rows y = kernels.hostRows(batch, width);
        long numbers = (long) NORMS * batch * width;
        double tokens = (double) batch * NORMS;
        var one = new KernelBench.Case(
                "addnorm" + way, backend.name(), "f32", "rows of " + width, batch, 16 * numbers, 5 * numbers, tokens);
        bench.add(one, () -> {
            for (int i = 0; i < NORMS; i++) {
                if (way.isEmpty()) {
                    kernels.addNorm(y, sum, x, weight, 1e-6f, batch);
                } else {
                    kernels.add(sum, x, batch);
                    kernels.rmsNorm(y, sum, weight, 1e-6f, batch, 1);
                }
            }
            kernels.fetch(y, 1);
        });
    }
}

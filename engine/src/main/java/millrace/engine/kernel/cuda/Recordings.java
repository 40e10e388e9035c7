package millrace.engine.kernel.cuda;

import millrace.engine.kernel.StepInputs;
import org.jspecify.annotations.Nullable;

/// The recorded steps of one set of inputs, one for each bucket.
///
/// The first step of a bucket runs as it is: kernels are loaded and tables made, which a capture may not do. The second is
/// captured, and that and all later ones are one call.
final class Recordings {
    private final Gpu gpu;
    private final @Nullable Graph[] graphs = new Graph[StepInputs.MOST_BUCKET + 1];
    private final boolean[] ran = new boolean[graphs.length];
    private @Nullable Runnable operations;

    Recordings(Gpu gpu) {
        this.gpu = gpu;
    }

    /// Runs the step, as it is or as it was recorded.
    ///
    /// @param step the operations, always the same
    void run(int bucket, Runnable step) {
        if (operations == null) {
            operations = step;
        } else if (operations != step) {
            throw new IllegalArgumentException("cuda: expected the operations that were recorded, got others");
        }
        Graph graph = graphs[bucket];
        if (graph == null && ran[bucket]) {
            graph = gpu.capture("the step for " + bucket + " rows", step);
            graphs[bucket] = graph;
        }
        if (graph != null) {
            gpu.launch(graph);
        } else {
            step.run();
            ran[bucket] = true;
        }
    }
}

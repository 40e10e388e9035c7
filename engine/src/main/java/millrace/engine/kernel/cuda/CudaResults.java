package millrace.engine.kernel.cuda;

import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// What a step gives to the host: what is known of its logits, the tokens that are drawn from them, and the rows that somebody
/// reads there.
final class CudaResults {
    private final Gpu gpu;
    private final CudaGuard guard;
    private final CudaDraws draws;

    CudaResults(Gpu gpu) {
        this.gpu = gpu;
        guard = new CudaGuard(gpu);
        draws = new CudaDraws(gpu);
    }

    RowFacts facts(int maxRows, int width) {
        RowFacts facts = guard.allocate(maxRows, width);
        draws.allocate(facts);
        return facts;
    }

    /// As [CudaGuard#inspect].
    void inspect(RowFacts facts, Rows x, int rows, long live) {
        guard.inspect(facts, x, rows, live);
    }

    /// Brings what is known of the first rows.
    void fetch(RowFacts facts, int rows) {
        guard.fetch(facts, rows);
    }

    /// Has the tokens of the logits drawn, and brings them, what is known of the logits, the rows that are not drawn, and the
    /// first rows of another matrix.
    ///
    /// @param facts null where nothing is known of them: then all rows are brought
    void fetch(Rows logits, HostSide ofLogits, HostSide other, @Nullable RowFacts facts, int rows) {
        other.queueFetchRows(0, rows);
        if (facts == null) {
            ofLogits.queueFetchRows(0, rows);
        } else {
            guard.queueFetch(facts, rows);
            draws.queue(facts, logits, ofLogits, rows);
        }
        gpu.synchronize();
        other.takeRows(0, rows);
        if (facts == null) {
            ofLogits.takeRows(0, rows);
        } else {
            guard.take(facts, rows);
            draws.take(facts, ofLogits, rows);
        }
    }

    /// Brings a row of logits that stayed where it was.
    void bring(RowFacts facts, HostSide ofLogits, int row) {
        draws.bring(facts, ofLogits, row);
    }
}

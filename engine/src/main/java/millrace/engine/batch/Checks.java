package millrace.engine.batch;

import java.util.List;
import millrace.engine.Golden;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityLedger;
import millrace.engine.Products;

/// What a loop checks while it computes, and whom it tells.
///
/// @param watch who checks the weights
/// @param goldens prompts whose completions are known, of the engine's own setting; without any, the first answer to a
///        prompt of the loop's own is what later ones are compared with
/// @param products products of integers that the kernels compute twice
public record Checks(
        IntegrityConfig config, IntegrityLedger ledger, WeightWatch watch, List<Golden> goldens, Products products) {
    /// Without products that are computed twice.
    public Checks(IntegrityConfig config, IntegrityLedger ledger, WeightWatch watch, List<Golden> goldens) {
        this(config, ledger, watch, goldens, Products.NONE);
    }

    public Checks {
        goldens = List.copyOf(goldens);
    }
}

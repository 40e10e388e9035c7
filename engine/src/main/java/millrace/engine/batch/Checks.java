package millrace.engine.batch;

import java.util.List;
import millrace.engine.Golden;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityLedger;

/// What a loop checks while it computes, and whom it tells.
///
/// @param watch who checks the weights
/// @param goldens prompts whose completions are known, of the engine's own setting; without any, the first answer to a
///        prompt of the loop's own is what later ones are compared with
public record Checks(IntegrityConfig config, IntegrityLedger ledger, WeightWatch watch, List<Golden> goldens) {
    public Checks {
        goldens = List.copyOf(goldens);
    }
}

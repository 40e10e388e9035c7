package millrace.streams.bench;

import java.util.List;
import millrace.engine.DraftStats;
import millrace.engine.Engine;
import millrace.engine.ModelCard;
import millrace.engine.ModelInspection;
import org.jspecify.annotations.Nullable;

/// An engine that is being measured, and what opening it has cost.
///
/// @param label the model's name in results
/// @param prompts of what decodes
/// @param residentBytes by how much the process grew
record OpenVariant(
        String label, EngineBench.Variant variant, Engine engine, ModelInspection model, List<Integer> batches,
        DecodeRun.Prompts prompts, double openSeconds, long residentBytes) implements AutoCloseable {

    String backend() {
        return engine.card().backend();
    }

    /// What was asked for, or what most of the checkpoint has.
    String format() {
        return variant.weights().equals("stored") ? engine.card().weightFormat().split("\\+", 2)[0] : variant.weights();
    }

    String kv() {
        return engine.card().kvFormat();
    }

    BenchResult result(String bench, int batch, int threads) {
        ModelCard card = engine.card();
        BenchResult result = new BenchResult(bench, backend(), format(), batch, threads);
        result.label("model", label).label("kv_format", kv()).label("speculation", variant.speculation().id());
        result.fact("parameters", card.parameters()).fact("active_parameters", model.activeParameters());
        result.fact("weights_bytes", card.memory().weights()).fact("kv_bytes_per_token", card.kvBytesPerToken());
        result.fact("plan_bytes", card.memory().total()).fact("rss_growth_bytes", residentBytes);
        result.fact("open_millis", Math.round(openSeconds * 1e3));
        return result;
    }

    /// Tokens per second of a batch; NaN if a sequence ended too early to tell.
    ///
    /// @param round of the measurement; prompts that are text are others in each
    /// @param cold whether the prompts have to be computed; afterwards they come out of the prefix cache, if there is one
    /// @param filled whether prompts are filled in rather than computed
    /// @param result takes what came of drafts, if there are any; null where nobody asks
    double decode(
            int batch, int context, int steps, int round, boolean cold, boolean filled, @Nullable BenchResult result) {
        if (cold && filled) {
            DecodeRun.prompts(engine, batch, context);
        }
        boolean computed = !prompts.random() || cold && !filled;
        int first = prompts.random() ? 0 : (round + 1) * batch;
        DraftStats before = engine.stats().drafts();
        double rate = DecodeRun.tokensPerSecond(engine, prompts, first, batch, context, steps, perStep(), computed);
        if (Double.isNaN(rate)) {
            rate = DecodeRun.tokensPerSecond(engine, prompts, first, batch, context, steps, perStep(), true);
        }
        if (result != null && variant.drafts()) {
            accepted(before, engine.stats().drafts(), result);
        }
        return rate;
    }

    /// The most tokens that a step gives a sequence.
    private int perStep() {
        return variant.drafts() ? 1 + variant.speculation().tokens() : 1;
    }

    /// Of the drafts that were checked at each position, the share that was met.
    private static void accepted(DraftStats before, DraftStats after, BenchResult result) {
        for (int position = 0; position < after.drafted().size(); position++) {
            long drafted = after.drafted().get(position) - before.drafted().get(position);
            long accepted = after.accepted().get(position) - before.accepted().get(position);
            if (drafted > 0) {
                result.sample("accepted_" + (position + 1), (double) accepted / drafted);
            }
        }
    }

    /// Bytes of weights that a step reads, NaN where that depends on the experts that the tokens choose. An embedding
    /// that is not the output projection too is read row by row, which is nothing.
    double bytesPerStep(int batch) {
        long all = model.parameters();
        boolean sparse = model.activeParameters() < all;
        if (sparse && batch > 1) {
            return Double.NaN;
        }
        boolean tied = !model.parametersByPart().containsKey("output head");
        long embedding = tied ? 0 : model.parametersByPart().getOrDefault("embedding", 0L);
        return (double) engine.card().memory().weights() * (model.activeParameters() - embedding) / all;
    }

    @Override
    public void close() {
        engine.close();
    }
}

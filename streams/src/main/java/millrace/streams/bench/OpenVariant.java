package millrace.streams.bench;

import java.util.List;
import millrace.engine.Engine;
import millrace.engine.ModelCard;
import millrace.engine.ModelInspection;

/// An engine that is being measured, and what opening it has cost.
///
/// @param label the model's name in results
/// @param residentBytes by how much the process grew
record OpenVariant(
        String label, EngineBench.Variant variant, Engine engine, ModelInspection model, List<Integer> batches, double openSeconds,
        long residentBytes) implements AutoCloseable {

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
        result.label("model", label).label("kv_format", kv());
        result.fact("parameters", card.parameters()).fact("active_parameters", model.activeParameters());
        result.fact("weights_bytes", card.memory().weights()).fact("kv_bytes_per_token", card.kvBytesPerToken());
        result.fact("plan_bytes", card.memory().total()).fact("rss_growth_bytes", residentBytes);
        result.fact("open_millis", Math.round(openSeconds * 1e3));
        return result;
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

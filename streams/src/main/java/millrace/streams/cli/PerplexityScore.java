package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import millrace.engine.Engine;
import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;

/// Mean negative log-likelihood of a text in windows.
final class PerplexityScore {
    private final TextWindows windows;
    private double sum;
    private long done;
    private long tokensDone;

    PerplexityScore(TextWindows windows) {
        this.windows = windows;
    }

    void run(Engine engine, int maxBatch, PrintWriter err) throws InterruptedException {
        Progress progress = new Progress(err, "windows", windows.count());
        var results = new InOrder<Part>(2 * maxBatch, this::count, () -> progress.show(done, tokensDone));
        for (List<Integer> ids : windows.all()) {
            results.add(score(engine, ids));
        }
        results.finish();
        progress.end(done, tokensDone);
    }

    private record Part(int tokens, double sum, @Nullable String problem) {}

    private static CompletableFuture<Part> score(Engine engine, List<Integer> ids) {
        var part = new CompletableFuture<Part>();
        if (ids.size() == 1) {
            part.complete(new Part(1, 0, null));
            return part;
        }
        int vocabSize = engine.card().vocabSize();
        engine.score("window", ids, true, new ScoreListener() {
            private double nll;

            @Override
            public void onLogits(int position, float[] logits, int offset) {
                if (position + 1 < ids.size()) {
                    nll += NextToken.logSum(logits, offset, vocabSize) - logits[offset + ids.get(position + 1)];
                }
            }

            @Override
            public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                part.complete(new Part(ids.size(), nll, reason == FinishReason.LENGTH ? null : errorCode + ": " + errorMessage));
            }
        });
        return part;
    }

    // Windows come in order, so the sum does not depend on the batch.
    private void count(Part part) {
        if (part.problem() != null) {
            throw new IllegalStateException(part.problem());
        }
        done++;
        tokensDone += part.tokens();
        sum += part.sum();
    }

    void report(ObjectNode report) {
        report(report, windows, sum);
    }

    /// @param sum of the negative log-likelihoods of all predicted tokens
    static void report(ObjectNode report, TextWindows windows, double sum) {
        double mean = sum / windows.predicted();
        report.put("window", windows.window())
                .put("tokens", windows.ids().size())
                .put("predicted_tokens", windows.predicted())
                .put("mean_nll", mean)
                .put("perplexity", Math.exp(mean));
    }
}

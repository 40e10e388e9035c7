package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import millrace.engine.Engine;
import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;

/// Mean negative log-likelihood of a text in consecutive windows; each window's first token is not predicted, the last
/// window may be shorter.
final class PerplexityScore {
    private final List<Integer> tokens;
    private final int window;
    private long predicted;
    private double sum;
    private long done;
    private long tokensDone;

    private PerplexityScore(List<Integer> tokens, int window) {
        this.tokens = tokens;
        this.window = window;
    }

    static PerplexityScore read(Path file, int window) throws IOException {
        List<Integer> tokens = JsonLines.ids(JsonLines.file(file), file.toString());
        if (tokens.size() < 2) {
            throw new IllegalArgumentException(file + ": expected at least 2 token ids, got " + tokens.size());
        }
        return new PerplexityScore(tokens, window);
    }

    void run(Engine engine, int maxBatch, PrintWriter err) throws InterruptedException {
        Progress progress = new Progress(err, "windows", Math.ceilDiv(tokens.size(), window));
        var results = new InOrder<Part>(2 * maxBatch, this::count, () -> progress.show(done, tokensDone));
        for (int from = 0; from < tokens.size(); from += window) {
            results.add(score(engine, tokens.subList(from, Math.min(tokens.size(), from + window))));
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
                    nll += negativeLogLikelihood(logits, offset, vocabSize, ids.get(position + 1));
                }
            }

            @Override
            public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                part.complete(new Part(ids.size(), nll, reason == FinishReason.LENGTH ? null : errorCode + ": " + errorMessage));
            }
        });
        return part;
    }

    /// `ln Σ exp(logits) − logits[token]`, in double.
    static double negativeLogLikelihood(float[] logits, int offset, int vocabSize, int token) {
        double top = Double.NEGATIVE_INFINITY;
        for (int i = 0; i < vocabSize; i++) {
            top = Math.max(top, logits[offset + i]);
        }
        double sum = 0;
        for (int i = 0; i < vocabSize; i++) {
            sum += Math.exp(logits[offset + i] - top);
        }
        return Math.log(sum) + top - logits[offset + token];
    }

    // Windows come in order, so the sum does not depend on the batch.
    private void count(Part part) {
        if (part.problem() != null) {
            throw new IllegalStateException(part.problem());
        }
        done++;
        tokensDone += part.tokens();
        predicted += part.tokens() - 1;
        sum += part.sum();
    }

    void report(ObjectNode report) {
        double mean = sum / predicted;
        report.put("window", window)
                .put("tokens", tokens.size())
                .put("predicted_tokens", predicted)
                .put("mean_nll", mean)
                .put("perplexity", Math.exp(mean));
    }
}

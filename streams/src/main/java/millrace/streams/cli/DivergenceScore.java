package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import millrace.engine.Engine;
import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;

/// How far an engine's distributions of the next token are from a reference's, at every predicted token of a text.
///
/// The engines take turns, window by window: first the reference, whose logits of one window are kept, then the other,
/// whose logits are compared as they come. So the memory for it is one window of logits, and the engines do not compete
/// for the processor.
final class DivergenceScore {
    private final TextWindows windows;
    private final Rows rows = new Rows();
    private final double[] divergences;
    private int compared;
    private int agreeing;
    private double referenceSum;
    private double sum;

    DivergenceScore(TextWindows windows) {
        this.windows = windows;
        this.divergences = new double[windows.predicted()];
    }

    /// The reference's logits of the running window.
    private static final class Rows {
        private final List<float[]> logits = new ArrayList<>();

        void set(int position, float[] from, int offset, int vocabSize) {
            if (position == logits.size()) {
                logits.add(new float[vocabSize]);
            }
            System.arraycopy(from, offset, logits.get(position), 0, vocabSize);
        }
    }

    /// Takes one row of logits.
    private interface Sink {
        void take(int position, float[] logits, int offset);
    }

    void run(Engine reference, Engine measured, PrintWriter err) throws InterruptedException {
        int vocabSize = measured.card().vocabSize();
        if (reference.card().vocabSize() != vocabSize) {
            throw new IllegalArgumentException("reference: expected a vocabulary of " + vocabSize + " tokens, got "
                    + reference.card().vocabSize() + "; compare two formats of one model");
        }
        Progress progress = new Progress(err, "windows", windows.count());
        long done = 0;
        long tokens = 0;
        for (List<Integer> ids : windows.all()) {
            if (ids.size() > 1) {
                score(reference, ids, (position, logits, offset) -> rows.set(position, logits, offset, vocabSize));
                score(measured, ids, (position, logits, offset) ->
                        compare(rows.logits.get(position), logits, offset, vocabSize, ids.get(position + 1)));
            }
            done++;
            tokens += ids.size();
            progress.show(done, tokens);
        }
        progress.end(done, tokens);
    }

    private void compare(float[] expected, float[] logits, int offset, int vocabSize, int target) {
        double expectedLogSum = NextToken.logSum(expected, 0, vocabSize);
        double logSum = NextToken.logSum(logits, offset, vocabSize);
        referenceSum += expectedLogSum - expected[target];
        sum += logSum - logits[offset + target];
        divergences[compared++] =
                NextToken.divergence(expected, 0, expectedLogSum, logits, offset, logSum, vocabSize);
        if (NextToken.largest(expected, 0, vocabSize) == NextToken.largest(logits, offset, vocabSize)) {
            agreeing++;
        }
    }

    private static void score(Engine engine, List<Integer> ids, Sink sink) throws InterruptedException {
        var end = new CompletableFuture<String>();
        engine.score("window", ids, true, new ScoreListener() {
            @Override
            public void onLogits(int position, float[] logits, int offset) {
                if (position + 1 < ids.size()) {
                    sink.take(position, logits, offset);
                }
            }

            @Override
            public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                end.complete(reason == FinishReason.LENGTH ? "" : reason + ": " + errorCode + ": " + errorMessage);
            }
        });
        try {
            String problem = end.get();
            if (!problem.isEmpty()) {
                throw new IllegalStateException("window of the text: " + problem);
            }
        } catch (ExecutionException e) {
            throw new IllegalStateException("a future that is only completed cannot fail", e);
        }
    }

    /// @param report gets the figures of the comparison
    /// @param nll gets those of the engine alone
    /// @param referenceNll gets those of the reference alone
    void report(ObjectNode report, ObjectNode nll, ObjectNode referenceNll) {
        PerplexityScore.report(nll, windows, sum);
        PerplexityScore.report(referenceNll, windows, referenceSum);
        double[] sorted = divergences.clone();
        Arrays.sort(sorted);
        report.put("predicted_tokens", compared)
                .put("mean_kl", Arrays.stream(divergences).sum() / compared)
                .put("p99_kl", rank(sorted, 0.99))
                .put("max_kl", sorted[sorted.length - 1])
                .put("top1_agreement", (double) agreeing / compared)
                .put("delta_nll", (sum - referenceSum) / compared);
    }

    /// The smallest value that at least this share of all values does not exceed.
    static double rank(double[] sorted, double share) {
        return sorted[(int) Math.ceil(share * sorted.length) - 1];
    }
}

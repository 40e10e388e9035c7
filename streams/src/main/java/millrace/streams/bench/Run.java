package millrace.streams.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.TextEngine;

/// Runs requests on an engine directly, without Kafka.
final class Run {
    private Run() {}

    /// Submits all at once and returns the results in order; a failed one ends the measurement.
    static List<GenerationResult> all(TextEngine engine, List<GenerationRequest> requests) {
        GenerationResult[] results = new GenerationResult[requests.size()];
        CountDownLatch open = new CountDownLatch(requests.size());
        for (int i = 0; i < results.length; i++) {
            int at = i;
            engine.submit(engine.prepare(requests.get(i)), result -> {
                results[at] = result;
                open.countDown();
            });
        }
        try {
            open.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while measuring", e);
        }
        for (GenerationResult result : results) {
            if (result.reason() == FinishReason.FAILED) {
                throw new IllegalStateException("a generation failed: " + result.errorCode() + ": " + result.errorMessage());
            }
        }
        return new ArrayList<>(Arrays.asList(results));
    }
}

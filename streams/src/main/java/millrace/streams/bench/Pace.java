package millrace.streams.bench;

import java.time.Duration;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.schemas.Prompt;

/// A [PacedEngine] and the prompts that it is given: all that its rate follows from.
///
/// @param step from token to token
/// @param batch prompts that run at once
/// @param tokens of each answer
public record Pace(Duration step, int batch, int tokens) {
    /// What one engine gives with a full batch.
    double tokensPerSecond() {
        return batch / (step.toNanos() / 1e9);
    }

    /// What one engine answers with a full batch.
    double promptsPerSecond() {
        return tokensPerSecond() / tokens;
    }

    PacedEngine engine() {
        return new PacedEngine(step, batch);
    }

    /// Makes a prompt that is answered with as many tokens as all others.
    Prompt prompt(String id) {
        String words = IntStream.range(0, tokens).mapToObj(i -> "word" + i).collect(Collectors.joining(" "));
        return Prompt.newBuilder().setRequestId(id).setPrompt(words).build();
    }

    /// Names the engine in a row of a report.
    BenchResult result(String bench) {
        return new BenchResult(bench, "paced", "none", batch, 1)
                .label("step_ms", Long.toString(step.toMillis())).label("tokens", Integer.toString(tokens));
    }
}

package millrace.streams.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.ReadBandwidth;

/// Decode against the limit: bytes of weights per token over the bandwidth that a plain read loop gets in the same run.
public final class DecodeBench {
    /// Of one round: tokens per second, the weight bytes that they read per second, and the read loop's bytes per second.
    public record Round(double tokensPerSecond, double decodeBytesPerSecond, double readBytesPerSecond) {
        public double ratio() {
            return decodeBytesPerSecond / readBytesPerSecond;
        }
    }

    private static final long READ_BYTES = 1L << 30;

    private final EngineConfig config;
    private final int tokens;
    private final int rounds;
    private final Consumer<String> progress;

    public DecodeBench(EngineConfig config, int tokens, int rounds, Consumer<String> progress) {
        this.config = config;
        this.tokens = tokens;
        this.rounds = rounds;
        this.progress = progress;
    }

    /// Reading and decoding take turns, so that a change of the machine's mood meets both.
    public List<Round> run() {
        List<Round> all = new ArrayList<>();
        try (ReadBandwidth memory = new ReadBandwidth(config.threads(), READ_BYTES);
                Engine engine = Engine.open(config)) {
            // Dense models only: every weight is read for every token, embeddings by the output projection.
            long bytesPerToken = engine.card().parameters() * 2;
            progress.accept("warm-up");
            decode(engine, Math.max(8, tokens / 2));
            memory.bytesPerSecond();
            for (int round = 0; round < rounds; round++) {
                double before = memory.bytesPerSecond();
                double perSecond = decode(engine, tokens);
                double after = memory.bytesPerSecond();
                all.add(new Round(perSecond, perSecond * bytesPerToken, (before + after) / 2));
                progress.accept("round %d: %.1f tokens/s, %.1f of %.1f GB/s".formatted(
                        round + 1, perSecond, perSecond * bytesPerToken / 1e9, (before + after) / 2e9));
            }
        }
        return all;
    }

    /// Tokens per second from the first to the last generated token.
    private static double decode(Engine engine, int tokens) {
        SplittableRandom random = new SplittableRandom(7);
        List<Integer> prompt = random.ints(8, 1, 200).boxed().toList();
        GenerationResult result = Run.all(engine, List.of(
                GenerationRequest.greedy("decode", new PromptInput.TokenIds(prompt), tokens))).getFirst();
        return (result.usage().completionTokens() - 1) / (result.timings().decodeNanos() / 1e9);
    }
}

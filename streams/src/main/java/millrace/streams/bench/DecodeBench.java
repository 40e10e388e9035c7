package millrace.streams.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;

/// Decode against the limit: bytes of weights per token over the bandwidth that a plain read loop gets in the same run.
public final class DecodeBench {
    /// Of one round: tokens per second, the weight bytes that they read per second, and the read loop's bytes per second.
    public record Round(double tokensPerSecond, double decodeBytesPerSecond, double readBytesPerSecond) {
        public double ratio() {
            return decodeBytesPerSecond / readBytesPerSecond;
        }
    }

    private static final int READ_MIB_PER_THREAD = 512;

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
        int threads = config.threads() == 0 ? Runtime.getRuntime().availableProcessors() : config.threads();
        long[][] memory = new long[threads][READ_MIB_PER_THREAD << 17];
        for (long[] part : memory) {
            Arrays.setAll(part, i -> i);
        }
        List<Round> all = new ArrayList<>();
        try (Engine engine = Engine.open(config)) {
            // Dense models only: every weight is read for every token, embeddings by the output projection.
            long bytesPerToken = engine.card().parameters() * 2;
            progress.accept("warm-up");
            decode(engine, Math.max(8, tokens / 2));
            read(memory);
            for (int round = 0; round < rounds; round++) {
                double before = read(memory);
                double perSecond = decode(engine, tokens);
                double after = read(memory);
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

    /// Bytes per second of adding up all numbers, one thread per part.
    private static double read(long[][] memory) {
        CountDownLatch done = new CountDownLatch(memory.length);
        long[] sums = new long[memory.length * 16];
        long start = System.nanoTime();
        for (int t = 0; t < memory.length; t++) {
            int part = t;
            new Thread(() -> {
                sums[part * 16] = sum(memory[part]);
                done.countDown();
            }, "read-" + t).start();
        }
        try {
            done.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        for (int t = 0; t < memory.length; t++) {
            long n = memory[t].length;
            if (sums[t * 16] != n * (n - 1) / 2) {
                throw new IllegalStateException("the read loop added up " + sums[t * 16] + ", expected " + n * (n - 1) / 2);
            }
        }
        return memory.length * (double) memory[0].length * Long.BYTES / seconds;
    }

    private static long sum(long[] values) {
        long a = 0;
        long b = 0;
        long c = 0;
        long d = 0;
        for (int i = 0; i < values.length; i += 4) {
            a += values[i];
            b += values[i + 1];
            c += values[i + 2];
            d += values[i + 3];
        }
        return a + b + c + d;
    }
}

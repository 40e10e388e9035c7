package millrace.engine.bench;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import millrace.engine.DeveloperModels;
import millrace.engine.KvFormat;
import millrace.engine.batch.StepPlan;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.cpu.ThreadTeam;
import millrace.engine.kernel.vector.ReadLoop;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.ModelWeights;
import millrace.engine.model.TensorExpectation;
import millrace.engine.model.Transformer;
import millrace.engine.weights.ModelFiles;

/// Prefill and decode of a whole model, beside a loop that reads as many bytes as the weights of a step have.
///
/// ```
/// java --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED \
///      -cp … millrace.engine.bench.TransformerBenchmark DIR [threads] [kv format] [rounds]
/// ```
///
/// Writes a random Llama of about 1 B parameters into `DIR` if there is none. Prints medians and quartiles over the
/// rounds; the read loop runs in each round.
public final class TransformerBenchmark {
    private static final int CHUNK = 256;
    private static final int DECODE_STEPS = 8;
    private static final int[] BATCHES = {1, 4, 16};

    private TransformerBenchmark() {}

    public static void main(String[] args) throws IOException {
        Path dir = Path.of(args[0]);
        int threads = args.length > 1 ? Integer.parseInt(args[1]) : 2;
        KvFormat format = KvFormat.ofId(args.length > 2 ? args[2] : "bf16");
        int rounds = args.length > 3 ? Integer.parseInt(args[3]) : 5;
        if (!Files.exists(dir.resolve("config.json"))) {
            DeveloperModels.writeRandomLlama(dir, 1, DeveloperModels.LlamaShape.oneBillion());
        }
        try (Backend backend = Backend.open("auto", threads);
                ThreadTeam readers = new ThreadTeam(threads);
                Arena arena = Arena.ofShared();
                ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig config = ModelConfig.read(files);
            long parameters = TensorExpectation.check(config, files);
            long start = System.nanoTime();
            try (ModelWeights weights = ModelWeights.load(config, files, backend.kernels());
                    PagePool pool = new PagePool(Transformer.kvLayout(config, format), 1L << 30)) {
                System.out.printf(
                        Locale.ROOT,
                        "%s, %.2f B parameters, %s, KV %s, loaded in %.1f s%n",
                        config.architecture(),
                        parameters * 1e-9,
                        backend.reason(),
                        format.id(),
                        (System.nanoTime() - start) * 1e-9);
                long bytes = 2 * parameters;
                long buffer = Memory.allocate(arena, bytes, "the read loop").address();
                var run = new Run(config, weights, pool, backend, readers, buffer, bytes);
                run.prefill(rounds);
                for (int batch : BATCHES) {
                    run.decode(batch, rounds);
                }
            }
        }
    }

    private static final class Run {
        private final Transformer transformer;
        private final PagePool pool;
        private final StepPlan plan = new StepPlan(16, CHUNK);
        private final ThreadTeam readers;
        private final long buffer;
        private final long bytes;
        private final int[] ids = new int[1024];

        Run(
                ModelConfig config,
                ModelWeights weights,
                PagePool pool,
                Backend backend,
                ThreadTeam readers,
                long buffer,
                long bytes) {
            this.pool = pool;
            this.readers = readers;
            this.buffer = buffer;
            this.bytes = bytes;
            transformer = new Transformer(config, weights, pool, backend.kernels(), CHUNK, 16);
            for (int i = 0; i < ids.length; i++) {
                ids[i] = i * 7919 % config.vocabSize();
            }
        }

        void prefill(int rounds) {
            double[] rates = new double[rounds];
            PageTable table = new PageTable(pool);
            for (int round = -1; round < rounds; round++) {
                table.release();
                long start = System.nanoTime();
                step(table, 0, CHUNK, Logits.LAST);
                if (round >= 0) {
                    rates[round] = CHUNK / seconds(start);
                }
            }
            table.release();
            print("prefill of " + CHUNK + " tokens", rates, "tokens/s");
        }

        void decode(int batch, int rounds) {
            double[] tokens = new double[rounds];
            double[] rates = new double[rounds];
            double[] shares = new double[rounds];
            PageTable[] tables = new PageTable[batch];
            for (int i = 0; i < batch; i++) {
                tables[i] = new PageTable(pool);
                step(tables[i], 0, 32, Logits.NONE);
            }
            int position = 32;
            for (int round = -2; round < rounds; round++) {
                long start = System.nanoTime();
                ReadLoop.run(readers, buffer, bytes);
                double read = seconds(start);
                start = System.nanoTime();
                for (int i = 0; i < DECODE_STEPS; i++, position++) {
                    plan.clear();
                    for (PageTable table : tables) {
                        table.ensure(position + 1);
                        plan.add(table, ids, position, 1, position, Logits.LAST);
                    }
                    transformer.forward(plan);
                }
                double step = seconds(start) / DECODE_STEPS;
                if (round >= 0) {
                    tokens[round] = batch / step;
                    rates[round] = bytes / step * 1e-9;
                    shares[round] = 100 * read / step;
                }
            }
            for (PageTable table : tables) {
                table.release();
            }
            print("decode, batch " + batch, tokens, "tokens/s");
            print("  weights", rates, "GB/s");
            print("  of the read loop", shares, "%");
        }

        private void step(PageTable table, int from, int count, Logits wanted) {
            table.ensure(from + count);
            plan.clear();
            plan.add(table, ids, from, count, from, wanted);
            transformer.forward(plan);
        }
    }

    private static double seconds(long start) {
        return (System.nanoTime() - start) * 1e-9;
    }

    private static void print(String what, double[] values, String unit) {
        Arrays.sort(values);
        int n = values.length;
        System.out.printf(
                Locale.ROOT,
                "%-24s %8.1f %s (%.1f to %.1f)%n",
                what,
                values[n / 2],
                unit,
                values[n / 4],
                values[n * 3 / 4]);
    }
}

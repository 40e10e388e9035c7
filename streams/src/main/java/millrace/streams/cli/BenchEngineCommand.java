package millrace.streams.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.engine.CacheFormats;
import millrace.engine.CudaConfig;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.engine.EngineConfig;
import millrace.engine.FreeMemory;
import millrace.engine.KvFormat;
import millrace.engine.Speculation;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.EngineBench;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// A whole model.
@Command(name = "engine", mixinStandardHelpOptions = true,
        description = "Prefill and decode of a whole model, by weight format, KV format, batch and context, and the "
                + "memory that it takes.",
        footer = {
            "",
            "Examples:",
            "  millrace bench engine --model random:llama:1b --batch 1,8 --json",
            "  millrace bench engine --model DIR --kv int8 --context 4096",
            "  millrace bench engine --model DIR --speculation off,mtp:1,mtp:2 --batch 1,2,4,8",
            "  millrace bench engine --model glm-tiny-mtp --text play.txt --speculation off,mtp:1,mtp:2 --batch 1",
            "  millrace bench engine --model random:glm-5.2:2l --context 4096,32768 --fill --batch 1",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchEngineCommand implements Callable<Integer> {
    @Mixin
    BenchOptions options = new BenchOptions();

    @Mixin
    BenchDevice device = new BenchDevice();

    @Option(names = "--model", paramLabel = "MODEL", required = true,
            description = "A checkpoint's directory, or random:ARCH:PARAMS with ARCH llama, glm4_moe or kimi_k2 and PARAMS "
                    + "like 300m or 1b.")
    String model = "";

    @Option(names = "--keep", paramLabel = "DIR",
            description = "Writes a random model there and leaves it; one that is there already is used again.")
    @Nullable Path keep;

    @Option(names = "--backends", paramLabel = "NAME", split = ",",
            description = "auto (default), cuda, native, vector, scalar; more than one are compared.")
    List<String> backends = List.of("auto");

    @Option(names = "--weights", paramLabel = "FORMAT", split = ",",
            description = "stored, bf16, packed, int8, int4; default: stored, of a random model all the others.")
    @Nullable List<String> weights;

    @Option(names = "--kv", paramLabel = "FORMAT", split = ",", description = "KV formats, or auto (default).")
    List<String> kv = List.of("auto");

    @Option(names = "--context", paramLabel = "N", split = ",",
            description = "Prompt tokens before decode is measured (default: 64); of more than one, the cost of a token is "
                    + "compared with that of the shortest.")
    List<String> contexts = List.of("64");

    @Option(names = "--fill",
            description = "Does not compute prompts but for their last 256 tokens: what stands in the KV cache of those before "
                    + "is made of their embeddings. Long contexts then take a tenth of the time, and decode costs what it costs.")
    boolean fill;

    @Option(names = "--text", paramLabel = "FILE",
            description = "Takes prompts from this text, others in each round, instead of random ids: drafts are then met as "
                    + "often as in use.")
    @Nullable Path text;

    @Option(names = "--kv-index", paramLabel = "FORMAT", split = ",",
            description = "Formats of index keys of sparse attention, or auto (default).")
    List<String> index = List.of("auto");

    @Option(names = "--speculation", paramLabel = "MODE", split = ",",
            description = "off (default), mtp or auto, with a number of tokens if wanted: off,mtp:1,mtp:2,auto:2. What is not "
                    + "off is compared with off in the same rounds.")
    List<String> speculation = List.of("off");

    @Option(names = "--batch", paramLabel = "N", split = ",",
            description = "Sequences that decode together (default: 1,2,4,8,16,32; with --quick 1,8,32).")
    @Nullable List<String> batches;

    @Option(names = "--prefill", paramLabel = "N",
            description = "Tokens of the prompt whose prefill is measured, 0 for none (default: 512).")
    int prefill = 512;

    @Override
    public Integer call() {
        options.names("--backends", backends, BenchOptions.BACKENDS);
        List<String> formats = weights != null ? weights
                : RandomSpec.isRandom(model) ? List.of("bf16", "packed", "int8", "int4") : List.of("stored");
        options.names("--weights", formats, EngineConfig.WEIGHT_FORMATS);
        options.names("--kv", kv, KvFormat.ids());
        options.names("--kv-index", index, CacheFormats.indexIds());
        List<Speculation> modes = speculation.stream().distinct().map(this::speculation).toList();
        List<Integer> lengths = options.numbers("--context", contexts, 1, 1 << 20);
        List<Integer> counts = options.numbers("--batch",
                batches != null ? batches : List.of((options.quick ? "1,8,32" : "1,2,4,8,16,32").split(",")), 1, 1024);
        if (prefill < 0 || prefill > 1 << 20) {
            throw options.wrong("--prefill: expected a whole number from 0 to 1048576, got \"" + prefill + "\"");
        }
        if (RandomSpec.isRandom(model)) {
            try {
                RandomSpec.parse(model);
            } catch (IllegalArgumentException e) {
                throw options.wrong("--model: " + e.getMessage());
            }
        }
        CudaConfig cuda = device.cuda(options);
        String prompts = prompts();
        return options.run((limits, progress) -> {
            List<EngineBench.Variant> variants = new ArrayList<>();
            for (String backend : options.backends(backends, limits)) {
                for (String format : kv) {
                    for (String keys : index) {
                        formats.forEach(weight -> modes.forEach(mode -> variants.add(
                                new EngineBench.Variant(backend, weight, format, keys, mode, List.of()))));
                    }
                }
            }
            BenchModel.requireMemory(model, variants, FreeMemory.bytes());
            try (BenchModel local = BenchModel.of(model, keep, progress)) {
                return measure(options, local, variants, counts, lengths, prefill, cuda, fill, prompts, progress);
            }
        });
    }

    private @Nullable String prompts() {
        if (text != null && fill) {
            throw options.wrong("--text: expected no --fill with it, as a text is computed");
        }
        try {
            return text == null ? null : Files.readString(text);
        } catch (IOException e) {
            throw options.wrong("--text: expected a readable text file, got \"" + text + "\"");
        }
    }

    private Speculation speculation(String value) {
        try {
            return Speculation.of(value);
        } catch (IllegalArgumentException e) {
            throw options.wrong("--speculation: " + e.getMessage());
        }
    }

    static List<BenchResult> measure(
            BenchOptions options, BenchModel model, List<EngineBench.Variant> variants, List<Integer> batches,
            List<Integer> contexts, int prefill, CudaConfig cuda, boolean fill, @Nullable String text,
            java.util.function.Consumer<String> progress) {
        // Prompts that are text differ between rounds, and so does how many drafts are right.
        int steps = (options.quick ? 8 : 16) * (text == null ? 1 : 4);
        int rounds = text == null ? Math.min(5, options.rounds()) : options.rounds();
        return new EngineBench(
                        new EngineBench.Settings(
                                model.directory(), model.label(), variants, batches, contexts, prefill, steps, rounds,
                                options.threads, cuda, fill, text),
                        progress)
                .run();
    }
}

package millrace.streams.bench;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.Bandwidth;
import millrace.engine.CacheFormats;
import millrace.engine.CudaConfig;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.FreeMemory;
import millrace.engine.KvFormat;
import millrace.engine.ModelInspection;
import millrace.engine.Speculation;
import org.jspecify.annotations.Nullable;

/// A whole model: prefill and decode in tokens per second, by weight format, KV format, batch and context.
///
/// The variants are engines that are open at the same time and take turns within a round, beside a loop that reads
/// memory; what does not fit at once is measured in groups, each with the first variant for comparison.
public final class EngineBench {
    /// One engine to measure.
    ///
    /// @param weights one of [EngineConfig#WEIGHT_FORMATS]
    /// @param kv id of a KV format, or `auto`
    /// @param index id of a format of index keys, or `auto`
    /// @param speculation whether it drafts tokens ahead
    /// @param batches that it is measured with; empty takes all
    public record Variant(
            String backend, String weights, String kv, String index, Speculation speculation, List<Integer> batches) {
        public Variant {
            batches = List.copyOf(batches);
        }

        /// What goes with the KV format, and no drafts.
        public Variant(String backend, String weights, String kv, List<Integer> batches) {
            this(backend, weights, kv, "auto", Speculation.OFF, batches);
        }

        boolean drafts() {
            return speculation.mode() != Speculation.Mode.OFF;
        }
    }

    /// @param label the model's name in results
    /// @param context prompt tokens of every sequence before its decode is measured
    /// @param prefill tokens of the prompt whose prefill is measured, 0 for none
    /// @param steps of decode that a round measures, at batch 1; larger batches take fewer
    /// @param cuda the device of the backend `cuda`
    /// @param filled whether prompts are filled in instead of computed, see [Engine#openFilled]
    /// @param text that prompts are taken from, so that drafts are met as in use; random ids where there is none
    public record Settings(
            Path model, String label, List<Variant> variants, List<Integer> batches, List<Integer> contexts, int prefill,
            int steps, int rounds, int threads, CudaConfig cuda, boolean filled,
            @Nullable String text) {
        public Settings {
            variants = List.copyOf(variants);
            batches = List.copyOf(batches);
            contexts = List.copyOf(contexts);
        }
    }

    private static final int PAGE = 16;
    private static final long READ_BYTES = 1L << 29;
    private static final long DEVICE_SCRATCH_BYTES = 512L << 20;

    private final Settings settings;
    private final Consumer<String> progress;
    private final ModelInspection model;

    public EngineBench(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
        this.model = ModelInspection.of(settings.model(), null);
    }

    public List<BenchResult> run() {
        List<BenchResult> results = new ArrayList<>();
        List<String> backends = settings.variants().stream().map(Variant::backend).toList();
        try (Bandwidth memory = MachineBench.bandwidth(backends, settings.threads(), settings.cuda(), READ_BYTES)) {
            for (List<Variant> group : groups()) {
                List<BenchResult> measured = measure(group, memory);
                if (!results.isEmpty()) {
                    // The variant that every group has is reported as it was in the first.
                    BenchResult first = results.getFirst();
                    measured.removeIf(result -> sameVariant(result, first));
                }
                results.addAll(measured);
            }
        }
        return results;
    }

    private static boolean sameVariant(BenchResult a, BenchResult b) {
        return a.backend().equals(b.backend()) && a.format().equals(b.format())
                && a.label("kv_format").equals(b.label("kv_format"))
                && a.label("speculation").equals(b.label("speculation"));
    }

    // -------------------------------------------------------------------------------------------------- groups

    /// The first variant, and as many others as fit beside it.
    private List<List<Variant>> groups() {
        List<Variant> variants = settings.variants();
        long room = FreeMemory.bytes() * 7 / 10;
        List<List<Variant>> groups = new ArrayList<>();
        List<Variant> group = new ArrayList<>(List.of(variants.getFirst()));
        long taken = bytes(variants.getFirst());
        for (Variant variant : variants.subList(1, variants.size())) {
            if (taken + bytes(variant) > room && group.size() > 1) {
                groups.add(group);
                group = new ArrayList<>(List.of(variants.getFirst()));
                taken = bytes(variants.getFirst());
            }
            group.add(variant);
            taken += bytes(variant);
        }
        groups.add(group);
        return groups;
    }

    private long bytes(Variant variant) {
        long drafting = variant.drafts() ? model.drafting().parameters() : 0;
        return weightBytes(variant, model.parameters() + drafting) + kvBytes(variant);
    }

    private static long weightBytes(Variant variant, long parameters) {
        double perWeight = switch (variant.weights()) {
            case "packed" -> 1.6;
            case "int8" -> 1.15;
            case "int4" -> 0.65;
            default -> 2.1;
        };
        return (long) (parameters * perWeight);
    }

    /// What the weights of the largest group take at least: those of the first variant, and of one beside it.
    public static long leastBytes(List<Variant> variants, long parameters) {
        return weightBytes(variants.getFirst(), parameters)
                + variants.stream().skip(1).mapToLong(variant -> weightBytes(variant, parameters)).max().orElse(0);
    }

    /// What an engine may take of a device that it shares with others: the rest is scratch, and weights that grow.
    private long deviceBytes(Variant variant) {
        return bytes(variant) * 5 / 4 + DEVICE_SCRATCH_BYTES;
    }

    private long kvBytes(Variant variant) {
        String format = variant.kv().equals("auto") ? KvFormat.auto().id() : variant.kv();
        ModelInspection.KvCost cost = model.kv().stream().filter(one -> one.format().equals(format)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("KV format: expected one of this model's, "
                        + model.kv().stream().map(ModelInspection.KvCost::format).collect(Collectors.joining(", "))
                        + ", got \"" + format + "\""));
        long pagesEach = (longest() + 2 * PAGE) / PAGE + 1;
        long sequences = most(batches(variant)) + 2L;
        return pagesEach * sequences * (variant.drafts() ? cost.draftingPageBytes() : cost.pageBytes()) * 5 / 4;
    }

    /// Tokens of the longest sequence: a prompt, and what is generated while others are still on theirs.
    private int longest() {
        int context = most(settings.contexts());
        int waiting = Math.ceilDiv(most(settings.batches()) * context, PAGE * PAGE);
        int perStep = settings.variants().stream().mapToInt(EngineBench::perStep).max().orElse(1);
        return Math.max(context + (settings.steps() + waiting) * perStep + 4, settings.prefill() + 4);
    }

    /// The most tokens that a step gives a sequence.
    private static int perStep(Variant variant) {
        return variant.drafts() ? 1 + variant.speculation().tokens() : 1;
    }

    private static int most(List<Integer> numbers) {
        return numbers.stream().mapToInt(Integer::intValue).max().orElse(1);
    }

    private List<Integer> batches(Variant variant) {
        return variant.batches().isEmpty() ? settings.batches() : variant.batches();
    }

    // -------------------------------------------------------------------------------------------------- rounds

    private List<BenchResult> measure(List<Variant> variants, Bandwidth memory) {
        List<OpenVariant> open = new ArrayList<>();
        try {
            for (Variant variant : variants) {
                open.add(open(variant));
            }
            List<BenchResult> results = new ArrayList<>(decode(open, memory));
            if (settings.prefill() > 0) {
                results.addAll(prefill(open));
            }
            for (BenchResult result : results) {
                result.fact("peak_rss_bytes", ProcessMemory.peakResident());
            }
            return results;
        } finally {
            open.forEach(OpenVariant::close);
        }
    }

    private OpenVariant open(Variant variant) {
        progress.accept("%s: opening with weights %s, KV %s, backend %s, speculation %s".formatted(
                settings.label(), variant.weights(), variant.kv(), variant.backend(), variant.speculation().id()));
        EngineConfig config = EngineConfig.of(settings.model())
                .withBackend(variant.backend())
                .withCuda(settings.cuda())
                .withMemoryBytes(variant.backend().equals("cuda") ? deviceBytes(variant) : 0)
                .withWeightFormat(variant.weights())
                .withKvFormat(KvFormat.ofIdOrAuto(variant.kv()))
                .withIndexFormat(CacheFormats.indexOfIdOrAuto(variant.index()))
                .withSpeculation(variant.speculation())
                .withKvBytes(kvBytes(variant))
                .withThreads(settings.threads())
                .withMaxBatch(most(batches(variant)))
                .withMaxContext(Math.min(model.maxContext(), longest() + PAGE));
        long before = ProcessMemory.resident();
        long start = System.nanoTime();
        Engine engine = settings.filled() ? Engine.openFilled(config) : Engine.openForIds(config);
        double seconds = (System.nanoTime() - start) / 1e9;
        return new OpenVariant(
                settings.label(), variant, engine, model, batches(variant), prompts(engine), seconds,
                Math.max(0, ProcessMemory.resident() - before));
    }

    private DecodeRun.Prompts prompts(Engine engine) {
        if (settings.text() == null) {
            return DecodeRun.Prompts.RANDOM;
        }
        List<Integer> ids = IntStream.of(engine.codec().encode(settings.text(), false)).boxed().toList();
        if (ids.size() < most(settings.contexts())) {
            throw new IllegalArgumentException("bench engine: text: expected at least the " + most(settings.contexts())
                    + " tokens of a prompt, got " + ids.size() + "; take a longer text or a shorter context");
        }
        return new DecodeRun.Prompts(ids);
    }

    /// What one context and batch is measured with in all rounds: the variants, their results, and the order of the next round.
    private record Block(
            int context, int batch, List<OpenVariant> variants, List<BenchResult> results, List<Integer> order) {}

    /// Rates that others of the same round are compared with.
    private record Key(OpenVariant variant, int context, int batch) {}

    /// All contexts and batches take turns within a round.
    private List<BenchResult> decode(List<OpenVariant> open, Bandwidth memory) {
        List<Block> blocks = settings.contexts().stream()
                .flatMap(context -> settings.batches().stream().map(batch -> block(open, context, batch)))
                .toList();
        for (int round = -1; round < settings.rounds(); round++) {
            Map<Key, Double> rates = new HashMap<>();
            for (Block block : blocks) {
                decode(block, round, memory, rates);
            }
            progress.accept("%s: decode, contexts %s: %s".formatted(settings.label(), settings.contexts(),
                    round < 0 ? "warm-up" : "round " + (round + 1) + " of " + settings.rounds()));
        }
        blocks.forEach(block ->
                report("decode, context " + block.context() + ", batch " + block.batch(), block.results()));
        return blocks.stream().flatMap(block -> block.results().stream()).toList();
    }

    private Block block(List<OpenVariant> open, int context, int batch) {
        List<OpenVariant> variants = open.stream().filter(one -> one.batches().contains(batch)).toList();
        List<BenchResult> results = variants.stream()
                .map(one -> one.result("decode", batch, threads()).label("context", Integer.toString(context)))
                .toList();
        String prompts = settings.text() != null ? "text" : settings.filled() ? "filled" : "computed";
        results.forEach(result -> result.label("prompts", prompts));
        return new Block(
                context, batch, variants, results, new ArrayList<>(IntStream.range(0, variants.size()).boxed().toList()));
    }

    /// @param known takes the rates of this round, for others to be compared with
    private void decode(Block block, int round, Bandwidth memory, Map<Key, Double> known) {
        int batch = block.batch();
        int steps = Math.max(4, settings.steps() / (batch >= 16 ? 4 : batch >= 4 ? 2 : 1));
        double[] rates = new double[block.variants().size()];
        double before = memory.bytesPerSecond();
        Collections.rotate(block.order(), 1);
        for (int i : block.order()) {
            OpenVariant one = block.variants().get(i);
            BenchResult result = block.results().get(i);
            boolean cold = round < 0;
            rates[i] = one.decode(
                    batch, block.context(), cold ? 4 : steps, round, cold, settings.filled(), cold ? null : result);
        }
        double bandwidth = (before + memory.bytesPerSecond()) / 2;
        for (int i = 0; round >= 0 && i < rates.length; i++) {
            note(block.variants(), rates, i, batch, bandwidth, block.results().get(i));
            known.put(new Key(block.variants().get(i), block.context(), batch), rates[i]);
            if (!Double.isNaN(rates[i])) {
                compare(block, i, rates[i], known);
            }
        }
    }

    /// With batch 1, and with the shortest context, of the same engine in the same round.
    private void compare(Block block, int index, double rate, Map<Key, Double> known) {
        OpenVariant one = block.variants().get(index);
        BenchResult result = block.results().get(index);
        double alone = known.getOrDefault(new Key(one, block.context(), 1), Double.NaN);
        if (block.batch() > 1 && !Double.isNaN(alone)) {
            result.sample("ratio_to_batch_1", rate / alone);
        }
        int shortest = settings.contexts().stream().mapToInt(Integer::intValue).min().orElseThrow();
        double there = known.getOrDefault(new Key(one, shortest, block.batch()), Double.NaN);
        if (block.context() > shortest && !Double.isNaN(there)) {
            result.sample("cost_to_context_" + shortest, there / rate);
        }
    }

    private static void note(
            List<OpenVariant> all, double[] rates, int index, int batch, double bandwidth, BenchResult result) {
        if (Double.isNaN(rates[index])) {
            return; // a sequence ended before its time
        }
        OpenVariant one = all.get(index);
        result.sample("tokens_per_second", rates[index]);
        double bytes = one.bytesPerStep(batch);
        if (!Double.isNaN(bytes)) {
            result.sample("gb_per_second", bytes * rates[index] / batch / 1e9);
            result.sample("share_of_bandwidth", bytes * rates[index] / batch / bandwidth);
        }
        compare(all, rates, index, result);
    }

    private static void compare(List<OpenVariant> all, double[] rates, int index, BenchResult result) {
        OpenVariant one = all.get(index);
        for (int i = 0; i < rates.length; i++) {
            OpenVariant other = all.get(i);
            if (Double.isNaN(rates[i])) {
                continue;
            }
            double ratio = rates[index] / rates[i];
            boolean sameBackend = one.backend().equals(other.backend());
            boolean sameFormats = one.format().equals(other.format()) && one.kv().equals(other.kv());
            if (one.variant().drafts() && !other.variant().drafts() && sameBackend && sameFormats) {
                result.sample("ratio_to_off", ratio);
            }
            if (!one.variant().speculation().equals(other.variant().speculation())) {
                continue; // only one thing may differ
            }
            if (sameBackend && one.kv().equals(other.kv()) && other.format().equals("bf16")) {
                result.sample("ratio_to_bf16", ratio);
            }
            if (sameBackend && one.format().equals(other.format()) && other.kv().equals("bf16") && !one.kv().equals("bf16")) {
                result.sample("ratio_to_bf16_kv", ratio);
            }
            if (!sameBackend && sameFormats && other.backend().equals("native")) {
                result.sample("ratio_to_native", ratio);
            }
        }
    }

    private List<BenchResult> prefill(List<OpenVariant> open) {
        List<BenchResult> results = new ArrayList<>();
        for (OpenVariant one : open) {
            results.add(one.result("prefill", 1, threads()).label("context", Integer.toString(settings.prefill())));
        }
        int rounds = Math.min(3, settings.rounds());
        for (int round = -1; round < rounds; round++) {
            double[] rates = new double[open.size()];
            for (int i = 0; i < rates.length; i++) {
                int tokens = round < 0 ? Math.min(64, settings.prefill()) : settings.prefill();
                rates[i] = DecodeRun.prefillTokensPerSecond(open.get(i).engine(), tokens, round);
            }
            for (int i = 0; round >= 0 && i < rates.length; i++) {
                results.get(i).sample("tokens_per_second", rates[i]);
                compare(open, rates, i, results.get(i));
                results.get(i).sample("gflops", 2 * rates[i] * model.activeParameters() / 1e9);
            }
        }
        report("prefill of " + settings.prefill(), results);
        return results;
    }

    private int threads() {
        return settings.threads() == 0 ? Runtime.getRuntime().availableProcessors() : settings.threads();
    }

    private void report(String what, List<BenchResult> results) {
        StringBuilder line = new StringBuilder(settings.label()).append(": ").append(what).append(": ");
        for (BenchResult result : results) {
            @Nullable Samples rate = result.figure("tokens_per_second");
            line.append(result.backend()).append(' ').append(result.format()).append(' ').append(result.label("kv_format"))
                    .append(result.label("speculation").isEmpty() ? "" : " speculation " + result.label("speculation"))
                    .append(rate == null ? " nothing" : " %.1f".formatted(rate.median())).append("; ");
        }
        progress.accept(line.append("tokens/s").toString());
    }
}

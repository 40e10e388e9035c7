package millrace.streams.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityConfig;
import millrace.engine.PromptInput;

/// What the checks of an engine cost, as pairs: engines of every profile are open at the same time and do the same work
/// in turns, within a round and in another order each round; a round's overhead is its time against the mean of two engines
/// without checks. What these two differ by, which should be nothing, says what the figures are worth.
///
/// The golden prompt runs once a minute, which a round of a second or two may miss or meet. So it is measured apart,
/// running once a second, and its cost is added as often as it really runs.
///
/// Where something else runs on the machine, time says little; processor time, which is reported beside it, says more.
public final class IntegrityBench {
    /// The golden prompt's pace while its cost is measured.
    private static final Duration CANARY = Duration.ofSeconds(1);

    private static final String OFF = "off";

    /// The second engine without checks.
    private static final String CONTROL = "control";

    private static final int VOCABULARY = 250;

    /// Room for a few rounds; the rest of the memory is for the other engines.
    private static final long KV_BYTES = 256L << 20;

    private static final int LEAVES = 50_000;

    /// Answers whose wait for a signed checkpoint is measured, and how many come in a second.
    private static final int LAG_ANSWERS = 600;

    private static final int LAG_RATE = 50;

    /// Prompt tokens that all sequences share, as with a system prompt: they come from the prefix cache.
    private static final int SHARED = 64;

    /// @param label the model's name in results
    /// @param batch sequences at once
    /// @param prompt tokens of a prompt beside those that all share
    /// @param tokens that each sequence generates
    public record Settings(
            Path model, String label, int batch, int prompt, int tokens, int rounds, int threads) {}

    private final Settings settings;
    private final Consumer<String> progress;

    public IntegrityBench(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
    }

    public List<BenchResult> run() {
        Map<String, BenchResult> results = new LinkedHashMap<>();
        Samples canary;
        try (Engine off = open(IntegrityConfig.OFF);
                Engine control = open(IntegrityConfig.OFF);
                Engine normal = open(quiet("default"));
                Engine strict = open(quiet("strict"))) {
            Map<String, Engine> engines = new LinkedHashMap<>();
            engines.put(OFF, off);
            engines.put("default", normal);
            engines.put(CONTROL, control);
            engines.put("strict", strict);
            engines.forEach((profile, engine) -> {
                work(engine, 0);
                work(engine, 1);
                results.put(profile, result(engine, profile));
            });
            for (int round = 0; round < settings.rounds(); round++) {
                round(engines, results, round);
            }
            canary = canary(normal);
        }
        results.remove(OFF);
        results.remove(CONTROL);
        Samples verified = verifier();
        int answers = Math.min(LAG_ANSWERS, LAG_ANSWERS / 6 * settings.rounds());
        Spread lag = new CheckpointLag(answers, LAG_RATE).measure();
        progress.accept("from a leaf to the checkpoint that covers it: " + lag);
        results.values().forEach(result -> {
            for (double share : canary.values()) {
                result.sample("canary_percent", share);
            }
            for (double rate : verified.values()) {
                result.sample("verifier_leaves_per_second", rate);
            }
            result.sample("checkpoint_lag_p50_seconds", lag.p50() / 1e3);
            result.sample("checkpoint_lag_p99_seconds", lag.p99() / 1e3);
            double added = canary.isEmpty() ? 0 : canary.median();
            Samples checks = result.figure("checks_percent");
            if (checks != null) {
                checks.values().forEach(percent -> result.sample("overhead_percent", percent + added));
            }
            progress.accept("%s: %.2f %% (median of %d pairs)".formatted(
                    result.label("profile"), result.median("overhead_percent"), settings.rounds()));
        });
        return List.copyOf(results.values());
    }

    /// Every engine does the round's work twice, forwards and backwards, so that a machine that slows down meets all.
    private void round(Map<String, Engine> engines, Map<String, BenchResult> results, int round) {
        List<String> order = new ArrayList<>(engines.keySet());
        Collections.rotate(order, round);
        Map<String, Double> seconds = new LinkedHashMap<>();
        Map<String, Double> cpu = new LinkedHashMap<>();
        for (List<String> turn : List.of(order, order.reversed())) {
            for (String profile : turn) {
                double before = cpuSeconds();
                seconds.merge(profile, work(engines.get(profile), 2 + round), Double::sum);
                cpu.merge(profile, cpuSeconds() - before, Double::sum);
            }
        }
        double off = (seconds.get(OFF) + seconds.get(CONTROL)) / 2;
        double offCpu = (cpu.get(OFF) + cpu.get(CONTROL)) / 2;
        results.forEach((profile, result) -> {
            result.sample("tokens_per_second", 2 * settings.batch() * settings.tokens() / seconds.get(profile));
            result.sample("checks_percent", 100 * (seconds.get(profile) / off - 1));
            result.sample("cpu_percent", 100 * (cpu.get(profile) / offCpu - 1));
            result.sample("control_percent", 100 * (seconds.get(CONTROL) / seconds.get(OFF) - 1));
        });
        progress.accept("round %d: %.0f tokens/s without checks, default %.2f %%, strict %.2f %%, no checks against none %.2f %%"
                .formatted(
                        round + 1, 2 * settings.batch() * settings.tokens() / off,
                        100 * (seconds.get("default") / off - 1), 100 * (seconds.get("strict") / off - 1),
                        100 * (seconds.get(CONTROL) / seconds.get(OFF) - 1)));
    }

    /// The golden prompt's cost in percent of the time, at the pace of the defaults.
    private Samples canary(Engine without) {
        Samples samples = new Samples();
        IntegrityConfig quiet = quiet("default");
        var every = new IntegrityConfig(
                "default", quiet.scrubInterval(), quiet.scrubShare(), quiet.kvMaxAge(), CANARY, quiet.logitsEvery());
        double scale = (double) CANARY.toMillis() / IntegrityConfig.DEFAULT.canaryInterval().toMillis();
        for (int round = 0; round < Math.min(3, settings.rounds()); round++) {
            double with;
            try (Engine engine = open(every)) {
                work(engine, 0);
                with = work(engine, 100 + round) + work(engine, 200 + round);
            }
            double alone = work(without, 100 + round) + work(without, 200 + round);
            samples.add(100 * scale * (with / alone - 1));
        }
        return samples;
    }

    /// What the auditor's side costs: leaves of a log in memory that are verified in a second of one core.
    private Samples verifier() {
        Samples samples = new Samples();
        var log = new VerifierRun(LEAVES);
        log.verify();
        for (int round = 0; round < Math.min(5, settings.rounds()); round++) {
            double before = cpuSeconds();
            int leaves = log.verify();
            samples.add(leaves / (cpuSeconds() - before));
        }
        progress.accept("verifier: %.0f leaves/s and core".formatted(samples.median()));
        return samples;
    }

    /// The defaults, but for the golden prompt.
    private static IntegrityConfig quiet(String profile) {
        IntegrityConfig defaults = IntegrityConfig.DEFAULT;
        return new IntegrityConfig(profile, defaults.scrubInterval(), defaults.scrubShare(), defaults.kvMaxAge(),
                Duration.ZERO, defaults.logitsEvery());
    }

    private Engine open(IntegrityConfig integrity) {
        return Engine.openForIds(EngineConfig.of(settings.model())
                .withThreads(settings.threads())
                .withMaxBatch(settings.batch())
                .withKvBytes(KV_BYTES)
                .withIntegrity(integrity));
    }

    /// Seconds that a batch takes, from the first prompt to the last token. Equal seeds are equal work.
    private double work(Engine engine, int seed) {
        List<GenerationRequest> requests = new ArrayList<>();
        List<Integer> shared = ids(SHARED, -1);
        for (int i = 0; i < settings.batch(); i++) {
            List<Integer> prompt = new ArrayList<>(shared);
            prompt.addAll(ids(settings.prompt(), 1_000L * seed + i));
            requests.add(GenerationRequest.greedy(
                    "integrity " + seed + " " + i, new PromptInput.TokenIds(prompt), settings.tokens()));
        }
        long start = System.nanoTime();
        List<GenerationResult> results = Run.all(engine, requests);
        double seconds = (System.nanoTime() - start) / 1e9;
        for (GenerationResult result : results) {
            if (!engine.trusts(result)) {
                throw new IllegalStateException("a check found damage while measuring: " + engine.events(0));
            }
        }
        return seconds;
    }

    /// Processor time of this process.
    private static double cpuSeconds() {
        var system = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        return system.getProcessCpuTime() / 1e9;
    }

    private static List<Integer> ids(int count, long seed) {
        return new SplittableRandom(seed).ints(count, 1, VOCABULARY).boxed().toList();
    }

    private BenchResult result(Engine engine, String profile) {
        BenchResult result = new BenchResult(
                "integrity", engine.card().backend(), engine.card().weightFormat().split("\\+", 2)[0], settings.batch(),
                settings.threads() == 0 ? Runtime.getRuntime().availableProcessors() : settings.threads());
        result.label("profile", profile).label("model", settings.label()).label("kv_format", engine.card().kvFormat());
        return result.fact("parameters", engine.card().parameters());
    }
}

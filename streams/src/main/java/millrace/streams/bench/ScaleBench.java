package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import millrace.streams.InferenceService;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.MillraceClient;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.common.utils.Utils;

/// What several instances of one application id answer together, against what one of them answers alone. The engines' rate is
/// fixed and costs no processor time, so whatever is missing from `instances` times one is lost by the service or for want of a
/// machine.
///
/// Broker, instances and client share one JVM. One instance has a cluster of its own, and then all of them have another, with as
/// many partitions; each instance gets as many prompts as the one did, all at once.
public final class ScaleBench {
    /// Of the prompts topic, for each of the instances.
    private static final int PARTITIONS_EACH = 4;
    private static final int SHARING_PATIENCE_S = 120;

    /// @param prompts for each instance in each round
    public record Settings(Pace pace, int instances, int prompts, int rounds) {}

    private final Settings settings;
    private final Consumer<String> progress;

    public ScaleBench(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
    }

    /// Returns a row for one instance and a row for all of them.
    ///
    /// @throws IllegalStateException when the instances do not get equal shares of the prompts, or prompts are not answered
    public List<BenchResult> run(Map<String, String> overrides) throws InterruptedException {
        double[] one = measure(1, overrides);
        double[] all = measure(settings.instances(), overrides);
        BenchResult alone = row(1);
        BenchResult together = row(settings.instances());
        for (int round = 0; round < settings.rounds(); round++) {
            rates(alone, one[round], 1);
            rates(together, all[round], settings.instances());
            double predicted = settings.instances() * one[round];
            together.sample("predicted_tokens_per_second", predicted).sample("ratio_to_prediction", all[round] / predicted);
        }
        return List.of(alone, together);
    }

    private BenchResult row(int instances) {
        return settings.pace().result("scale").label("instances", Integer.toString(instances))
                .fact("prompts", (long) instances * settings.prompts());
    }

    private void rates(BenchResult row, double tokensPerSecond, int instances) {
        row.sample("tokens_per_second", tokensPerSecond)
                .sample("prompts_per_second", tokensPerSecond / settings.pace().tokens())
                .sample("ratio_to_engine", tokensPerSecond / (instances * settings.pace().tokensPerSecond()));
    }

    /// @return tokens per second of each round
    private double[] measure(int instances, Map<String, String> overrides) throws InterruptedException {
        List<PacedEngine> engines = new ArrayList<>();
        Deque<InferenceService> services = new ArrayDeque<>();
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            try {
                for (int i = 0; i < instances; i++) {
                    PacedEngine engine = settings.pace().engine();
                    engines.add(engine);
                    services.push(InferenceService.start(config(cluster, state, i, overrides), c -> engine, true, line -> {}));
                }
                try (MillraceClient client = MillraceClient.open(ClientConfig.of(config(cluster, state, 0, overrides)))) {
                    return rounds(client, engines);
                }
            } finally {
                services.forEach(InferenceService::close);
            }
        }
    }

    private ServiceConfig config(EmbeddedCluster cluster, ScratchDirectory state, int instance, Map<String, String> overrides) {
        Map<String, String> all = BenchCluster.settings(cluster, state);
        all.put("state.dir", state.path().resolve("instance-" + instance).toString());
        all.put("audit.key.file", state.path().resolve("audit.key").toString());
        all.put("topics.partitions", Integer.toString(partitions()));
        all.put("inflight.max", Integer.toString(Math.max(64, 2 * settings.pace().batch())));
        all.putAll(overrides);
        return ServiceConfig.of(all);
    }

    private int partitions() {
        return settings.instances() * PARTITIONS_EACH;
    }

    private double[] rounds(MillraceClient client, List<PacedEngine> engines) throws InterruptedException {
        List<String> keys = keys(partitions());
        awaitShares(client, engines, keys);
        Load load = new Load(client, settings.pace());
        double[] rates = new double[settings.rounds()];
        int prompts = settings.prompts() * engines.size();
        for (int round = 0; round <= settings.rounds(); round++) {
            long[] before = answered(engines);
            double seconds = flood(load, keys, "round" + round, prompts);
            if (!isShared(before, engines, prompts)) {
                throw new IllegalStateException("instances: expected an equal share of " + prompts
                        + " prompts for each, got another; partitions moved while it was measured: measure again");
            }
            double rate = prompts * settings.pace().tokens() / seconds;
            if (round > 0) {
                rates[round - 1] = rate;
            }
            progress.accept("scale: %d of %d, %s: %.0f tokens/s".formatted(
                    engines.size(), settings.instances(), round == 0 ? "warm-up" : "round " + round, rate));
        }
        return rates;
    }

    /// Sends a prompt to each partition, again and again, until each instance answers its share of them.
    private void awaitShares(MillraceClient client, List<PacedEngine> engines, List<String> keys) throws InterruptedException {
        Pace pace = settings.pace();
        Load probes = new Load(client, new Pace(pace.step(), pace.batch(), 1));
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(SHARING_PATIENCE_S);
        for (int probe = 0; ; probe++) {
            long[] before = answered(engines);
            flood(probes, keys, "probe" + probe, keys.size());
            if (isShared(before, engines, keys.size())) {
                return;
            }
            if (System.nanoTime() > until) {
                throw new IllegalStateException("instances: expected that " + keys.size() + " partitions are shared evenly by "
                        + engines.size() + " within " + SHARING_PATIENCE_S + " s, which they were not; the log says what the group does");
            }
            TimeUnit.MILLISECONDS.sleep(200);
        }
    }

    /// All prompts at once, dealt to the keys in turn.
    ///
    /// @return seconds from the first one to the last committed completion
    private static double flood(Load load, List<String> keys, String prefix, int prompts) throws InterruptedException {
        List<Load.Answer> answers = load.send(prefix, new long[prompts], i -> keys.get(i % keys.size()));
        long first = answers.stream().mapToLong(Load.Answer::sentNanos).min().orElseThrow();
        long last = answers.stream().mapToLong(Load.Answer::arrivedNanos).max().orElseThrow();
        return (last - first) / 1e9;
    }

    /// A key for each partition, as the producer's hash has it.
    private static List<String> keys(int partitions) {
        Map<Integer, String> keys = new TreeMap<>();
        for (int i = 0; keys.size() < partitions; i++) {
            String key = "key-" + i;
            int partition = Utils.toPositive(Utils.murmur2(key.getBytes(StandardCharsets.UTF_8))) % partitions;
            keys.putIfAbsent(partition, key);
        }
        return List.copyOf(keys.values());
    }

    private static long[] answered(List<PacedEngine> engines) {
        return engines.stream().mapToLong(PacedEngine::answered).toArray();
    }

    /// Whether each engine has answered an equal number of so many prompts.
    private static boolean isShared(long[] before, List<PacedEngine> engines, int prompts) {
        for (int i = 0; i < before.length; i++) {
            if (engines.get(i).answered() - before[i] != prompts / before.length) {
                return false;
            }
        }
        return true;
    }
}

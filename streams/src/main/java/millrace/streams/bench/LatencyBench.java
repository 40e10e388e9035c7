package millrace.streams.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;
import millrace.streams.InferenceService;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.MillraceClient;
import millrace.streams.embedded.EmbeddedCluster;

/// What the pipeline adds to the time that an engine takes, with prompts that arrive at random moments at shares of the engine's
/// capacity. For each prompt: from the moment that a client sends it to the moment that it has the committed completion, minus the
/// time from submitting it to the engine to its last token, the engine's queue included.
///
/// The engine's rate is fixed, so the shares are exact. Broker, service and client share one JVM.
public final class LatencyBench {
    /// @param shares of the engine's capacity, in percent
    /// @param prompts at each share in each round
    public record Settings(Pace pace, List<Integer> shares, int prompts, int rounds) {
        public Settings {
            shares = List.copyOf(shares);
        }
    }

    private final Settings settings;
    private final Consumer<String> progress;

    public LatencyBench(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
    }

    /// Returns a row for each share.
    ///
    /// @throws IllegalStateException when prompts are not answered
    public List<BenchResult> run(Map<String, String> overrides) throws InterruptedException {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> all = BenchCluster.settings(cluster, state);
            all.put("inflight.max", Integer.toString(Math.max(64, 2 * settings.pace().batch())));
            all.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(all);
            try (InferenceService _ = InferenceService.start(config, c -> settings.pace().engine(), true, line -> {});
                    MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
                return rounds(new Load(client, settings.pace()));
            }
        }
    }

    private List<BenchResult> rounds(Load load) throws InterruptedException {
        List<BenchResult> rows = new ArrayList<>();
        settings.shares().forEach(share -> rows.add(settings.pace().result("latency").label("load", share + " %")
                .fact("prompts", settings.prompts())));
        for (int round = 0; round <= settings.rounds(); round++) {
            for (int s = 0; s < rows.size(); s++) {
                double perSecond = settings.pace().promptsPerSecond() * settings.shares().get(s) / 100;
                String prefix = "r" + round + "-" + s;
                List<Load.Answer> answers = load.send(
                        prefix, OpenLoop.moments(settings.prompts(), perSecond, 31L * round + s), i -> prefix + "-" + i);
                Spread added = spread(answers, answer -> answer.arrivedNanos() - answer.sentNanos() - answer.engineNanos());
                progress.accept("latency: %s, %.1f prompts/s: added %s".formatted(
                        round == 0 ? "warm-up" : "round " + round, perSecond, added));
                if (round > 0) {
                    note(rows.get(s), perSecond, added, answers);
                }
            }
        }
        return rows;
    }

    private static void note(BenchResult row, double perSecond, Spread added, List<Load.Answer> answers) {
        Spread all = spread(answers, answer -> answer.arrivedNanos() - answer.sentNanos());
        Spread engine = spread(answers, Load.Answer::engineNanos);
        row.sample("arrivals_per_second", perSecond)
                .sample("added_p50_ms", added.p50()).sample("added_p99_ms", added.p99()).sample("added_max_ms", added.max())
                .sample("engine_p50_ms", engine.p50()).sample("engine_p99_ms", engine.p99())
                .sample("p50_ms", all.p50()).sample("p99_ms", all.p99());
    }

    private static Spread spread(List<Load.Answer> answers, ToLongFunction<Load.Answer> nanos) {
        return Spread.ofNanos(answers.stream().mapToLong(nanos).toArray());
    }
}

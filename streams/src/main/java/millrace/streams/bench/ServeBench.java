package millrace.streams.bench;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import millrace.engine.TextEngine;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.demo.Question;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;

/// The whole service through Kafka, with prompts that arrive at random moments at several rates, against the engine
/// alone in the same round.
///
/// The rates are shares of what the service answers when all prompts are there at once. Latency counts from the moment
/// a prompt was due, also where the client was late to send it.
public final class ServeBench {
    /// @param shares of the service's throughput, in percent
    /// @param seconds that arrivals take at each rate
    public record Settings(String model, int questions, List<Integer> shares, double seconds, int warmUps, int rounds) {
        public Settings {
            shares = List.copyOf(shares);
        }
    }

    private final Settings settings;
    private final Consumer<String> progress;

    public ServeBench(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
    }

    public List<BenchResult> run(Map<String, String> overrides, InferenceService.EngineOpener opener) {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> service = BenchCluster.settings(cluster, state);
            service.put("topics.partitions", "2");
            service.put("engine.model", settings.model());
            service.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(service);
            TextEngine engine = opener.open(config);
            try (InferenceService _ = InferenceService.start(config, c -> engine, true, line -> {});
                    SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                    KafkaProducer<byte[], byte[]> producer = new KafkaClients(config).producer();
                    KafkaConsumer<byte[], byte[]> consumer =
                            new KafkaClients(config).reader(config.string("topics.completions"))) {
                return measure(engine, ServicePipe.of(config, registry, producer, consumer), config);
            }
        }
    }

    private List<BenchResult> measure(TextEngine engine, ServicePipe pipe, ServiceConfig config) {
        List<Question> questions = Question.of(settings.model(), settings.questions());
        List<BenchResult> results = new ArrayList<>();
        results.add(result(engine, config, "all at once"));
        settings.shares().forEach(share -> results.add(result(engine, config, share + " %")));
        for (int round = 1 - settings.warmUps(); round <= settings.rounds(); round++) {
            boolean counts = round > 0;
            Map<Integer, List<Integer>> answers = new HashMap<>();
            double alone = ServicePipe.engineAlone(engine, questions, answers);
            double served = pipe.ask(questions, "burst" + round, answers);
            progress.accept("serve: %s: engine %.0f, service %.0f tokens/s".formatted(
                    counts ? "round " + round : "warm-up", alone, served));
            if (!counts) {
                continue;
            }
            results.getFirst().sample("tokens_per_second", served).sample("ratio_to_engine", served / alone);
            double tokensEach = (double) answers.values().stream().mapToInt(List::size).sum() / questions.size();
            for (int s = 0; s < settings.shares().size(); s++) {
                double rate = served / tokensEach * settings.shares().get(s) / 100;
                int count = (int) Math.clamp(rate * settings.seconds(), 1, questions.size());
                ServicePipe.Arrivals arrivals = pipe.arrive(
                        questions.subList(0, count), "rate" + s + "-" + round, answers, rate, 31L * round + s);
                note(results.get(s + 1), arrivals, rate, alone);
                progress.accept("serve: %.0f prompts/s: %s".formatted(rate, arrivals.latency()));
            }
        }
        return results;
    }

    private BenchResult result(TextEngine engine, ServiceConfig config, String load) {
        int threads = config.integer("engine.threads");
        return new BenchResult("serve", engine.card().backend(), engine.card().weightFormat(), null,
                threads == 0 ? Runtime.getRuntime().availableProcessors() : threads)
                .label("model", settings.model()).label("kv_format", engine.card().kvFormat()).label("load", load);
    }

    private static void note(BenchResult result, ServicePipe.Arrivals arrivals, double rate, double alone) {
        double tokensPerSecond = arrivals.tokens() / arrivals.seconds();
        result.sample("tokens_per_second", tokensPerSecond).sample("ratio_to_engine", tokensPerSecond / alone);
        result.sample("arrivals_per_second", rate).sample("prompts_per_second", arrivals.prompts() / arrivals.seconds());
        result.sample("p50_ms", arrivals.latency().p50()).sample("p95_ms", arrivals.latency().p95());
        result.sample("p99_ms", arrivals.latency().p99()).sample("max_ms", arrivals.latency().max());
    }
}

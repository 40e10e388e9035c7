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

/// The same questions through the engine alone and through the whole service, in turns, on one engine.
///
/// Both answers of each question are compared, token by token: they must be the same.
public final class ThroughputBench {
    /// Generated tokens per second of one round.
    public record Round(double engine, double service) {
        public double ratio() {
            return service / engine;
        }
    }

    /// Broker, clients and Streams are compiled by then.
    private static final int WARM_UP_ROUNDS = 3;

    private final List<Question> questions;
    private final int rounds;
    private final Consumer<String> progress;

    public ThroughputBench(List<Question> questions, int rounds, Consumer<String> progress) {
        this.questions = List.copyOf(questions);
        this.rounds = rounds;
        this.progress = progress;
    }

    public List<Round> run(Map<String, String> overrides, InferenceService.EngineOpener opener) {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = BenchCluster.settings(cluster, state);
            settings.put("topics.partitions", "2");
            settings.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(settings);
            TextEngine engine = opener.open(config);
            try (InferenceService _ = InferenceService.start(config, c -> engine, true, line -> {})) {
                return measure(config, engine);
            }
        }
    }

    private List<Round> measure(ServiceConfig config, TextEngine engine) {
        KafkaClients clients = new KafkaClients(config);
        List<Round> all = new ArrayList<>();
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaProducer<byte[], byte[]> producer = clients.producer();
                KafkaConsumer<byte[], byte[]> consumer = clients.reader(config.string("topics.completions"))) {
            ServicePipe pipe = ServicePipe.of(config, registry, producer, consumer);
            for (int round = 1 - WARM_UP_ROUNDS; round <= rounds; round++) {
                Map<Integer, List<Integer>> direct = new HashMap<>();
                double alone = ServicePipe.engineAlone(engine, questions, direct);
                double served = pipe.ask(questions, "r" + round, direct);
                if (round > 0) {
                    all.add(new Round(alone, served));
                }
                progress.accept("%s: engine %.0f, service %.0f tokens/s (%.0f %%)".formatted(
                        round <= 0 ? "warm-up" : "round " + round, alone, served, 100 * served / alone));
            }
        }
        return all;
    }
}

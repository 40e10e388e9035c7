package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.TextEngine;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.demo.Question;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

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

    private static final int MAX_TOKENS = 256;
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
            Map<String, String> settings = new LinkedHashMap<>(cluster.serviceConfig());
            settings.put("state.dir", state.path().toString());
            settings.put("health.port", "-1");
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
            Pipe pipe = new Pipe(config.string("topics.prompts"), producer, consumer,
                    AvroEncoder.open(registry, Prompt.class, config.string("topics.prompts") + "-value",
                            AvroSerdeConfig.of(config.registry())),
                    new AvroDecoder<>(registry, Completion.class));
            for (int round = 1 - WARM_UP_ROUNDS; round <= rounds; round++) {
                Map<Integer, List<Integer>> direct = new HashMap<>();
                double alone = engineAlone(engine, direct);
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

    private double engineAlone(TextEngine engine, Map<Integer, List<Integer>> answers) {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < questions.size(); i++) {
            requests.add(GenerationRequest.greedy("q" + i,
                    new PromptInput.Messages(List.of(ChatMessage.of("user", questions.get(i).prompt())), ChatOptions.DEFAULT),
                    MAX_TOKENS));
        }
        long start = System.nanoTime();
        List<GenerationResult> results = Run.all(engine, requests);
        double seconds = (System.nanoTime() - start) / 1e9;
        long tokens = 0;
        for (int i = 0; i < results.size(); i++) {
            answers.put(i, results.get(i).tokenIds());
            tokens += results.get(i).usage().completionTokens();
        }
        return tokens / seconds;
    }

    /// Producer and committed consumer of the running service.
    private record Pipe(
            String topic,
            KafkaProducer<byte[], byte[]> producer,
            KafkaConsumer<byte[], byte[]> consumer,
            AvroEncoder<Prompt> encoder,
            AvroDecoder<Completion> decoder) {

        double ask(List<Question> questions, String prefix, Map<Integer, List<Integer>> expected) {
            long start = System.nanoTime();
            for (int i = 0; i < questions.size(); i++) {
                String id = prefix + ":" + i;
                producer.send(new ProducerRecord<>(topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(questions.get(i).event(id))));
            }
            long tokens = 0;
            int left = questions.size();
            long until = System.nanoTime() + Duration.ofMinutes(5).toNanos();
            while (left > 0) {
                if (System.nanoTime() > until) {
                    throw new IllegalStateException(left + " questions were not answered within 5 minutes");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    Completion completion = decoder.decode(record.value());
                    int number = Integer.parseInt(completion.getRequestId().substring(prefix.length() + 1));
                    if (!expected.get(number).equals(completion.getTokenIds())) {
                        throw new IllegalStateException("question " + number + ": the service answered other tokens than the engine");
                    }
                    tokens += completion.getUsage().getCompletionTokens();
                    left--;
                }
            }
            return tokens / ((System.nanoTime() - start) / 1e9);
        }
    }
}

package millrace.streams.bench;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import millrace.schemas.Prompt;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.demo.Question;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/// From a hard kill of the service's process to the first completion of its successor, which is started at once: the
/// start of a JVM, the load of the model, the restore of the stores and the first answer.
///
/// The broker runs in this process and lives on; prompts flow all the time; every one must be answered exactly once.
public final class RecoveryBench {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    /// What was committed before the kill may still be on its way to the reader for this long.
    private static final long IN_FLIGHT_NANOS = 300_000_000L;
    private static final int BETWEEN_KILLS = 40;

    private final String model;
    private final int rounds;
    private final Consumer<String> progress;
    private final Set<String> answered = new HashSet<>();
    private int sent;

    public RecoveryBench(String model, int rounds, Consumer<String> progress) {
        this.model = model;
        this.rounds = rounds;
        this.progress = progress;
    }

    /// Seconds of each round.
    public List<Double> run() throws IOException, InterruptedException {
        try (ScratchDirectory scratch = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Path state = scratch.path();
            Map<String, String> settings = BenchCluster.settings(cluster, scratch);
            settings.put("engine.model", model);
            settings.put("topics.partitions", "2");
            settings.put("audit.key.file", key(state));
            ServiceConfig config = ServiceConfig.of(settings);
            return killAgainAndAgain(settings, state, config, new KafkaClients(config));
        }
    }

    private List<Double> killAgainAndAgain(
            Map<String, String> settings, Path state, ServiceConfig config, KafkaClients clients) throws InterruptedException {
        List<Double> seconds = new ArrayList<>();
        Process child = start(settings, state);
        try {
            awaitTopics(clients, config);
            try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                    KafkaProducer<byte[], byte[]> producer = clients.producer();
                    KafkaConsumer<byte[], byte[]> consumer = clients.reader(config.string("topics.completions"))) {
                Asker asker = new Asker(config, registry, producer, Question.of(model, BETWEEN_KILLS));
                for (int round = 1; round <= rounds; round++) {
                    // Prompts are answered, and others are in flight, when the process dies.
                    asker.send(BETWEEN_KILLS);
                    await(consumer, answered.size() + BETWEEN_KILLS / 2, 0);
                    asker.send(BETWEEN_KILLS);
                    child.destroyForcibly().waitFor();
                    long killed = System.nanoTime();
                    child = start(settings, state);
                    long first = await(consumer, answered.size() + 1, killed + IN_FLIGHT_NANOS);
                    seconds.add((first - killed) / 1e9);
                    progress.accept("round %d: %.1f s".formatted(round, seconds.getLast()));
                }
                await(consumer, sent, 0);
            }
        } finally {
            child.destroyForcibly().waitFor();
        }
        return seconds;
    }

    private static String key(Path state) throws IOException {
        Path key = state.resolve("audit.key");
        millrace.integrity.NoteSigner.loadOrCreate(key, "bench.local", new java.security.SecureRandom());
        return key.toString();
    }

    private static Process start(Map<String, String> settings, Path state) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), "millrace.streams.cli.Main", "serve"));
        settings.forEach((key, value) -> command.addAll(List.of("-D", key + "=" + value)));
        File log = state.resolve("serve.log").toFile();
        try {
            return new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.appendTo(log))
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start a JVM for the service", e);
        }
    }

    private static void awaitTopics(KafkaClients clients, ServiceConfig config) throws InterruptedException {
        long until = System.nanoTime() + PATIENCE.toNanos();
        try (var admin = clients.admin()) {
            while (System.nanoTime() < until) {
                try {
                    if (admin.listTopics().names().get().contains(config.string("topics.dlq"))) {
                        return;
                    }
                } catch (java.util.concurrent.ExecutionException e) {
                    throw new IllegalStateException("the embedded broker did not answer", e);
                }
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("the service did not create its topics within " + PATIENCE.toSeconds() + " s");
    }

    /// Reads until so many prompts have been answered, or the first answer at or after `fromNanos`; returns its time.
    private long await(KafkaConsumer<byte[], byte[]> consumer, int count, long fromNanos) {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < until) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(20));
            long now = System.nanoTime();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                String id = new String(record.key(), StandardCharsets.UTF_8);
                if (!answered.add(id)) {
                    throw new IllegalStateException("prompt " + id + " was answered twice");
                }
            }
            if (fromNanos != 0 ? !records.isEmpty() && now >= fromNanos : answered.size() >= count) {
                return now;
            }
        }
        throw new IllegalStateException("expected " + count + " answers within " + PATIENCE.toSeconds() + " s, got " + answered.size());
    }

    /// Sends the questions again and again, each time under new ids.
    private final class Asker {
        private final String topic;
        private final KafkaProducer<byte[], byte[]> producer;
        private final AvroEncoder<Prompt> encoder;
        private final List<Question> questions;

        Asker(ServiceConfig config, SchemaRegistryClient registry, KafkaProducer<byte[], byte[]> producer, List<Question> questions) {
            this.topic = config.string("topics.prompts");
            this.producer = producer;
            this.encoder = AvroEncoder.open(registry, Prompt.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
            this.questions = questions;
        }

        void send(int count) {
            for (int i = 0; i < count; i++) {
                String id = "recovery-" + sent++;
                producer.send(new ProducerRecord<>(topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(questions.get(i % questions.size()).event(id))));
            }
            producer.flush();
        }
    }
}

package millrace.streams.demo;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import millrace.engine.ModelCard;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditReport;
import millrace.integrity.audit.AuditVerifier;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/// Broker, registry, service, an ordinary producer, a committed reader and the auditor, one after the other.
public final class Demo {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /// What the demo found.
    ///
    /// @param kvBytes bytes of KV cache that the tokens of all questions were stored in
    /// @param tokensPerSecond generated tokens over the time from the first prompt sent to the last completion
    public record Summary(
            ModelCard card, int questions, int answered, int right, long promptTokens, long completionTokens,
            double tokensPerSecond, long kvBytes, AuditReport audit, double secondsToFirstAnswer, double seconds) {
        public boolean good() {
            return answered == questions && audit.word().equals("ok");
        }
    }

    /// Told as things happen.
    public interface Listener {
        void story(String line);

        void answered(Question question, Completion completion, double latencyMs);
    }

    private record Sent(Question question, long atNanos) {}

    private final Listener listener;
    private final long startNanos = System.nanoTime();
    private long promptTokens;
    private long completionTokens;
    private int right;
    private int answered;
    private double secondsToFirstAnswer;

    public Demo(Listener listener) {
        this.listener = listener;
    }

    /// @param opener opens the engine; it runs beside the start of the broker
    public Summary run(List<Question> questions, Map<String, String> overrides, InferenceService.EngineOpener opener) {
        try (ScratchDirectory scratch = ScratchDirectory.create("millrace-demo-")) {
            Path state = scratch.path();
            // Before the cluster is there; an engine needs nothing of it.
            ServiceConfig early = config(
                    state, Map.of("engine.threads", Integer.toString(EmbeddedCluster.engineThreads())), overrides);
            CompletableFuture<TextEngine> engine = CompletableFuture.supplyAsync(() -> opener.open(early));
            try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
                listener.story("embedded broker " + cluster.bootstrap() + " (any Kafka client may connect), schema registry "
                        + cluster.registryUrl());
                ServiceConfig config = config(state, cluster.serviceConfig(), overrides);
                try (InferenceService service = InferenceService.start(config, c -> joined(engine), true, listener::story)) {
                    return ask(questions, config, service);
                }
            }
        }
    }

    private static TextEngine joined(CompletableFuture<TextEngine> engine) {
        try {
            return engine.join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw e;
        }
    }

    private static ServiceConfig config(Path state, Map<String, String> cluster, Map<String, String> overrides) {
        Map<String, String> all = new LinkedHashMap<>(cluster);
        all.put("state.dir", state.toString());
        all.put("health.port", "-1");
        all.put("topics.partitions", "2");
        all.put("audit.checkpoint.interval.ms", "500");
        all.putAll(overrides);
        return ServiceConfig.of(all);
    }

    private Summary ask(List<Question> questions, ServiceConfig config, InferenceService service) {
        KafkaClients clients = new KafkaClients(config);
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaConsumer<byte[], byte[]> completions = clients.reader(config.string("topics.completions"));
                KafkaConsumer<byte[], byte[]> checkpoints = clients.reader(config.string("topics.checkpoints"));
                KafkaProducer<byte[], byte[]> producer = clients.producer()) {
            long firstSent = System.nanoTime();
            Map<String, Sent> waiting = send(questions, config, registry, producer);
            long lastAnswer = receive(waiting, completions, new AvroDecoder<>(registry, Completion.class));
            awaitCheckpoints(answered, checkpoints, new AvroDecoder<>(registry, CheckpointRecord.class));
            AuditReport report = AuditVerifier.run(
                    new AuditOptions(clients.plain(), config.string("topics.audit"), config.string("topics.checkpoints"),
                            config.string("topics.completions"), List.of(NoteVerifier.parse(service.vkey()))),
                    progress -> {});
            double seconds = (lastAnswer - firstSent) / 1e9;
            ModelCard card = service.card();
            return new Summary(card, questions.size(), answered, right, promptTokens, completionTokens,
                    seconds <= 0 ? 0 : completionTokens / seconds, (promptTokens + completionTokens) * card.kvBytesPerToken(),
                    report, secondsToFirstAnswer, (System.nanoTime() - startNanos) / 1e9);
        }
    }

    private static Map<String, Sent> send(
            List<Question> questions, ServiceConfig config, SchemaRegistryClient registry, KafkaProducer<byte[], byte[]> producer) {
        String topic = config.string("topics.prompts");
        AvroEncoder<Prompt> encoder =
                AvroEncoder.open(registry, Prompt.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
        Map<String, Sent> waiting = new HashMap<>();
        int number = 0;
        for (Question question : questions) {
            String id = "demo-%04d".formatted(++number);
            waiting.put(id, new Sent(question, System.nanoTime()));
            producer.send(new ProducerRecord<>(topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(question.event(id))));
        }
        producer.flush();
        return waiting;
    }

    private long receive(Map<String, Sent> waiting, KafkaConsumer<byte[], byte[]> consumer, AvroDecoder<Completion> decoder) {
        long last = System.nanoTime();
        long until = last + PATIENCE.toNanos();
        while (!waiting.isEmpty() && System.nanoTime() < until) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                last = System.nanoTime();
                until = last + PATIENCE.toNanos();
                Completion completion = decoder.decode(record.value());
                Sent sent = waiting.remove(completion.getRequestId());
                if (sent != null) {
                    note(sent, completion, last);
                }
            }
        }
        return last;
    }

    private void note(Sent sent, Completion completion, long now) {
        if (secondsToFirstAnswer == 0) {
            secondsToFirstAnswer = (now - startNanos) / 1e9;
        }
        FinishReason finish = completion.getFinishReason();
        if (finish == FinishReason.stop || finish == FinishReason.length) {
            answered++;
        }
        if (sent.question().isRight(completion.getText())) {
            right++;
        }
        promptTokens += completion.getUsage().getPromptTokens();
        completionTokens += completion.getUsage().getCompletionTokens();
        listener.answered(sent.question(), completion, (now - sent.atNanos()) / 1e6);
    }

    /// Waits until signed checkpoints cover as many leaves as there are answers.
    private static void awaitCheckpoints(
            int leaves, KafkaConsumer<byte[], byte[]> consumer, AvroDecoder<CheckpointRecord> decoder) {
        Map<String, Long> signed = new HashMap<>();
        long until = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (signed.values().stream().mapToLong(Long::longValue).sum() < leaves && System.nanoTime() < until) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                CheckpointRecord checkpoint = decoder.decode(record.value());
                signed.merge(checkpoint.getOrigin(), checkpoint.getSize(), Math::max);
            }
        }
    }
}

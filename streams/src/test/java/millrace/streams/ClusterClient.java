package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditReport;
import millrace.integrity.audit.AuditVerifier;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;

/// An outside client of a service: produces prompts and watches committed completions arrive.
final class ClusterClient implements AutoCloseable {
    private final ServiceConfig config;
    private final KafkaClients clients;
    private final SchemaRegistryClient registry;
    private final KafkaProducer<byte[], byte[]> producer;
    private final AvroEncoder<Prompt> encoder;
    private final AvroDecoder<Completion> decoder;
    private final KafkaConsumer<byte[], byte[]> watcher;
    private final Thread thread = new Thread(this::watch, "watch-completions");
    private final Map<String, Completion> answers = new ConcurrentHashMap<>();
    private final List<Long> arrivals = new CopyOnWriteArrayList<>();
    private volatile boolean stop;

    /// The topics exist already.
    ClusterClient(ServiceConfig config) {
        this.config = config;
        clients = new KafkaClients(config);
        registry = SchemaRegistryClient.open(config.registry());
        producer = clients.producer();
        encoder = AvroEncoder.open(registry, Prompt.class, config.string("topics.prompts") + "-value", AvroSerdeConfig.of(config.registry()));
        decoder = new AvroDecoder<>(registry, Completion.class);
        watcher = clients.reader();
        List<TopicPartition> all = partitions(watcher, config.string("topics.completions"));
        watcher.assign(all);
        watcher.seekToBeginning(all);
        thread.setDaemon(true);
        thread.start();
    }

    private static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        return consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    private void watch() {
        while (!stop) {
            for (ConsumerRecord<byte[], byte[]> record : watcher.poll(Duration.ofMillis(50))) {
                Completion completion = decoder.decode(record.value());
                answers.put(completion.getRequestId(), completion);
                arrivals.add(System.nanoTime());
            }
        }
    }

    SchemaRegistryClient registry() {
        return registry;
    }

    byte[] encode(Prompt prompt) {
        return encoder.encode(prompt);
    }

    void send(Prompt prompt) {
        sendRaw(prompt.getRequestId().getBytes(StandardCharsets.UTF_8), encode(prompt), new RecordHeaders());
    }

    void sendRaw(byte @Nullable [] key, byte @Nullable [] value, Headers headers) {
        try {
            producer.send(new ProducerRecord<>(config.string("topics.prompts"), null, null, key, value, headers)).get(30, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        } catch (InterruptedException | java.util.concurrent.TimeoutException e) {
            throw new IllegalStateException(e);
        }
    }

    /// Cancels what was sent.
    void cancel(Prompt prompt) {
        String topic = config.string("topics.cancels");
        AvroEncoder<Control> controls =
                AvroEncoder.open(registry, Control.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
        Control control = Cancellation.of(prompt.getTenant(), prompt.getRequestId(), System.currentTimeMillis());
        producer.send(new ProducerRecord<>(topic, PromptKey.of(prompt), controls.encode(control)));
    }

    int answered() {
        return answers.size();
    }

    @Nullable Completion answer(String id) {
        return answers.get(id);
    }

    /// `System.nanoTime()` of the first completion that arrived after this time, or -1.
    long firstArrivalAfter(long nanos) {
        return arrivals.stream().filter(at -> at > nanos).findFirst().orElse(-1L);
    }

    /// The answer, for which it waits.
    Completion await(String id, Duration patience) {
        long until = System.nanoTime() + patience.toNanos();
        Completion answer = answers.get(id);
        while (answer == null) {
            assertThat(System.nanoTime()).as("waited %s for the answer to %s", patience, id).isLessThan(until);
            sleep(5);
            answer = answers.get(id);
        }
        return answer;
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /// Every committed record of a topic, partition by partition.
    List<ConsumerRecord<byte[], byte[]>> readAll(String topicKey) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = clients.reader()) {
            List<TopicPartition> all = partitions(consumer, config.string(topicKey));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    /// Exactly one committed completion and one committed attestation for each id, in the same partition.
    void assertExactlyOnce(Collection<String> ids) {
        AvroDecoder<AttestationRecord> leaves = new AvroDecoder<>(registry, AttestationRecord.class);
        List<String> completed = readAll("topics.completions").stream()
                .map(record -> decoder.decode(record.value()).getRequestId() + " in " + record.partition()).toList();
        List<String> attested = readAll("topics.audit").stream()
                .map(record -> Map.entry(record.partition(), leaves.decode(record.value())))
                .filter(leaf -> leaf.getValue().getInOffset() >= 0)
                .map(leaf -> leaf.getValue().getRequestId() + " in " + leaf.getKey()).toList();
        assertThat(completed).as("one committed completion each").doesNotHaveDuplicates().hasSize(ids.size());
        assertThat(attested).as("one committed attestation each").containsExactlyInAnyOrderElementsOf(completed);
        assertThat(completed.stream().map(entry -> entry.substring(0, entry.indexOf(' '))).toList())
                .containsExactlyInAnyOrderElementsOf(ids);
    }

    /// What an outside auditor finds.
    AuditReport audit(NoteVerifier key) {
        return AuditVerifier.run(
                new AuditOptions(clients.plain(), config.string("topics.audit"), config.string("topics.checkpoints"),
                        config.string("topics.completions"), null, List.of(key), Duration.ofSeconds(5), Duration.ofSeconds(20), registry::byId),
                progress -> {});
    }

    @Override
    public void close() {
        stop = true;
        try {
            thread.join(5_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        watcher.close();
        producer.close();
        registry.close();
    }
}

package millrace.streams.batch;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.Prompt;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.jspecify.annotations.Nullable;

/// The topics as a batch uses them. One thread.
public final class BatchTopics implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /// Where the answers to prompts that are sent from now on may begin.
    public record Start(String cluster, String completionsTopic, List<Long> positions) {}

    /// What was read from the completions topic.
    interface Sink {
        void completion(int partition, long offset, long timestampMs, Completion completion);
    }

    private final ServiceConfig config;
    private final KafkaClients clients;
    private final SchemaRegistryClient registry;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final AvroEncoder<Prompt> prompts;
    private final AvroDecoder<Completion> completions;
    private final AtomicReference<@Nullable Exception> failure = new AtomicReference<>();
    private @Nullable AvroEncoder<Control> controls;

    public BatchTopics(ServiceConfig config) {
        this.config = config;
        clients = new KafkaClients(config);
        registry = SchemaRegistryClient.open(config.registry());
        prompts = encoder(Prompt.class, config.string("topics.prompts"));
        completions = new AvroDecoder<>(registry, Completion.class);
        producer = clients.producer();
        consumer = clients.reader();
    }

    private <T extends SpecificRecord> AvroEncoder<T> encoder(Class<T> type, String topic) {
        return AvroEncoder.open(registry, type, topic + "-value", AvroSerdeConfig.of(config.registry()));
    }

    /// Where the answers to what is sent from now on may begin.
    public Start start() {
        List<TopicPartition> all = partitions();
        Map<TopicPartition, Long> ends = consumer.endOffsets(all, PATIENCE);
        return new Start(cluster(), config.string("topics.completions"), all.stream().map(ends::get).toList());
    }

    /// Id of the cluster.
    String cluster() {
        try (Admin admin = clients.admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (ExecutionException e) {
            throw new KafkaException("the cluster did not answer: " + e.getCause().getMessage(), e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while asking the cluster", e);
        }
    }

    /// The partitions of the completions topic, in order.
    private List<TopicPartition> partitions() {
        String topic = config.string("topics.completions");
        List<PartitionInfo> partitions = consumer.partitionsFor(topic, PATIENCE);
        if (partitions == null || partitions.isEmpty()) {
            throw new IllegalStateException("topic " + topic + " does not exist on " + config.kafka().get("bootstrap.servers")
                    + "; is the service running there?");
        }
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < partitions.size(); i++) {
            all.add(new TopicPartition(topic, i));
        }
        return all;
    }

    /// Begins to read at the positions of a log of answers.
    void seek(AnswerLog answers) {
        List<TopicPartition> all = partitions();
        consumer.assign(all);
        all.forEach(at -> consumer.seek(at, answers.position(at.partition())));
    }

    /// Where the committed records of the completions topic end now, by partition.
    Map<TopicPartition, Long> ends() {
        return consumer.endOffsets(consumer.assignment(), PATIENCE);
    }

    /// Whether everything before these ends was read.
    boolean reached(Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey(), PATIENCE) >= end.getValue());
    }

    /// Hands on what came within the time, and writes the positions down. What is no completion is passed over.
    ///
    /// @return whether anything came
    boolean poll(Duration timeout, AnswerLog answers, Sink sink) {
        boolean any = false;
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(timeout)) {
            any = true;
            try {
                sink.completion(record.partition(), record.offset(), record.timestamp(), completions.decode(record.value()));
            } catch (DecodeException e) {
                // Not one of ours: the service writes what decodes.
                continue;
            }
        }
        for (TopicPartition at : consumer.assignment()) {
            answers.advance(at.partition(), consumer.position(at, PATIENCE));
        }
        return any;
    }

    /// The bytes of a prompt's record.
    byte[] encode(Prompt prompt) {
        return prompts.encode(prompt);
    }

    /// The largest record that the service takes, by this configuration.
    int mostBytes() {
        return config.integer("intake.max.bytes");
    }

    /// Hands a prompt's record to the producer; [#flush] says whether it arrived.
    void send(byte[] key, byte[] value) {
        send(config.string("topics.prompts"), key, value);
    }

    /// Asks the service to end a prompt.
    ///
    /// @param key that of the prompt's record
    void cancel(byte[] key, Prompt prompt, long nowMs) {
        String topic = config.string("topics.cancels");
        if (controls == null) {
            controls = encoder(Control.class, topic);
        }
        Control order = Control.newBuilder().setKind(ControlKind.CANCEL).setRequestId(prompt.getRequestId()).setTenant(prompt.getTenant())
                .setIssuedMs(nowMs).build();
        send(topic, key, controls.encode(order));
    }

    private void send(String topic, byte[] key, byte[] value) {
        producer.send(new ProducerRecord<>(topic, key, value), (metadata, e) -> {
            if (e != null) {
                failure.compareAndSet(null, e);
            }
        });
    }

    /// Returns when all that was sent is acknowledged.
    ///
    /// @throws KafkaException if some of it was not; whether it was written is then not known
    void flush() {
        producer.flush();
        Exception failed = failure.getAndSet(null);
        if (failed != null) {
            throw new KafkaException("topic " + config.string("topics.prompts") + ": prompts were not accepted: " + failed.getMessage()
                    + "; run the command again, it goes on from here", failed);
        }
    }

    @Override
    public void close() {
        consumer.close();
        producer.close(Duration.ofSeconds(5));
        registry.close();
    }
}

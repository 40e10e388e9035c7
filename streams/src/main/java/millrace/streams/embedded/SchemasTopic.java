package millrace.streams.embedded;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.streams.registry.server.RegistryStore;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.jspecify.annotations.Nullable;

/// The compacted topic `_schemas` with one partition: every change of a registry, in order.
final class SchemasTopic implements RegistryStore, AutoCloseable {
    static final String NAME = "_schemas";
    private static final TopicPartition PARTITION = new TopicPartition(NAME, 0);

    private final String bootstrap;
    private final int timeoutMs;
    private @Nullable KafkaProducer<String, String> producer;
    private boolean closed;

    /// `timeout` bounds every wait for the broker.
    SchemasTopic(String bootstrap, Duration timeout) {
        this.bootstrap = bootstrap;
        this.timeoutMs = Math.toIntExact(timeout.toMillis());
    }

    /// Takes one record of the topic; the value is null where a key was deleted.
    interface Reader {
        void record(String key, @Nullable String value);
    }

    /// Creates the topic unless it is there, reads it from its beginning to its present end, and returns the id of
    /// the cluster.
    String open(Reader reader) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "client.id", "embedded-registry",
                "request.timeout.ms", timeoutMs,
                "default.api.timeout.ms", timeoutMs);
        try (Admin admin = Admin.create(settings)) {
            var clusterId = admin.describeCluster().clusterId();
            boolean created = create(admin);
            if (!created) {
                read(reader);
            }
            return clusterId.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException | KafkaException e) {
            throw storeFailed("read", e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw storeFailed("read", e);
        }
    }

    private boolean create(Admin admin) throws InterruptedException, ExecutionException, TimeoutException {
        NewTopic topic = new NewTopic(NAME, 1, (short) 1).configs(Map.of("cleanup.policy", "compact"));
        try {
            admin.createTopics(List.of(topic)).all().get(timeoutMs, TimeUnit.MILLISECONDS);
            return true;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof TopicExistsException) {
                return false;
            }
            throw e;
        }
    }

    private void read(Reader reader) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "client.id", "embedded-registry-reader",
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                // Closing waits for the fetch that is under way, and at the end of the topic nothing comes.
                "fetch.max.wait.ms", 10,
                "default.api.timeout.ms", timeoutMs);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(PARTITION));
            long end = consumer.endOffsets(List.of(PARTITION)).get(PARTITION);
            long deadline = System.nanoTime() + Duration.ofMillis(timeoutMs).toNanos();
            while (consumer.position(PARTITION) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.key() != null) {
                        reader.record(record.key(), record.value());
                    }
                }
                if (System.nanoTime() > deadline) {
                    throw storeFailed("read", new TimeoutException("not at the end after " + timeoutMs + " ms"));
                }
            }
        }
    }

    @Override
    public void append(String key, @Nullable String value) {
        try {
            producer().send(new ProducerRecord<>(NAME, 0, key, value)).get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException | KafkaException e) {
            throw storeFailed("write", e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw storeFailed("write", e);
        }
    }

    // Built at the first write: a restart with all schemas in place never needs it.
    private synchronized KafkaProducer<String, String> producer() {
        if (closed) {
            throw storeFailed("write", new IllegalStateException("the registry is closed"));
        }
        if (producer == null) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("client.id", "embedded-registry");
            settings.put("acks", "all");
            settings.put("enable.idempotence", true);
            settings.put("linger.ms", 0);
            settings.put("delivery.timeout.ms", timeoutMs);
            settings.put("request.timeout.ms", timeoutMs / 3);
            settings.put("max.block.ms", timeoutMs);
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        }
        return producer;
    }

    private EmbeddedException storeFailed(String verb, Throwable cause) {
        String message = "embedded registry: cannot %s topic %s on %s: %s; is the broker up?";
        return new EmbeddedException("EMBEDDED_STORE", message.formatted(verb, NAME, bootstrap, cause), cause);
    }

    @Override
    public synchronized void close() {
        closed = true;
        if (producer != null) {
            producer.close(Duration.ofSeconds(2));
        }
    }
}

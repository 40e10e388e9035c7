package millrace.streams;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.slf4j.LoggerFactory;

/// The properties of every Kafka client of ours: the service's needs first, the user's `kafka.` keys over them.
public final class KafkaClients {
    /// Prefixes that Streams gives to one kind of client; other clients of ours do not understand them.
    private static final String[] STREAMS_PREFIXES = {
        "main.consumer.", "restore.consumer.", "global.consumer.", "consumer.", "producer.", "admin.", "topic."
    };

    private final ServiceConfig config;

    /// @throws ConfigException code `CONFIG_REFUSED` if the clients' log would show what they log in with
    public KafkaClients(ServiceConfig config) {
        this.config = config;
        boolean logsIn = config.kafka().entrySet().stream().anyMatch(
                entry -> entry.getKey().endsWith("security.protocol") && entry.getValue().strip().startsWith("SASL"));
        if (logsIn && LoggerFactory.getLogger(NetworkClient.class).isDebugEnabled()) {
            throw new ConfigException("CONFIG_REFUSED: logger " + NetworkClient.class.getName() + ": expected INFO or above, got DEBUG;"
                    + " with SASL it would write the log-in into the log (CVE-2026-33558)");
        }
    }

    public Admin admin() {
        Map<String, Object> properties = plain();
        properties.putIfAbsent(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 30_000);
        return Admin.create(properties);
    }

    /// Whether the cluster answers within some seconds.
    boolean clusterAnswers() {
        try (Admin admin = admin()) {
            admin.describeCluster().clusterId().get(10, TimeUnit.SECONDS);
            return true;
        } catch (ExecutionException | TimeoutException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    /// A consumer that sees committed records only and keeps no group state.
    public KafkaConsumer<byte[], byte[]> reader() {
        return reader(IsolationLevel.READ_COMMITTED);
    }

    /// The same, which with `READ_UNCOMMITTED` also sees what is not decided yet.
    KafkaConsumer<byte[], byte[]> reader(IsolationLevel isolation) {
        Map<String, Object> properties = plain();
        properties.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation.toString());
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        properties.remove(ConsumerConfig.GROUP_ID_CONFIG);
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /// The same, with all partitions of a topic that exists, from their beginning.
    public KafkaConsumer<byte[], byte[]> reader(String topic) {
        KafkaConsumer<byte[], byte[]> consumer = reader();
        consumer.assign(consumer.partitionsFor(topic).stream()
                .map(partition -> new TopicPartition(topic, partition.partition()))
                .toList());
        return consumer;
    }

    /// An ordinary idempotent producer, as a client of the service would use.
    public KafkaProducer<byte[], byte[]> producer() {
        Map<String, Object> properties = plain();
        properties.put(ProducerConfig.ACKS_CONFIG, "all");
        properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        properties.putIfAbsent(ProducerConfig.LINGER_MS_CONFIG, 0);
        properties.putIfAbsent(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, ProducerLimits.maxRequestBytes(config));
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /// The producer of alarms: idempotent, in no transaction, and it gives up soon enough to try anew.
    KafkaProducer<byte[], byte[]> alarmProducer() {
        Map<String, Object> properties = plain();
        properties.put(ProducerConfig.ACKS_CONFIG, "all");
        properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        properties.put(ProducerConfig.LINGER_MS_CONFIG, 0);
        properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 5_000);
        properties.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 5_000);
        properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 15_000);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /// The producer of previews: idempotent, in no transaction, and it would rather lose a record than wait for it.
    KafkaProducer<byte[], byte[]> previewProducer() {
        Map<String, Object> properties = plain();
        int lingerMs = config.integer("previews.linger.ms");
        properties.put(ProducerConfig.ACKS_CONFIG, "all");
        properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        properties.put(ProducerConfig.LINGER_MS_CONFIG, lingerMs);
        properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 500);
        properties.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 5_000);
        properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 10_000);
        // Not to be asked for at the first token after a quiet hour.
        properties.put(ProducerConfig.METADATA_MAX_IDLE_CONFIG, 86_400_000);
        properties.putIfAbsent(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, ProducerLimits.maxRequestBytes(config));
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /// What the auditor's and other plain clients connect with.
    public Map<String, Object> plain() {
        Map<String, Object> properties = new HashMap<>();
        config.kafka().forEach((key, value) -> {
            for (String prefix : STREAMS_PREFIXES) {
                if (key.startsWith(prefix)) {
                    return;
                }
            }
            properties.put(key, value);
        });
        return properties;
    }

    /// The configuration of Kafka Streams. See docs/adr for the reasons of each latency measure.
    Properties streams(String instanceId, WakeableClients clients) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, config.string("application.id"));
        properties.put(StreamsConfig.STATE_DIR_CONFIG, config.string("state.dir"));
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, config.integer("stream.threads"));
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, config.integer("topics.replication.factor"));
        properties.put("ensure.explicit.internal.resource.naming", true);
        // Orders and prompts are independent: neither waits for the other, and a held-back topic holds back nothing else.
        properties.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, StreamsConfig.MAX_TASK_IDLE_MS_DISABLED);
        GroupProtocol.configure(properties, config, instanceId, clients);
        properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // An empty changelog answers only when the fetch's wait is over: at 500 ms each that is most of a start.
        properties.put(StreamsConfig.restoreConsumerPrefix(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG), 20);
        // What is polled or buffered is the slack of the bound on prompts in flight.
        properties.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 64);
        properties.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 64);
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
        // The broker answers CONCURRENT_TRANSACTIONS for a moment after each commit: do not back off 100 ms for it.
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.RETRY_BACKOFF_MS_CONFIG), 5);
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.MAX_REQUEST_SIZE_CONFIG), ProducerLimits.maxRequestBytes(config));
        properties.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallRocksDb.class);
        config.kafka().forEach(properties::put);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        return properties;
    }
}

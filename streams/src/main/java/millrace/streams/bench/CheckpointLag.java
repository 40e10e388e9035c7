package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Prompt;
import millrace.schemas.Schemas;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/// How long an answer's leaf waits for the signed checkpoint that covers it, as a reader of committed records sees both. The
/// service has an engine that answers at once; broker and reader share its process.
final class CheckpointLag {
    private static final int WARM_UP = 40;
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /// A leaf that no checkpoint covers yet.
    private record Leaf(String origin, long seq, long nanos) {}

    private final int prompts;
    private final int perSecond;

    CheckpointLag(int prompts, int perSecond) {
        this.prompts = prompts;
        this.perSecond = perSecond;
    }

    /// With the service's defaults.
    Spread measure() {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = BenchCluster.settings(cluster, state);
            settings.put("topics.partitions", "2");
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new NoOpEngine(), true, line -> {});
                    SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                    KafkaProducer<byte[], byte[]> producer = new KafkaClients(config).producer();
                    KafkaConsumer<byte[], byte[]> reader = reader(config)) {
                AvroEncoder<Prompt> encoder = AvroEncoder.open(registry, Prompt.class,
                        config.string("topics.prompts") + "-value", AvroSerdeConfig.of(config.registry()));
                return Spread.ofNanos(watch(config, producer, encoder, reader));
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> reader(ServiceConfig config) {
        KafkaConsumer<byte[], byte[]> reader = new KafkaClients(config).reader();
        List<TopicPartition> partitions = Stream.of("topics.audit", "topics.checkpoints")
                .flatMap(key -> reader.partitionsFor(config.string(key)).stream())
                .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
        reader.assign(partitions);
        reader.seekToEnd(partitions);
        partitions.forEach(reader::position);
        return reader;
    }

    private long[] watch(
            ServiceConfig config, KafkaProducer<byte[], byte[]> producer, AvroEncoder<Prompt> encoder,
            KafkaConsumer<byte[], byte[]> reader) {
        WireReader<AttestationRecord> leaves = new WireReader<>(Schemas.ATTESTATION, null);
        WireReader<CheckpointRecord> checkpoints = new WireReader<>(Schemas.CHECKPOINT, null);
        String audit = config.string("topics.audit");
        List<Leaf> waiting = new ArrayList<>();
        List<Long> lags = new ArrayList<>();
        Map<String, Long> signed = new HashMap<>();
        int total = WARM_UP + prompts;
        int sent = 0;
        long start = System.nanoTime();
        while (lags.size() < total) {
            long now = System.nanoTime();
            if (now - start > PATIENCE.toNanos() + total * 1_000_000_000L / perSecond) {
                throw new IllegalStateException(waiting.size() + " leaves have no signed checkpoint after " + PATIENCE);
            }
            while (sent < total && now - start >= sent * 1_000_000_000L / perSecond) {
                producer.send(prompt(config, encoder, sent++));
            }
            for (ConsumerRecord<byte[], byte[]> record : reader.poll(Duration.ofMillis(1))) {
                long at = System.nanoTime();
                if (record.topic().equals(audit)) {
                    AttestationRecord leaf = leaves.read(record.value()).record();
                    if (leaf.getEvent() == AuditEvent.INFERENCE) {
                        // Topics are read in no order of their own: a checkpoint may come before what it covers.
                        if (leaf.getSeq() < signed.getOrDefault(leaf.getLogOrigin(), 0L)) {
                            lags.add(0L);
                        } else {
                            waiting.add(new Leaf(leaf.getLogOrigin(), leaf.getSeq(), at));
                        }
                    }
                } else {
                    CheckpointRecord checkpoint = checkpoints.read(record.value()).record();
                    signed.merge(checkpoint.getOrigin(), checkpoint.getSize(), Math::max);
                    settle(checkpoint, at, waiting, lags);
                }
            }
            LockSupport.parkNanos(200_000);
        }
        return lags.stream().skip(WARM_UP).mapToLong(Long::longValue).toArray();
    }

    private static void settle(CheckpointRecord checkpoint, long at, List<Leaf> waiting, List<Long> lags) {
        for (Iterator<Leaf> each = waiting.iterator(); each.hasNext();) {
            Leaf leaf = each.next();
            if (leaf.origin().equals(checkpoint.getOrigin()) && leaf.seq() < checkpoint.getSize()) {
                lags.add(at - leaf.nanos());
                each.remove();
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> prompt(ServiceConfig config, AvroEncoder<Prompt> encoder, int i) {
        String id = "lag-" + i;
        Prompt prompt = Prompt.newBuilder().setRequestId(id).setPrompt("What is the two-letter code for France? " + id).build();
        return new ProducerRecord<>(
                config.string("topics.prompts"), id.getBytes(StandardCharsets.UTF_8), encoder.encode(prompt));
    }
}

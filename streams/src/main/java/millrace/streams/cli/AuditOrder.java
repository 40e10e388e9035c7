package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import millrace.integrity.IntegrityException;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Control;
import millrace.schemas.Schemas;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.jspecify.annotations.Nullable;

/// Gives orders to the service and waits for the leaves that say what became of them.
final class AuditOrder {
    private static final Duration POLL = Duration.ofMillis(200);

    private final ServiceConfig config;
    private final AuditConsole console;
    private final Duration timeout;

    AuditOrder(ServiceConfig config, AuditConsole console, Duration timeout) {
        this.config = config;
        this.console = console;
        this.timeout = timeout;
    }

    /// Sends one order to each of the partitions, and waits.
    ///
    /// @return 0 if all were carried out, 1 if one was refused, 2 if one has no leaf in time
    int give(Map<Integer, Control> orders) throws InterruptedException {
        String topic = config.string("topics.control");
        KafkaClients clients = new KafkaClients(config);
        List<TopicPartition> logs = orders.keySet().stream()
                .map(partition -> new TopicPartition(config.string("topics.audit"), partition)).toList();
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaProducer<byte[], byte[]> producer = clients.producer();
                KafkaConsumer<byte[], byte[]> reader = clients.reader()) {
            AvroEncoder<Control> encoder =
                    AvroEncoder.open(registry, Control.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
            reader.assign(logs);
            reader.seekToEnd(logs);
            logs.forEach(reader::position); // before the orders are there
            Map<Integer, Long> waiting = new HashMap<>();
            for (Map.Entry<Integer, Control> order : orders.entrySet()) {
                waiting.put(order.getKey(), producer.send(new ProducerRecord<>(
                        topic, order.getKey(), null, encoder.encode(order.getValue()))).get().offset());
            }
            return await(reader, topic, waiting);
        } catch (ExecutionException e) {
            throw new IllegalStateException("topic " + topic + ": the order was not accepted: " + e.getCause().getMessage(), e);
        }
    }

    private int await(KafkaConsumer<byte[], byte[]> reader, String topic, Map<Integer, Long> waiting) {
        WireReader<AttestationRecord> leaves = new WireReader<>(Schemas.ATTESTATION, null);
        List<ObjectNode> done = new ArrayList<>();
        int result = AuditCommand.OK;
        long until = System.nanoTime() + timeout.toNanos();
        while (!waiting.isEmpty() && System.nanoTime() < until) {
            for (ConsumerRecord<byte[], byte[]> record : reader.poll(POLL)) {
                AttestationRecord leaf = leaf(leaves, record.value());
                Long offset = waiting.get(record.partition());
                if (leaf == null || offset == null || !leaf.getInTopic().equals(topic) || leaf.getInOffset() != offset) {
                    continue;
                }
                waiting.remove(record.partition());
                boolean refused = leaf.getEvent() == AuditEvent.REFUSED;
                result = refused ? AuditCommand.VIOLATED : result;
                done.add(AuditConsole.object().put("partition", record.partition()).put("offset", record.offset())
                        .put("origin", leaf.getLogOrigin()).put("seq", leaf.getSeq())
                        .put("event", leaf.getEvent().toString()).put("code", leaf.getErrorCode()));
                if (!console.json()) {
                    console.say("%s: leaf %d of %s".formatted(
                            refused ? "REFUSED: " + leaf.getErrorCode() : "done", leaf.getSeq(), leaf.getLogOrigin()));
                }
            }
        }
        return end(done, waiting, result);
    }

    private int end(List<ObjectNode> done, Map<Integer, Long> waiting, int result) {
        int code = waiting.isEmpty() ? result : AuditCommand.UNDECIDED;
        if (!waiting.isEmpty()) {
            console.note("no leaf within %d s for partitions %s: is the service running, and is it of this release? The orders are in"
                    .formatted(timeout.toSeconds(), waiting.keySet()) + " the topic: they will be carried out unless they cannot be read");
        }
        if (console.json()) {
            ObjectNode line = AuditConsole.object().put("verdict", code == 0 ? "ok" : code == 1 ? "refused" : "undecided");
            line.putArray("leaves").addAll(done);
            waiting.keySet().forEach(line.putArray("waiting")::add);
            console.print(line);
        }
        return code;
    }

    private static @Nullable AttestationRecord leaf(WireReader<AttestationRecord> reader, byte[] value) {
        try {
            return reader.read(value).record();
        } catch (IntegrityException e) {
            return null; // not of this release
        }
    }
}

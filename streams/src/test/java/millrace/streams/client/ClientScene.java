package millrace.streams.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Prompt;
import millrace.schemas.Timings;
import millrace.schemas.Usage;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;

/// The other side of a client, played by a test: it writes completions and deltas by hand.
final class ClientScene implements AutoCloseable {
    private final ServiceConfig config;
    private final SchemaRegistryClient registry;
    private final KafkaProducer<byte[], byte[]> producer;
    private final AvroEncoder<Completion> completions;
    private final AvroEncoder<Delta> deltas;

    ClientScene(ServiceConfig config) {
        this.config = config;
        registry = SchemaRegistryClient.open(config.registry());
        producer = new KafkaClients(config).producer();
        AvroSerdeConfig serde = AvroSerdeConfig.of(config.registry());
        completions = AvroEncoder.open(registry, Completion.class, config.string("topics.completions") + "-value", serde);
        deltas = AvroEncoder.open(registry, Delta.class, config.string("topics.deltas") + "-value", serde);
    }

    static void createTopics(ServiceConfig config, int partitions, List<String> uses) throws Exception {
        try (Admin admin = new KafkaClients(config).admin()) {
            admin.createTopics(uses.stream().map(use -> new NewTopic(config.string("topics." + use), partitions, (short) 1)).toList())
                    .all().get(30, TimeUnit.SECONDS);
        }
    }

    static Prompt prompt(String id) {
        return Prompt.newBuilder().setRequestId(id).setPrompt("What is " + id + "?").build();
    }

    /// A completion in the partition that its prompt is in.
    void complete(PendingAnswer to, String text) throws Exception {
        byte[] key = to.requestId().getBytes(StandardCharsets.UTF_8);
        raw("completions", to.sent().get(30, TimeUnit.SECONDS).partition(), key, completions.encode(completion(to, text)));
    }

    byte[] encoded(PendingAnswer to, String text) {
        return completions.encode(completion(to, text));
    }

    void preview(PendingAnswer to, long attempt, long seq, DeltaKind kind, String text) throws Exception {
        Delta delta = Delta.newBuilder().setRequestId(to.requestId()).setTenant(to.tenant()).setAttempt(attempt).setSeq(seq).setKind(kind)
                .setText(text).setTokens((int) seq).setSampledUs(1).build();
        byte[] key = to.requestId().getBytes(StandardCharsets.UTF_8);
        raw("deltas", to.sent().get(30, TimeUnit.SECONDS).partition(), key, deltas.encode(delta));
    }

    void raw(String use, int partition, byte[] key, byte[] value) throws Exception {
        producer.send(new ProducerRecord<>(config.string("topics." + use), partition, null, key, value, new RecordHeaders()))
                .get(30, TimeUnit.SECONDS);
    }

    private static Completion completion(PendingAnswer to, String text) {
        return Completion.newBuilder().setRequestId(to.requestId()).setTenant(to.tenant()).setModel("m")
                .setModelDigest("sha256:" + "0".repeat(64)).setText(text).setFinishReason(FinishReason.stop)
                .setUsage(new Usage(1, 1, 0)).setTimings(new Timings(1L, 2L, 3L)).setSeed(7)
                .setAudit(new AuditPosition("origin", 0, 0L, new Hash(new byte[32]))).setSalt(ByteBuffer.allocate(32))
                .setMetadata(Map.of()).build();
    }

    @Override
    public void close() {
        producer.close();
        registry.close();
    }
}

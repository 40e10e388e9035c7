package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/// What a transaction has written and not yet decided may be the newest leaf: nobody goes on before it is decided.
class KafkaAuditTailIT {
    private static final byte[] NO_LEAF = {1, 2, 3, 4, 5, 6};
    private static EmbeddedBroker broker;

    @BeforeAll
    static void start() {
        broker = EmbeddedBroker.ephemeral("127.0.0.1", 0);
    }

    @AfterAll
    static void stop() {
        broker.close();
    }

    @Test
    void waitsForAnOpenTransactionAndSeesWhatItCommits() throws Exception {
        try (KafkaProducer<byte[], byte[]> writer = writer("committed")) {
            CompletableFuture<Optional<AuditTail.Last>> last = lastBesideAnOpenTransaction("committed", writer);
            writer.commitTransaction();
            // What it committed here is no leaf, and is named.
            assertThatThrownBy(() -> last.get(30, TimeUnit.SECONDS)).cause().isInstanceOf(AuditLog.DivergedException.class)
                    .hasMessage("LOG_STATE_DIVERGED: audit topic committed/0/0: expected an attestation record, got other bytes");
        }
    }

    @Test
    void waitsForAnOpenTransactionAndPassesOverWhatItAborts() throws Exception {
        try (KafkaProducer<byte[], byte[]> writer = writer("aborted")) {
            CompletableFuture<Optional<AuditTail.Last>> last = lastBesideAnOpenTransaction("aborted", writer);
            writer.abortTransaction();
            assertThat(last.get(30, TimeUnit.SECONDS)).isEmpty();
        }
    }

    private static CompletableFuture<Optional<AuditTail.Last>> lastBesideAnOpenTransaction(
            String topic, KafkaProducer<byte[], byte[]> writer) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
        writer.initTransactions();
        writer.beginTransaction();
        writer.send(new ProducerRecord<>(topic, 0, null, NO_LEAF)).get(30, TimeUnit.SECONDS);
        KafkaClients clients = new KafkaClients(ServiceConfig.of(Map.of("kafka.bootstrap.servers", broker.bootstrap())));
        AuditTail tail = new KafkaAuditTail(clients, topic, id -> {
            throw new AssertionError("no schema is asked for");
        });
        CompletableFuture<Optional<AuditTail.Last>> last = CompletableFuture.supplyAsync(() -> tail.last(0));
        assertThatThrownBy(() -> last.get(1_500, TimeUnit.MILLISECONDS)).isInstanceOf(TimeoutException.class);
        return last;
    }

    private static KafkaProducer<byte[], byte[]> writer(String id) {
        return new KafkaProducer<>(Map.of("bootstrap.servers", broker.bootstrap(), "transactional.id", id),
                new ByteArraySerializer(), new ByteArraySerializer());
    }
}

package millrace.integrity.audit;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import millrace.integrity.Checkpoint;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteVerifier;
import millrace.integrity.SignedNote;
import millrace.integrity.audit.AuditTopicCheck.Requirements;
import millrace.integrity.audit.AuditTopicCheck.TopicFacts;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/// The topic of cosignatures: signed notes in UTF-8 under the log's origin, which only witnesses write.
public final class CosignatureTopic implements AutoCloseable {
    private static final String RETENTION = Long.toString(Requirements.CLUSTER.retention().toMillis());

    private final String name;
    private final AuditOptions audit;
    private final KafkaProducer<byte[], byte[]> producer;

    private CosignatureTopic(String name, AuditOptions audit, KafkaProducer<byte[], byte[]> producer) {
        this.name = name;
        this.audit = audit;
        this.producer = producer;
    }

    /// Opens the topic for a witness. One that is missing is made like the checkpoints topic; one that is weaker than that
    /// is refused, since what it holds must last as long.
    ///
    /// @throws IntegrityException codes `AUDIT_TOPIC_UNSAFE`, `AUDIT_TOPIC_MISSING` and `AUDIT_TOPIC_UNREADABLE`
    public static CosignatureTopic open(String name, AuditOptions audit) {
        String model = audit.checkpointsTopic() == null ? audit.topic() : audit.checkpointsTopic();
        try (Admin admin = Admin.create(new HashMap<>(audit.client()))) {
            TopicFacts facts = AuditTopicCheck.read(admin, model);
            int insync = Integer.parseInt(facts.config().getOrDefault("min.insync.replicas", "1"));
            create(admin, name, facts, insync);
            AuditTopicCheck.check(admin, List.of(name), 1,
                    new Requirements(facts.replicas(), insync, Requirements.CLUSTER.retention()));
        }
        Map<String, Object> properties = new HashMap<>(audit.client());
        properties.put(ProducerConfig.ACKS_CONFIG, "all");
        properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        properties.put(ProducerConfig.LINGER_MS_CONFIG, 0);
        return new CosignatureTopic(
                name, audit, new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()));
    }

    private static void create(Admin admin, String name, TopicFacts facts, int insync) {
        NewTopic topic = new NewTopic(name, Optional.of(facts.partitions()), Optional.of((short) facts.replicas()))
                .configs(Map.of("cleanup.policy", "delete", "retention.ms", RETENTION, "retention.bytes", "-1",
                        "unclean.leader.election.enable", "false", "message.timestamp.type", "LogAppendTime",
                        "min.insync.replicas", Integer.toString(insync)));
        try {
            if (!admin.listTopics().names().get().contains(name)) {
                admin.createTopics(List.of(topic)).all().get();
                awaitVisible(admin, name);
            }
        } catch (ExecutionException e) {
            // Another witness may have been faster.
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw new KafkaException("cannot create topic " + name + ": " + e.getCause().getMessage(), e.getCause());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while creating topic " + name, e);
        }
    }

    /// A broker that answers now may not have heard of the new topic yet.
    private static void awaitVisible(Admin admin, String name) throws InterruptedException {
        for (int attempt = 0; attempt < 200; attempt++) {
            try {
                admin.describeTopics(List.of(name)).allTopicNames().get();
                return;
            } catch (ExecutionException notYet) {
                Thread.sleep(50);
            }
        }
    }

    /// Every note here that the key cosigned, oldest first within a partition.
    ///
    /// @throws IntegrityException code `NOTE_SIGNATURE` for one that bears the key's name and is not from it
    List<SignedNote> ofWitness(NoteVerifier key) {
        List<SignedNote> notes = new ArrayList<>();
        try (KafkaLog log = new KafkaLog(audit.client(), name, null, audit.stall())) {
            log.takeEnds();
            log.read(record -> {
                SignedNote note = SignedNote.parse(new String(record.value(), StandardCharsets.UTF_8));
                if (!note.of(key).isEmpty()) {
                    note.verify(List.of(key));
                    notes.add(note);
                }
                return true;
            });
        }
        return notes;
    }

    /// Writes a cosigned note; returns once the cluster has it.
    void publish(SignedNote note) {
        byte[] key = Checkpoint.parse(note.text()).origin().getBytes(StandardCharsets.UTF_8);
        try {
            producer.send(new ProducerRecord<>(name, key, note.encode().getBytes(StandardCharsets.UTF_8))).get();
        } catch (ExecutionException e) {
            throw new KafkaException("topic " + name + ": a cosignature could not be written: "
                    + e.getCause().getMessage() + "; it is made again at the next start", e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while writing to topic " + name, e);
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}

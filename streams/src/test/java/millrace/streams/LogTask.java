package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.UUID;
import java.util.stream.Stream;
import millrace.integrity.Leaf;
import millrace.integrity.LogVerifier;
import millrace.integrity.NoteSigner;
import millrace.integrity.NoteVerifier;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.SaltRecord;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.jspecify.annotations.Nullable;

/// The task that writes one log, over several lives with other keys: stores, topics and clock stay, the processor is made anew.
final class LogTask {
    final TestClock clock = new TestClock();
    final List<byte[]> leaves = new ArrayList<>();
    final List<byte[]> checkpoints = new ArrayList<>();
    final List<byte[]> salts = new ArrayList<>();
    final KeyValueStore<Bytes, byte[]> tlog = store(AuditLog.STORE);
    final KeyValueStore<Bytes, byte[]> tenantKeys = store(TenantKeys.STORE);
    /// How long the topic keeps leaves; null for ever.
    @Nullable Duration retention = Duration.ofDays(184);

    private final SchemaRegistryClient registry = SchemaRegistryClient.open(Map.of("schema.registry.url", "mock://" + UUID.randomUUID()));
    private final AvroSerdeConfig serde = AvroSerdeConfig.of(Map.of("schema.registry.url", "mock://any"));
    private final AttestProcessor.Encoders encoders = new AttestProcessor.Encoders(
            AvroEncoder.open(registry, Completion.class, "llm.completions-value", serde),
            AvroEncoder.open(registry, AttestationRecord.class, "llm.audit-value", serde).schemaId(),
            AvroEncoder.open(registry, CheckpointRecord.class, "llm.audit.checkpoints-value", serde));
    private final AvroEncoder<SaltRecord> saltEncoder = AvroEncoder.open(registry, SaltRecord.class, "llm.audit.salts-value", serde);
    private final AvroDecoder<AttestationRecord> leafReader = new AvroDecoder<>(registry, AttestationRecord.class);
    private final AvroDecoder<CheckpointRecord> checkpointReader = new AvroDecoder<>(registry, CheckpointRecord.class);
    private AttestProcessor processor;
    private MockProcessorContext<byte[], Outgoing> context;
    private long offset;

    private static KeyValueStore<Bytes, byte[]> store(String name) {
        return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingDisabled().withCachingDisabled().build();
    }

    /// Begins another life of the task.
    void start(NoteSigner signer, @Nullable NoteSigner previous, Map<String, String> settings) {
        Map<String, String> all = new HashMap<>(Map.of("kafka.bootstrap.servers", "nowhere:1", "schema.registry.url", "mock://any"));
        all.putAll(settings);
        ServiceConfig config = ServiceConfig.of(all);
        ServiceMetrics metrics = new ServiceMetrics(new SimpleMeterRegistry());
        ScriptedEngine engine = new ScriptedEngine();
        Attestations attestations = new Attestations(engine.card(), engine::integrity, config, "instance-1", signer);
        AttestProcessor.Shared shared = new AttestProcessor.Shared(
                attestations, new EventLeaves(attestations, engine.card()), new Completions(engine), encoders, LogKeys.Signing.LOCAL,
                new AuditLogs(metrics), new Alarms(engine, "instance-1", road(), metrics, clock),
                new LogKeeper.Shared(signer, previous, new AvroDecoder<>(registry, Control.class), saltEncoder, retention),
                partition -> tail(), Duration.ofMillis(1), "millrace.test", "cluster-1", metrics, clock, clock.ticker(),
                new SecureRandom(), config);
        Properties properties = new Properties();
        properties.put("application.id", "test");
        properties.put("bootstrap.servers", "nowhere:1");
        context = new MockProcessorContext<>(properties, new TaskId(0, 0), new java.io.File("."));
        for (KeyValueStore<Bytes, byte[]> store : List.of(tlog, tenantKeys)) {
            if (!store.isOpen()) {
                store.init(context.getStateStoreContext(), store);
            }
            context.addStateStore(store);
        }
        processor = new AttestProcessor(shared, new WakeableClients());
        processor.init(context);
    }

    private Optional<AuditTail.Last> tail() {
        return leaves.isEmpty() ? Optional.empty() : Optional.of(leaf(leaves.size() - 1))
                .map(record -> new AuditTail.Last(record.getLogOrigin(), record.getSeq(), Leaf.of(record).hash()));
    }

    private static Alarms.Road road() {
        return new Alarms.Road() {
            @Override
            public void send(AlarmRecord alarm) {}

            @Override
            public void close() {}
        };
    }

    /// Hands an outcome to the log; a record that cannot be read, which has one leaf and nothing else.
    LogTask grow(int leaves) {
        for (int i = 0; i < leaves; i++) {
            Source source = new Source("llm.prompts", 0, offset++, clock.millis(), null, new byte[] {1}, new RecordHeaders());
            hand(new Outcome.Undecodable(source, "SCHEMA_MAGIC", "no prompt"));
        }
        return this;
    }

    void hand(Outcome outcome) {
        processor.process(new Record<>(new byte[0], new Handover(List.of(), List.of(outcome)), clock.millis()));
        collect();
    }

    Source order() {
        return new Source("llm.control", 0, offset++, clock.millis(), null, new byte[0], new RecordHeaders());
    }

    /// Lets time pass and the processor's timer run once.
    LogTask pass(Duration time) {
        clock.advance(time.toMillis());
        context.scheduledPunctuators().forEach(timer -> timer.getPunctuator().punctuate(clock.millis()));
        collect();
        return this;
    }

    LogTask checkpoint() {
        return pass(Duration.ofSeconds(1));
    }

    private void collect() {
        for (MockProcessorContext.CapturedForward<? extends byte[], ? extends Outgoing> forward : context.forwarded()) {
            byte[] value = forward.record().value().bytes();
            switch (forward.childName().orElse("")) {
                case AttestProcessor.AUDIT_SINK -> leaves.add(value);
                case AttestProcessor.CHECKPOINTS_SINK -> checkpoints.add(value);
                case AttestProcessor.SALTS_SINK -> salts.add(value);
                default -> { }
            }
        }
        context.resetForwards();
    }

    AttestationRecord leaf(int index) {
        return leafReader.decode(leaves.get(index));
    }

    AttestationRecord last() {
        return leaf(leaves.size() - 1);
    }

    List<AttestationRecord> all() {
        return leaves.stream().map(leafReader::decode).toList();
    }

    /// Labels of the keys that signed the newest checkpoint.
    List<String> signers() {
        return SignedNote.parse(checkpointReader.decode(checkpoints.getLast()).getNote()).signatures().stream()
                .map(line -> "%s+%08x".formatted(line.keyName(), line.keyId())).toList();
    }

    /// What an auditor with these keys finds.
    Verdict verdict(NoteSigner... known) {
        return verdict(0, known);
    }

    /// The same, of a topic whose first leaves were deleted.
    Verdict verdict(int gone, NoteSigner... known) {
        List<NoteVerifier> keys = Stream.of(known).map(NoteSigner::verifier).toList();
        LogVerifier log = new LogVerifier("llm.audit", keys, registry::byId).expecting("millrace.test", "cluster-1");
        if (gone > 0) {
            log.truncated(0);
            all().stream().filter(leaf -> leaf.getPrune() != null).forEach(leaf -> log.pruned(0, leaf));
        }
        for (int i = 0; i < checkpoints.size(); i++) {
            log.checkpoint(new Verdict.Place("llm.audit.checkpoints", 0, i), checkpoints.get(i));
        }
        for (int i = gone; i < leaves.size(); i++) {
            log.leaf(0, i, leaves.get(i));
        }
        return log.verdict();
    }

    void verify(NoteSigner... known) {
        assertThat(verdict(known)).isEqualTo(Verdict.VERIFIED);
    }
}

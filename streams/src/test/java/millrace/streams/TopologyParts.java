package millrace.streams;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;
import millrace.engine.TextEngine;
import millrace.integrity.Leaf;
import millrace.integrity.NoteSigner;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.Prompt;
import millrace.schemas.SaltRecord;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.Schema;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.WindowStore;
import org.jspecify.annotations.Nullable;

/// The service's own topology taken apart into what Kafka knows of it: who processes, what is stored, where it goes.
/// The simulation puts the parts together again over a broker of its own.
public final class TopologyParts extends Topology {
    public static final String PROMPTS = "llm.prompts";
    public static final String COMPLETIONS = "llm.completions";
    public static final String AUDIT = "llm.audit";
    public static final String CHECKPOINTS = "llm.audit.checkpoints";
    public static final String DEAD_LETTERS = "llm.dlq";
    public static final String CONTROL = "llm.control";
    public static final String CANCELS = "llm.cancels";
    public static final String SALTS_TOPIC = "llm.audit.salts";
    public static final String DOMAIN = "millrace.test";
    public static final String CLUSTER = "cluster-1";

    /// What surrounds one process.
    ///
    /// @param lastLeaf value of the last record that `read_committed` sees in a partition of the audit topic
    /// @param pause lets so many milliseconds pass
    /// @param alarms where the second road leads
    public record Surroundings(
            String instance,
            TextEngine engine,
            Clock clock,
            LongSupplier nanos,
            LongConsumer pause,
            BooleanSupplier registryDown,
            IntFunction<byte @Nullable []> lastLeaf,
            SecureRandom random,
            NoteSigner signer,
            @Nullable NoteSigner previousSigner,
            Runnable onEngineFailure,
            Consumer<AlarmRecord> alarms,
            Map<String, String> settings) {}

    public record Node(String name, ProcessorSupplier<Object, Object, Object, Object> supplier, List<String> parents) {}

    public record Sink(
            String name,
            String topic,
            Serializer<Object> key,
            Serializer<Object> value,
            StreamPartitioner<Object, Object> partitioner,
            List<String> parents) {}

    /// @param window whether it is a window store, else a key-value store
    public record Store(String name, boolean window) {}

    private static final SchemaRegistryClient REGISTRY = SchemaRegistryClient.open(Map.of("schema.registry.url", "mock://simulation"));
    private static final AvroSerdeConfig SERDE = AvroSerdeConfig.of(Map.of("schema.registry.url", "mock://simulation"));
    private static final AvroEncoder<Prompt> PROMPT = AvroEncoder.open(REGISTRY, Prompt.class, PROMPTS + "-value", SERDE);
    private static final AttestProcessor.Encoders ENCODERS = new AttestProcessor.Encoders(
            AvroEncoder.open(REGISTRY, Completion.class, COMPLETIONS + "-value", SERDE),
            AvroEncoder.open(REGISTRY, AttestationRecord.class, AUDIT + "-value", SERDE).schemaId(),
            AvroEncoder.open(REGISTRY, CheckpointRecord.class, CHECKPOINTS + "-value", SERDE));
    private static final AvroEncoder<Control> ORDER = AvroEncoder.open(REGISTRY, Control.class, CONTROL + "-value", SERDE);
    private static final AvroDecoder<Control> ORDERS = orders();
    private static final AvroEncoder<SaltRecord> SALTS = AvroEncoder.open(REGISTRY, SaltRecord.class, "llm.audit.salts-value", SERDE);
    private static final AvroDecoder<Prompt> PROMPT_READER = new AvroDecoder<>(REGISTRY, Prompt.class);
    private static final AvroDecoder<Completion> COMPLETION_READER = new AvroDecoder<>(REGISTRY, Completion.class);
    private static final AvroDecoder<AttestationRecord> LEAF_READER = new AvroDecoder<>(REGISTRY, AttestationRecord.class);

    private final List<Node> nodes = new ArrayList<>();
    private final List<Sink> sinks = new ArrayList<>();
    private final List<Store> stores = new ArrayList<>();
    private String source = "";
    private String ordersSource = "";
    private String cancelsSource = "";

    private final Alarms alarms;
    private final WakeableClients clients;

    private TopologyParts(Alarms alarms, WakeableClients clients) {
        this.alarms = alarms;
        this.clients = clients;
    }

    /// The parts of one process.
    public static TopologyParts of(Surroundings around) {
        Map<String, String> settings = new HashMap<>(Map.of(
                "kafka.bootstrap.servers", "nowhere:1", "schema.registry.url", "mock://simulation", "store.type", "memory",
                "intake.max.bytes", "2048"));
        settings.putAll(around.settings());
        ServiceConfig config = ServiceConfig.of(settings);
        ServiceMetrics metrics = new ServiceMetrics(new SimpleMeterRegistry());
        Ticker ticker = ticker(around);
        AuditLogs logs = new AuditLogs(metrics, around.random().nextLong());
        Alarms alarms = new Alarms(around.engine(), around.instance(), road(around.alarms()), metrics, around.clock());
        Attestations attestations = new Attestations(
                around.engine().card(), around.engine()::integrity, config, around.instance(), around.signer());
        WakeableClients clients = new WakeableClients();
        InferenceProcessor.Shared inference = new InferenceProcessor.Shared(
                around.engine(), source -> decode(source, around.registryDown()), Intake.Limits.of(config),
                new CacheSalts(around.signer(), ""), ORDERS,
                new Quotas(() -> QuotaTable.of(config), 3, ticker, metrics), logs, clients, metrics, around.onEngineFailure(),
                around.clock(), ticker, config);
        AttestProcessor.Shared attest = new AttestProcessor.Shared(
                attestations, new EventLeaves(attestations, around.engine().card()), new Completions(around.engine()), ENCODERS,
                LogKeys.Signing.LOCAL, logs, alarms, new LogKeeper.Shared(around.signer(), around.previousSigner(), ORDERS, SALTS, Duration.ofDays(184)),
                partition -> Optional.ofNullable(around.lastLeaf().apply(partition)).map(TopologyParts::last),
                Duration.ofSeconds(20), DOMAIN, CLUSTER, metrics, around.clock(), ticker, around.random(), config);
        TopologyParts parts = new TopologyParts(alarms, clients);
        InferenceTopology.addTo(parts, config, inference, attest);
        return parts;
    }

    private static Alarms.Road road(Consumer<AlarmRecord> alarms) {
        return new Alarms.Road() {
            @Override
            public void send(AlarmRecord alarm) {
                alarms.accept(alarm);
            }

            @Override
            public void close() {}
        };
    }

    private static Ticker ticker(Surroundings around) {
        return new Ticker() {
            @Override
            public long nanos() {
                return around.nanos().getAsLong();
            }

            @Override
            public void pause(long ms) {
                around.pause().accept(ms);
            }
        };
    }

    private static Prompt decode(millrace.streams.Source source, BooleanSupplier registryDown) {
        if (source.value() != null && source.value().length >= 5 && registryDown.getAsBoolean()) {
            throw new PromptDecoder.RegistryUnavailableException("down");
        }
        try {
            return PROMPT_READER.decode(source.value(), null);
        } catch (DecodeException e) {
            throw new PromptDecoder.UndecodableException(e.code(), e.getMessage());
        }
    }

    private static AuditTail.Last last(byte[] leaf) {
        AttestationRecord record = leaf(leaf);
        return new AuditTail.Last(record.getLogOrigin(), record.getSeq(), Leaf.of(record).hash());
    }

    public static byte[] encode(Prompt prompt) {
        return PROMPT.encode(prompt);
    }

    public static byte[] encode(Control order) {
        return ORDER.encode(order);
    }

    private static AvroDecoder<Control> orders() {
        AvroDecoder<Control> decoder = new AvroDecoder<>(REGISTRY, Control.class);
        decoder.warm(CONTROL + "-value");
        return decoder;
    }

    /// Reads cancellations as this class encodes them.
    static AvroDecoder<Control> cancels() {
        return ORDERS;
    }

    public static Completion completion(byte[] value) {
        return COMPLETION_READER.decode(value);
    }

    public static AttestationRecord leaf(byte[] value) {
        return LEAF_READER.decode(value);
    }

    public static IntFunction<Schema> schemas() {
        return REGISTRY::byId;
    }

    /// Lets the watcher of alarms run one turn.
    public void watchAlarms() {
        alarms.turn();
    }

    public String source() {
        return source;
    }

    /// Whether prompts are held back from the next poll on: there is enough to do.
    public boolean holdsPrompts() {
        return clients.ofCurrentThread().holds();
    }

    public String ordersSource() {
        return ordersSource;
    }

    public String cancelsSource() {
        return cancelsSource;
    }

    public List<Node> nodes() {
        return nodes;
    }

    public List<Sink> sinks() {
        return sinks;
    }

    public List<Store> stores() {
        return stores;
    }

    @Override
    public synchronized <K, V> Topology addSource(String name, Deserializer<K> key, Deserializer<V> value, String... topics) {
        if (List.of(topics).contains(PROMPTS)) {
            source = name;
        }
        if (List.of(topics).contains(CONTROL)) {
            ordersSource = name;
        }
        if (List.of(topics).contains(CANCELS)) {
            cancelsSource = name;
        }
        return super.addSource(name, key, value, topics);
    }

    @Override
    @SuppressWarnings("unchecked")
    public synchronized <A, B, C, D> Topology addProcessor(String name, ProcessorSupplier<A, B, C, D> supplier, String... parents) {
        nodes.add(new Node(name, (ProcessorSupplier<Object, Object, Object, Object>) supplier, List.of(parents)));
        return super.addProcessor(name, supplier, parents);
    }

    @Override
    @SuppressWarnings("unchecked")
    public synchronized <K, V> Topology addSink(
            String name, String topic, Serializer<K> key, Serializer<V> value, StreamPartitioner<? super K, ? super V> partitioner,
            String... parents) {
        sinks.add(new Sink(name, topic, (Serializer<Object>) key, (Serializer<Object>) value,
                (StreamPartitioner<Object, Object>) partitioner, List.of(parents)));
        return super.addSink(name, topic, key, value, partitioner, parents);
    }

    @Override
    public synchronized <S extends StateStore> Topology addStateStore(StoreBuilder<S> builder, String... processors) {
        stores.add(new Store(builder.name(), builder.build() instanceof WindowStore));
        return super.addStateStore(builder, processors);
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.UUID;
import java.util.function.Consumer;
import millrace.integrity.Checkpoint;
import millrace.integrity.CompletionMatcher;
import millrace.integrity.LogVerifier;
import millrace.integrity.NoteSigner;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.Prompt;
import millrace.schemas.SaltRecord;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.test.TestRecord;
import org.jspecify.annotations.Nullable;

/// The whole topology under Kafka's test driver, with a scripted engine, a registry in memory and a clock that stands.
///
/// Everything that came out is kept, so that the log as a whole can be verified at the end of every test.
final class ServiceDriver implements AutoCloseable {
    final TestClock clock = new TestClock();
    final ScriptedEngine engine = new ScriptedEngine();
    final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    final ServiceMetrics metrics = new ServiceMetrics(meters);
    final NoteSigner signer = NoteSigner.generate("millrace.test", new SecureRandom());
    final ServiceConfig config;
    final List<TestRecord<byte[], byte[]>> completions = new ArrayList<>();
    /// The audit topic as a whole.
    final List<TestRecord<byte[], byte[]>> log = new ArrayList<>();
    /// Its leaves without those that say what serves here.
    final List<TestRecord<byte[], byte[]>> leaves = new ArrayList<>();
    final List<TestRecord<byte[], byte[]>> checkpoints = new ArrayList<>();
    final List<TestRecord<byte[], byte[]>> deadLetters = new ArrayList<>();
    final List<AlarmRecord> alarms = new ArrayList<>();
    /// How many alarms are refused before the next one is taken.
    int alarmsRefused;
    /// What the signer fails with, or null while it works.
    @Nullable RuntimeException signerFailure;
    final List<TestRecord<byte[], byte[]>> salts = new ArrayList<>();
    int engineFailures;
    QuotaTable quotas = new QuotaTable(QuotaTable.Limits.NONE, Map.of());

    private final SchemaRegistryClient registry;
    private final AvroEncoder<Prompt> prompts;
    private final AvroEncoder<Control> orders;
    private final AvroDecoder<SaltRecord> saltReader;
    private final AvroDecoder<Completion> completionReader;
    private final AvroDecoder<AttestationRecord> leafReader;
    private final AvroDecoder<CheckpointRecord> checkpointReader;
    private final RegistryPromptDecoder decoder;
    private final AuditLogs logs;
    private final Alarms watch;
    private final TopologyTestDriver driver;
    private final TestInputTopic<byte[], byte[]> input;
    private final TestInputTopic<byte[], byte[]> control;
    private final TestInputTopic<byte[], byte[]> cancels;
    private final Map<String, TestOutputTopic<byte[], byte[]>> outputs = new HashMap<>();

    ServiceDriver(Path directory, Map<String, String> settings) {
        this(directory, settings, partition -> Optional.empty(), Duration.ofMillis(1));
    }

    ServiceDriver(Path directory, Map<String, String> settings, AuditTail tail, Duration patience) {
        this(directory, settings, tail, patience, engine -> {});
    }

    /// @param prepare what is changed of the engine before it is asked for the first time
    ServiceDriver(
            Path directory, Map<String, String> settings, AuditTail tail, Duration patience, Consumer<ScriptedEngine> prepare) {
        prepare.accept(engine);
        Map<String, String> all = new HashMap<>(Map.of(
                "kafka.bootstrap.servers", "nowhere:1", "schema.registry.url", "mock://" + UUID.randomUUID(),
                "state.dir", directory.toString(), "topics.partitions", "1", "store.type", "memory"));
        all.putAll(settings);
        config = ServiceConfig.of(all);
        registry = SchemaRegistryClient.open(config.registry());
        AvroSerdeConfig serde = AvroSerdeConfig.of(config.registry());
        prompts = AvroEncoder.open(registry, Prompt.class, "llm.prompts-value", serde);
        orders = AvroEncoder.open(registry, Control.class, "llm.control-value", serde);
        saltReader = new AvroDecoder<>(registry, SaltRecord.class);
        completionReader = new AvroDecoder<>(registry, Completion.class);
        leafReader = new AvroDecoder<>(registry, AttestationRecord.class);
        checkpointReader = new AvroDecoder<>(registry, CheckpointRecord.class);
        AttestProcessor.Encoders encoders = new AttestProcessor.Encoders(
                AvroEncoder.open(registry, Completion.class, "llm.completions-value", serde),
                AvroEncoder.open(registry, AttestationRecord.class, "llm.audit-value", serde).schemaId(),
                AvroEncoder.open(registry, CheckpointRecord.class, "llm.audit.checkpoints-value", serde));
        decoder = new RegistryPromptDecoder(new AvroDecoder<>(registry, Prompt.class));
        logs = new AuditLogs(metrics);
        watch = new Alarms(engine, "instance-1", road(), metrics, clock);
        InferenceProcessor.Shared inference = new InferenceProcessor.Shared(
                engine, decoder, Intake.Limits.of(config), new CacheSalts(signer, ""), controls("llm.cancels"),
                new Quotas(() -> quotas, 1, clock.ticker(), metrics), logs, new WakeableClients(), metrics,
                () -> engineFailures++, clock, clock.ticker(), config);
        Attestations attestations = new Attestations(engine.card(), engine::integrity, config, "instance-1", signer);
        AttestProcessor.Shared attest = new AttestProcessor.Shared(
                attestations, new EventLeaves(attestations, engine.card()), new Completions(engine), encoders, this::sign,
                logs, watch, keeping(serde), tail, patience, "millrace.test", "cluster-1", metrics, clock, clock.ticker(),
                new SecureRandom(), config);
        Properties properties = new Properties();
        properties.put("application.id", "driver-" + UUID.randomUUID());
        properties.put("state.dir", directory.toString());
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("max.task.idle.ms", "-1");
        driver = new TopologyTestDriver(
                InferenceTopology.build(config, inference, attest), properties, Instant.ofEpochMilli(clock.millis()));
        input = driver.createInputTopic("llm.prompts", new ByteArraySerializer(), new ByteArraySerializer());
        control = driver.createInputTopic("llm.control", new ByteArraySerializer(), new ByteArraySerializer());
        cancels = driver.createInputTopic("llm.cancels", new ByteArraySerializer(), new ByteArraySerializer());
        for (String topic : List.of("llm.completions", "llm.audit", "llm.audit.checkpoints", "llm.dlq", "llm.audit.salts")) {
            outputs.put(topic, driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        }
    }

    private SignedNote sign(Checkpoint head, List<NoteSigner> keys) {
        if (signerFailure != null) {
            throw signerFailure;
        }
        return LogKeys.Signing.LOCAL.sign(head, keys);
    }

    private Alarms.Road road() {
        return new Alarms.Road() {
            @Override
            public void send(AlarmRecord alarm) {
                if (alarmsRefused > 0) {
                    alarmsRefused--;
                    throw new IllegalStateException("no broker");
                }
                alarms.add(alarm);
            }

            @Override
            public void close() {}
        };
    }

    private LogKeeper.Shared keeping(AvroSerdeConfig serde) {
        return new LogKeeper.Shared(
                signer, null, controls("llm.control"), config.flag("audit.salts") ? AvroEncoder.open(registry, SaltRecord.class, "llm.audit.salts-value", serde) : null,
                Duration.ofDays(184));
    }

    private AvroDecoder<Control> controls(String topic) {
        AvroEncoder.open(registry, Control.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
        AvroDecoder<Control> reader = new AvroDecoder<>(registry, Control.class);
        reader.warm(topic + "-value");
        return reader;
    }

    static Prompt.Builder prompt(String id, String text) {
        return Prompt.newBuilder().setRequestId(id).setPrompt(text);
    }

    byte[] encode(Prompt prompt) {
        return prompts.encode(prompt);
    }

    int completionSchemaId() {
        return registry.register("llm.completions-value", Completion.getClassSchema());
    }

    /// Produces a prompt keyed by its id.
    void send(Prompt prompt) {
        send(prompt, new RecordHeaders());
    }

    void send(Prompt prompt, Headers headers) {
        sendRaw(prompt.getRequestId().getBytes(StandardCharsets.UTF_8), encode(prompt), headers);
    }

    void sendRaw(byte @Nullable [] key, byte @Nullable [] value, Headers headers) {
        sendRaw(key, value, headers, clock.millis());
    }

    void sendRaw(byte @Nullable [] key, byte @Nullable [] value, Headers headers, long timestampMs) {
        input.pipeInput(new TestRecord<>(key, value, headers, timestampMs));
        collect();
    }

    /// Gives an order.
    void order(Control order) {
        orderRaw(orders.encode(order));
    }

    void orderRaw(byte @Nullable [] value) {
        control.pipeInput(new TestRecord<>(new byte[0], value, new RecordHeaders(), clock.millis()));
        collect();
    }

    /// Cancels a request, as a client does.
    void cancel(@Nullable String tenant, String requestId) {
        cancelRaw(orders.encode(Cancellation.of(tenant, requestId, clock.millis())), new RecordHeaders());
    }

    /// Encodes whatever a client may write to the cancels topic.
    byte[] encode(Control control) {
        return orders.encode(control);
    }

    void cancelRaw(byte @Nullable [] value, Headers headers) {
        cancels.pipeInput(new TestRecord<>(new byte[0], value, headers, clock.millis()));
        collect();
    }

    /// Lets the stream thread run one turn.
    void turn() {
        driver.advanceWallClockTime(Duration.ofMillis(1));
        collect();
    }

    /// Ends every waiting generation and lets the stream thread hand the results on.
    void answerAll() {
        engine.answerAll();
        turn();
    }

    void pass(long ms) {
        clock.advance(ms);
        driver.advanceWallClockTime(Duration.ofMillis(ms));
        collect();
    }

    private void collect() {
        completions.addAll(outputs.get("llm.completions").readRecordsToList());
        for (TestRecord<byte[], byte[]> leaf : outputs.get("llm.audit").readRecordsToList()) {
            log.add(leaf);
            AuditEvent event = leafReader.decode(leaf.value()).getEvent();
            if (event != AuditEvent.MODEL_LOAD && event != AuditEvent.BUILD) {
                leaves.add(leaf);
            }
        }
        checkpoints.addAll(outputs.get("llm.audit.checkpoints").readRecordsToList());
        salts.addAll(outputs.get("llm.audit.salts").readRecordsToList());
        deadLetters.addAll(outputs.get("llm.dlq").readRecordsToList());
    }

    List<Completion> readCompletions() {
        return completions.stream().map(record -> completionReader.decode(record.value())).toList();
    }

    Completion completion(int index) {
        return completionReader.decode(completions.get(index).value());
    }

    AttestationRecord leaf(int index) {
        return leafReader.decode(leaves.get(index).value());
    }

    /// A leaf by its place in the audit topic.
    AttestationRecord logged(int index) {
        return leafReader.decode(log.get(index).value());
    }

    /// The leaves of one kind.
    List<AttestationRecord> leavesOf(AuditEvent event) {
        return log.stream().map(record -> leafReader.decode(record.value())).filter(leaf -> leaf.getEvent() == event).toList();
    }

    /// Lets the watcher of alarms run one turn; returns whether nothing is left.
    boolean watchAlarms() {
        return watch.turn();
    }

    /// Whether the log is signed in time.
    boolean isSigned() {
        return logs.areSigned();
    }

    CheckpointRecord checkpoint(int index) {
        return checkpointReader.decode(checkpoints.get(index).value());
    }

    SaltRecord salt(int index) {
        return saltReader.decode(salts.get(index).value());
    }

    KeyValueStore<Bytes, byte[]> store(String name) {
        return driver.getKeyValueStore(name);
    }

    /// How many prompts are pending.
    int pending() {
        KeyValueStore<Bytes, byte[]> store = driver.getKeyValueStore(InferenceProcessor.PENDING_STORE);
        int count = 0;
        try (var all = store.all()) {
            while (all.hasNext()) {
                all.next();
                count++;
            }
        }
        return count;
    }

    double gauge(String name, String... tags) {
        return meters.get(name).tags(tags).gauge().value();
    }

    double counter(String name, String... tags) {
        return meters.counter(name, tags).count();
    }

    /// Verifies what came out as an outside auditor would: sequence, chain, hashes, roots, signatures, completions.
    LogVerifier verify() {
        pass(config.number("audit.checkpoint.interval.ms"));
        LogVerifier verifier = new LogVerifier("llm.audit", List.of(signer.verifier()), registry::byId);
        verifier.expecting("millrace.test", "cluster-1");
        CompletionMatcher matcher = new CompletionMatcher("llm.completions", registry::byId);
        for (int i = 0; i < log.size(); i++) {
            LogVerifier.Checked checked = verifier.leaf(0, i, log.get(i).value());
            assertThat(verifier.violation()).isNull();
            assertThat(checked).isNotNull();
            matcher.leaf(checked);
        }
        for (int i = 0; i < completions.size(); i++) {
            matcher.completion(new Verdict.Place("llm.completions", 0, i), completions.get(i).value(), null);
        }
        for (int i = 0; i < checkpoints.size(); i++) {
            verifier.checkpoint(new Verdict.Place("llm.audit.checkpoints", 0, i), checkpoints.get(i).value());
        }
        assertThat(verifier.violation()).isNull();
        assertThat(matcher.verdict()).isEqualTo(Verdict.VERIFIED);
        if (!log.isEmpty()) {
            assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        }
        return verifier;
    }

    @Override
    public void close() {
        driver.close();
        decoder.close();
        registry.close();
    }
}

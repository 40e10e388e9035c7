package millrace.streams;

import io.micrometer.core.instrument.binder.kafka.KafkaStreamsMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import millrace.engine.ModelCard;
import millrace.engine.TextEngine;
import millrace.integrity.NoteSigner;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.Delta;
import millrace.schemas.Prompt;
import millrace.schemas.SaltRecord;
import millrace.streams.console.Console;
import millrace.streams.console.Health;
import millrace.streams.console.HttpDoor;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The service in one process: checks the cluster, opens the engine, runs the topology, and stops in reverse.
///
/// A stream thread that fails stops Kafka Streams, which is then built anew after a pause: as the same member of the
/// group, with the engine kept. An engine that fails, and a log that has diverged, end the service: a person must look.
public final class InferenceService implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(InferenceService.class);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(20);
    private static final long MAX_PAUSE_MS = 30_000;
    private static final Duration LOG_PATIENCE = Duration.ofSeconds(20);

    /// Opens the engine; benchmarks bring their own.
    public interface EngineOpener {
        TextEngine open(ServiceConfig config);
    }

    private final ServiceConfig config;
    private final Deque<AutoCloseable> resources = new ArrayDeque<>();
    private final PrometheusMeterRegistry meters = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private final ServiceMetrics metrics = new ServiceMetrics(meters);
    private final AtomicReference<KafkaStreams> streams = new AtomicReference<>();
    private final AtomicReference<@Nullable Throwable> fatal = new AtomicReference<>();
    private final Consumer<String> story;
    private final BooleanSupplier stopAsked;
    private final Object changed = new Object();
    private TextEngine engine;
    private NoteSigner signer;
    private SchemaRegistryClient registry;
    private WakeableClients clients = new WakeableClients();
    private AttestProcessor.Shared attest;
    private final AuditLogs logs;
    private Alarms alarms;
    private RegistryPromptDecoder decoder;
    private Previews previews = Previews.NONE;
    private AvroDecoder<Control> cancels;
    private Quotas quotas;
    private @Nullable KafkaStreamsMetrics streamsMetrics;
    private String instanceId = "";
    private int healthPort = -1;
    private volatile boolean stopping;
    private volatile boolean started;
    private volatile boolean storesAreDamaged;

    @SuppressWarnings("NullAway.Init") // start() is the only way to get one
    private InferenceService(ServiceConfig config, Consumer<String> story, BooleanSupplier stopAsked) {
        this.config = config;
        this.story = story;
        this.stopAsked = stopAsked;
        this.logs = new AuditLogs(metrics);
    }

    /// Starts the service and returns when it is ready to serve.
    ///
    /// @param mayCreateKey whether a missing key file is created
    /// @param story gets the lines that tell of the start
    public static InferenceService start(
            ServiceConfig config, EngineOpener opener, boolean mayCreateKey, Consumer<String> story) {
        return start(config, opener, mayCreateKey, story, () -> false);
    }

    /// The same, which gives up waiting for partitions and stores once it is told to stop; `run` then returns at once.
    ///
    /// @param stopAsked whether the service is to stop, asked again and again; any thread may change it
    public static InferenceService start(
            ServiceConfig config, EngineOpener opener, boolean mayCreateKey, Consumer<String> story, BooleanSupplier stopAsked) {
        InferenceService service = new InferenceService(config, story, stopAsked);
        try {
            service.begin(opener, mayCreateKey);
            return service;
        } catch (RuntimeException | Error e) {
            service.close();
            throw e;
        }
    }

    private void begin(EngineOpener opener, boolean mayCreateKey) {
        instanceId = InstanceId.of(Path.of(config.string("state.dir")));
        story.accept("millrace " + Versions.millrace() + ", Java " + Runtime.version().feature() + ", Kafka " + Versions.kafka()
                + ", instance " + instanceId);
        QuotaFile.check(config);
        engine = own(opener.open(config));
        tellOfEngine();
        signer = AuditKeyFiles.signer(config, mayCreateKey);
        story.accept("audit key " + signer.vkey());
        KafkaClients kafka = new KafkaClients(config);
        String cluster;
        int partitions;
        @Nullable Duration retention;
        try (Admin admin = kafka.admin()) {
            cluster = clusterId(admin);
            GroupProtocol.require(config, admin);
            Topics topics = new Topics(config);
            story.accept("cluster " + cluster + ": " + topics.ensure(admin));
            retention = topics.auditRetention(admin);
            partitions = topics.partitions(admin).getOrDefault(config.string("topics.prompts"), 1);
        }
        registry = own(SchemaRegistryClient.open(config.registry()));
        AttestProcessor.Encoders encoders = encoders();
        AvroDecoder<Prompt> prompts = new AvroDecoder<>(registry, Prompt.class);
        AvroEncoder.open(registry, Prompt.class, config.string("topics.prompts") + "-value", AvroSerdeConfig.of(config.registry()));
        prompts.warm(config.string("topics.prompts") + "-value");
        decoder = own(new RegistryPromptDecoder(prompts));
        cancels = controls("topics.cancels");
        story.accept("schema registry " + ConfigGuard.withoutUserInfo(config.registry().getOrDefault("schema.registry.url", ""))
                + ": schemas registered");
        ModelCard card = engine.card();
        alarms = own(Alarms.start(engine, instanceId, alarmRoad(kafka), metrics));
        previews = own(KafkaPreviews.start(engine, AvroEncoder.open(registry, Delta.class, config.string("topics.deltas") + "-value",
                AvroSerdeConfig.of(config.registry())), () -> kafka.previewProducer(), config, metrics.previews()));
        quotas = new Quotas(own(QuotaFile.watch(config, code -> alarms.raise("QUOTAS", Alarms.FAILED, code, ""))), partitions,
                Ticker.SYSTEM, metrics);
        Attestations attestations = new Attestations(card, engine::integrity, config, instanceId, signer);
        attest = new AttestProcessor.Shared(
                attestations, new EventLeaves(attestations, card), new Completions(engine), encoders, LogKeys.Signing.LOCAL,
                logs, alarms, keeping(retention),
                new KafkaAuditTail(kafka, config.string("topics.audit"), registry::byId), LOG_PATIENCE,
                config.string("audit.origin"), cluster, metrics, Clock.systemUTC(), Ticker.SYSTEM, new SecureRandom(), config);
        story.accept("limits: " + config.integer("inflight.max") + " prompts in flight, batch of "
                + config.integer("engine.max.batch") + ", prompts of at most " + config.integer("intake.max.bytes")
                + " bytes, at most " + config.integer("intake.max.tokens") + " new tokens, context of " + card.maxContext());
        gauges();
        observe(kafka, cluster);
        startStreams();
        awaitRunning(Duration.ofMinutes(5));
        if (stopAsked.getAsBoolean()) {
            stop();
            return;
        }
        started = true;
        story.accept("ready");
    }

    /// Traces, probes, metrics and the console: as far as they are asked for.
    private void observe(KafkaClients kafka, String cluster) {
        ServiceTraces traces = ServiceTraces.of(config, Map.of("service.name", config.string("application.id"),
                "service.namespace", "millrace", "service.version", Versions.millrace(), "service.instance.id", instanceId));
        metrics.trace(traces);
        own(traces::close);
        if (config.integer("health.port") < 0) {
            return;
        }
        own(QueueWatch.start(kafka.admin(), config.string("application.id"), config.string("topics.prompts"), metrics.queues()));
        Console console = config.flag("console.enabled") ? own(console(kafka, cluster)) : null;
        HttpDoor door = own(HttpDoor.start(config.string("health.host"), config.integer("health.port"), this::health, meters, console));
        healthPort = door.port();
        story.accept("health and metrics on http://" + config.string("health.host") + ":" + healthPort);
    }

    private Console console(KafkaClients kafka, String cluster) {
        Console.Topics topics = new Console.Topics(config.string("topics.audit"), config.string("topics.checkpoints"),
                config.string("topics.faults"), config.string("topics.cosignatures"));
        return Console.start(new Console.Setup(
                ServiceFacts.of(engine.card(), config, instanceId, cluster, signer.vkey(), attest.attestations().verifyMode()), signer.vkey(),
                this::health, meters, kafka::reader, topics, registry::byId, logs::begins, metrics::witnessed));
    }

    private void tellOfEngine() {
        ModelCard card = engine.card();
        story.accept("model " + card.name() + " (" + card.architecture() + ", " + card.parameters() + " parameters) " + card.modelDigest());
        story.accept(ModelBundleCheck.describe(card.trust()));
        story.accept("backend " + card.backend() + ": " + card.backendReason());
        if (!card.device().isProcessor()) {
            story.accept("device " + card.device().describe());
            StandIn.banner(card.device()).forEach(story);
        }
        story.accept("weights " + card.weightFormat());
        String chosen = config.string("engine.kv.format").equals("auto") ? " (auto)" : "";
        story.accept("KV cache " + card.kvFormat() + chosen + ": " + card.kvCapacityTokens() + " tokens in " + card.kvBytes() + " bytes ("
                + card.kvBytesPerToken() + " bytes per token)");
        story.accept(card.memory().describe(card.kvCapacityTokens(), card.maxContext()));
    }

    private <T extends AutoCloseable> T own(T resource) {
        resources.push(resource);
        return resource;
    }

    private AttestProcessor.Encoders encoders() {
        AvroSerdeConfig serde = AvroSerdeConfig.of(config.registry());
        return new AttestProcessor.Encoders(
                AvroEncoder.open(registry, Completion.class, config.string("topics.completions") + "-value", serde),
                AvroEncoder.open(registry, AttestationRecord.class, config.string("topics.audit") + "-value", serde).schemaId(),
                AvroEncoder.open(registry, CheckpointRecord.class, config.string("topics.checkpoints") + "-value", serde));
    }

    private Alarms.Road alarmRoad(KafkaClients kafka) {
        AvroEncoder<AlarmRecord> encoder = AvroEncoder.open(
                registry, AlarmRecord.class, config.string("topics.faults") + "-value", AvroSerdeConfig.of(config.registry()));
        return new KafkaAlarmRoad(kafka.alarmProducer(), config.string("topics.faults"), encoder);
    }

    private LogKeeper.Shared keeping(@Nullable Duration retention) {
        AvroSerdeConfig serde = AvroSerdeConfig.of(config.registry());
        AvroDecoder<Control> control = controls("topics.control");
        AvroEncoder<SaltRecord> salts = config.flag("audit.salts")
                ? AvroEncoder.open(registry, SaltRecord.class, config.string("topics.salts") + "-value", serde)
                : null;
        return new LogKeeper.Shared(signer, AuditKeyFiles.previous(config), control, salts, retention);
    }

    /// Reads the control records of a topic, whose schemas are known from here on.
    private AvroDecoder<Control> controls(String topicKey) {
        String subject = config.string(topicKey) + "-value";
        AvroEncoder.open(registry, Control.class, subject, AvroSerdeConfig.of(config.registry()));
        AvroDecoder<Control> decoder = new AvroDecoder<>(registry, Control.class);
        decoder.warm(subject);
        return decoder;
    }

    private static String clusterId(Admin admin) {
        try {
            return admin.describeCluster().clusterId().get();
        } catch (ExecutionException e) {
            throw new IllegalStateException("kafka.bootstrap.servers: the cluster did not answer ("
                    + e.getCause().getMessage() + "); check the address and the security settings", e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while asking the cluster", e);
        }
    }

    private void gauges() {
        ServiceMeters.bind(metrics, config, engine, instanceId, attest.attestations().verifyMode(), this::isServing);
        own(ServiceMeters.bindProcess(meters));
    }

    private void startStreams() {
        try {
            buildAndStart();
        } catch (StreamsException e) {
            // It opens the stores that it finds at once, before there is a thread that could fail.
            switch (StoreFailure.of(e)) {
                case NONE -> throw e;
                case FULL -> fail(StoreFailure.full(config.string("state.dir"), e));
                case DAMAGED -> {
                    LOG.warn("opening the stores failed", e);
                    storesAreDamaged = true;
                    rebuild();
                }
            }
        }
    }

    private void rebuild() {
        streams.get().close(GroupProtocol.beforeRestart(config).withTimeout(CLOSE_TIMEOUT));
        restore();
        buildAndStart();
    }

    private void buildAndStart() {
        clients = new WakeableClients(java.util.Set.of(config.string("topics.control"), config.string("topics.cancels")));
        InferenceProcessor.Shared inference = new InferenceProcessor.Shared(
                engine, decoder, Intake.Limits.of(config), new CacheSalts(signer, config.string(CacheSalts.KEY)), cancels,
                quotas, logs, clients, metrics, this::engineFailed, Clock.systemUTC(), Ticker.SYSTEM, config, previews);
        KafkaStreams next = new KafkaStreams(
                InferenceTopology.build(config, inference, attest), new KafkaClients(config).streams(instanceId, clients), clients,
                new SteadyTime(Clock.systemUTC(), Ticker.SYSTEM));
        next.setUncaughtExceptionHandler(this::threadFailed);
        next.setStateListener((to, from) -> {
            LOG.debug("streams {} -> {}", from, to);
            synchronized (changed) {
                changed.notifyAll();
            }
        });
        streams.set(next);
        if (streamsMetrics != null) {
            streamsMetrics.close();
        }
        streamsMetrics = own(new KafkaStreamsMetrics(next));
        streamsMetrics.bindTo(meters);
        next.start();
    }

    private StreamThreadExceptionResponse threadFailed(Throwable e) {
        LOG.error("a stream thread failed", e);
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            if (cause instanceof AuditLog.DivergedException || cause instanceof LogKeys.KeyException) {
                alarms.raise("LOG", Alarms.REFUSED, "LOG_STATE_DIVERGED", "");
                fail(cause);
            }
        }
        StoreFailure failure = StoreFailure.of(e);
        if (failure == StoreFailure.FULL) {
            fail(StoreFailure.full(config.string("state.dir"), e));
        } else if (failure == StoreFailure.DAMAGED) {
            storesAreDamaged = true;
        }
        // Not REPLACE_THREAD: with static membership the old member would hold the tasks for the session's length.
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    /// Stores that cannot be read are made anew from their changelogs, which are the truth: a copy of them is worth nothing
    /// that cannot be read, and it would end each new stream thread like the last.
    private void restore() {
        if (storesAreDamaged) {
            storesAreDamaged = false;
            LOG.warn("the stores under {} cannot be used; they are deleted and restored from their changelogs", config.string("state.dir"));
            streams.get().cleanUp();
        }
    }

    private void engineFailed() {
        String why = engine.failure();
        fail(new IllegalStateException("the engine failed" + (why == null ? "" : " (" + why + ")")
                + "; prompts in flight stay pending and are resumed at the next start"));
    }

    private void fail(Throwable why) {
        if (fatal.compareAndSet(null, why)) {
            LOG.error("the service stops: {}", why.getMessage());
        }
        synchronized (changed) {
            changed.notifyAll();
        }
    }

    private void awaitRunning(Duration patience) {
        long until = System.nanoTime() + patience.toNanos();
        synchronized (changed) {
            while (streams.get().state() != KafkaStreams.State.RUNNING && !stopAsked.getAsBoolean()) {
                Throwable why = fatal.get();
                if (why != null) {
                    throw new IllegalStateException(why.getMessage(), why);
                }
                if (streams.get().state() == KafkaStreams.State.ERROR && storesAreDamaged && System.nanoTime() < until) {
                    rebuild();
                }
                if (streams.get().state() == KafkaStreams.State.ERROR || System.nanoTime() > until) {
                    throw new IllegalStateException("Kafka Streams did not get ready: it is " + streams.get().state()
                            + "; the log above says why");
                }
                try {
                    changed.wait(100);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new IllegalStateException("interrupted while starting", e);
                }
            }
        }
    }

    /// Serves until `stop` is called or something fatal happens; builds Kafka Streams anew when it has failed.
    ///
    /// @return null after `stop`, else what was fatal
    public @Nullable Throwable run() throws InterruptedException {
        long pauseMs = 1_000;
        long lastFailureNanos = System.nanoTime();
        EndWatch ends = new EndWatch(Ticker.SYSTEM, new KafkaClients(config)::clusterAnswers);
        while (!stopping && fatal.get() == null) {
            synchronized (changed) {
                changed.wait(1_000);
            }
            KafkaStreams.State state = streams.get().state();
            if (!stopping && ends.isStuck(state)) {
                fail(EndWatch.stuck());
            }
            if (!stopping && fatal.get() == null && (state == KafkaStreams.State.ERROR || state == KafkaStreams.State.NOT_RUNNING)) {
                if (System.nanoTime() - lastFailureNanos > Duration.ofMinutes(5).toNanos()) {
                    pauseMs = 1_000;
                }
                lastFailureNanos = System.nanoTime();
                LOG.warn("Kafka Streams is {}; starting it again in {} ms", state, pauseMs);
                streams.get().close(GroupProtocol.beforeRestart(config).withTimeout(CLOSE_TIMEOUT));
                restore();
                Thread.sleep(pauseMs);
                pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2);
                if (!stopping) {
                    startStreams();
                }
            }
        }
        return fatal.get();
    }

    /// Makes `run` return; `close` does the rest.
    public void stop() {
        stopping = true;
        synchronized (changed) {
            changed.notifyAll();
        }
    }

    private boolean isServing() {
        KafkaStreams current = streams.get();
        return current != null && current.state() == KafkaStreams.State.RUNNING && fatal.get() == null;
    }

    private Health health() {
        boolean alive = fatal.get() == null;
        return new Health(
                Map.of("service", alive),
                Map.of("streams", isServing(), "engine", alive && engine.failure() == null,
                        "integrity", engine.admitting(), "checkpoints", logs.areSigned(), "accepting", !stopping),
                Map.of("started", started),
                Map.of("engine", ServiceFacts.ofEngine(engine.card())));
    }

    public ModelCard card() {
        return engine.card();
    }

    /// The public key that checkpoints are signed with, as a vkey.
    public String vkey() {
        return signer.vkey();
    }

    /// The port of the health server, or -1.
    public int healthPort() {
        return healthPort;
    }

    /// Takes in nothing more, waits for prompts in flight as long as configured, and stops. What is left stays pending
    /// and is resumed at the next start.
    @Override
    public void close() {
        stop();
        KafkaStreams current = streams.get();
        if (current != null) {
            drain();
            current.close(GroupProtocol.atStop(config).withTimeout(CLOSE_TIMEOUT));
        }
        while (!resources.isEmpty()) {
            AutoCloseable resource = resources.pop();
            try {
                resource.close();
            } catch (Exception e) {
                LOG.warn("closing {}: {}", resource.getClass().getSimpleName(), e.toString());
            }
        }
        meters.close();
    }

    private void drain() {
        if (!isServing()) {
            return;
        }
        clients.holdAll();
        long until = System.nanoTime() + config.duration("shutdown.drain.ms").toNanos();
        try {
            while (engine.load() > 0 && System.nanoTime() < until) {
                Thread.sleep(10);
            }
            // The last results are on their way through the stream thread.
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

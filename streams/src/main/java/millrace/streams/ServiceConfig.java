package millrace.streams;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import millrace.engine.CacheFormats;
import millrace.engine.CudaConfig;
import millrace.engine.EngineConfig;
import millrace.engine.IntegrityConfig;
import millrace.engine.KvFormat;
import millrace.engine.Speculation;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.ValidString;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.jspecify.annotations.Nullable;

/// The service's configuration: one definition of every key, and a typed view.
///
/// Sources, the later winning: the defaults, a properties file, the files of `secrets.dir`, environment variables
/// (`MILLRACE_ENGINE_KV_FORMAT` is `engine.kv.format`), `-D key=value`. Keys under `kafka.` are handed to every Kafka client without the prefix.
public final class ServiceConfig {
    public static final String KAFKA_PREFIX = "kafka.";
    public static final String REGISTRY_PREFIX = "schema.registry.";
    static final String ENV_PREFIX = "MILLRACE_";

    static final ConfigDef DEFINITION = new ConfigDef()
            .define("application.id", Type.STRING, "llm-inference", nonEmpty(), Importance.HIGH,
                    "Name of the service on the cluster: consumer group, transactional ids and internal topics begin with it.")
            .define("topics.prompts", Type.STRING, "llm.prompts", nonEmpty(), Importance.HIGH, "Topic of the prompt events.")
            .define("topics.completions", Type.STRING, "llm.completions", nonEmpty(), Importance.HIGH, "Topic of the completions.")
            .define("topics.audit", Type.STRING, "llm.audit", nonEmpty(), Importance.HIGH, "Topic of the attestations, one leaf each.")
            .define("topics.checkpoints", Type.STRING, "llm.audit.checkpoints", nonEmpty(), Importance.MEDIUM,
                    "Topic of the signed checkpoints of the audit log.")
            .define("topics.faults", Type.STRING, "llm.audit.faults", nonEmpty(), Importance.MEDIUM,
                    "Topic of the alarms: what went wrong, sent at once and outside of every transaction.")
            .define("topics.cosignatures", Type.STRING, "llm.audit.cosigs", nonEmpty(), Importance.LOW,
                    "Topic of the checkpoints that witnesses cosigned. Only the audit commands read and write it, not the service.")
            .define("topics.control", Type.STRING, "llm.control", nonEmpty(), Importance.MEDIUM,
                    "Topic of the operator's orders to the audit log, see `audit erase` and `audit retract`. Only operators may write it.")
            .define("topics.cancels", Type.STRING, "llm.cancels", nonEmpty(), Importance.MEDIUM,
                    "Topic of the clients' cancellations, see `cancel`. Who may write prompts may write it; a cancellation has its prompt's key.")
            .define("topics.salts", Type.STRING, "llm.audit.salts", nonEmpty(), Importance.MEDIUM,
                    "Topic of the sealed salts of the commitments. Auditors of the log alone need no access.")
            .define("topics.dlq", Type.STRING, "llm.dlq", nonEmpty(), Importance.MEDIUM,
                    "Dead-letter topic: prompt records that cannot be decoded, as they came.")
            .define("topics.deltas", Type.STRING, "llm.deltas", nonEmpty(), Importance.MEDIUM,
                    "Topic of the previews: text of a completion while it is generated, not attested, for prompts that ask for it.")
            .define("topics.create", Type.BOOLEAN, true, Importance.MEDIUM,
                    "Whether missing topics are created at start; otherwise a missing topic stops the start.")
            .define("topics.partitions", Type.INT, 4, Range.between(1, 10_000), Importance.MEDIUM,
                    "Partitions of topics that the service creates.")
            .define("topics.replication.factor", Type.INT, -1, Range.between(-1, 32_767), Importance.MEDIUM,
                    "Replication factor of topics that the service creates and of its internal topics; -1 takes the broker's default.")
            .define("audit.single.node", Type.BOOLEAN, false, Importance.MEDIUM,
                    "Whether the cluster is a single broker: the audit topics then need no second replica. Their other settings are required all the same.")
            .define(GroupProtocol.KEY, Type.STRING, GroupProtocol.CLASSIC, ValidString.in(GroupProtocol.CLASSIC, GroupProtocol.STREAMS), Importance.LOW,
                    "How instances share the partitions: classic with static members, or Kafka's streams protocol, whose limits "
                            + "docs/operations.md lists.")
            .define(GroupProtocol.STANDBYS, Type.INT, 0, Range.between(0, 16), Importance.MEDIUM,
                    "Copies of each partition's stores that other instances keep up to date, so that one of them takes over without a restore.")
            .define("state.dir", Type.STRING, "data/state", nonEmpty(), Importance.HIGH,
                    "Directory of the state stores and of this instance's id. Keep it across restarts.")
            .define(SecretFiles.KEY, Type.STRING, "", Importance.MEDIUM,
                    "Directory with one file for each secret, named as the key that it holds the value of, such as "
                            + "kafka.sasl.jaas.config. Other files are left alone. Wins over the config file.")
            .define("store.type", Type.STRING, "rocksdb", ValidString.in("rocksdb", "memory"), Importance.LOW,
                    "Where the stores live. With memory a restart after a crash waits for the open transaction to time out.")
            .define("embedded.dir", Type.STRING, "data/broker", nonEmpty(), Importance.MEDIUM,
                    "With serve --embedded: directory of the broker's data.")
            .define("embedded.host", Type.STRING, "127.0.0.1", nonEmpty(), Importance.MEDIUM,
                    "With serve --embedded: address that the broker and the registry bind.")
            .define("embedded.port", Type.INT, 9092, Range.between(0, 65_535), Importance.MEDIUM,
                    "With serve --embedded: port of the broker; 0 takes a free one.")
            .define("embedded.registry.port", Type.INT, 8081, Range.between(0, 65_535), Importance.MEDIUM,
                    "With serve --embedded: port of the schema registry; 0 takes a free one.")
            .define("health.host", Type.STRING, "127.0.0.1", nonEmpty(), Importance.LOW, "Address that the health and metrics server binds.")
            .define("health.port", Type.INT, 8080, Range.between(-1, 65_535), Importance.MEDIUM,
                    "Port of /live, /ready, /started, /metrics and the console; 0 takes a free one, -1 turns it off.")
            .define("console.enabled", Type.BOOLEAN, true, Importance.LOW,
                    "Whether the read-only console is served at / of health.port, see docs/console.md.")
            .define("tracing.otlp.endpoint", Type.STRING, "", Importance.LOW,
                    "Address of an OpenTelemetry collector, http://HOST:4318, that spans are sent to; empty sends none, and contexts are passed on all the same.")
            .define("tracing.otlp.headers", Type.PASSWORD, "", Importance.LOW,
                    "Headers that the collector wants, name=value,name=value, such as an authorization.")
            .define("tracing.sample.ratio", Type.DOUBLE, 1.0, Range.between(0.0, 1.0), Importance.LOW,
                    "Share of the prompts without a trace of their own that are recorded; those with one follow its flag.")
            .define("log.format", Type.STRING, "text", ValidString.in("text", "json"), Importance.LOW,
                    "Form of what serve writes to standard error: text, or json, one object per line.")
            .define("engine.model", Type.STRING, "", Importance.HIGH,
                    "Directory of the model's checkpoint, or the name of a bundled model (glm-tiny, glm-tiny-mtp, kimi-tiny).")
            .define("engine.model.digest", Type.STRING, "", Importance.HIGH,
                    "Digest that the model must have (sha256: and 64 hexadecimal digits); empty accepts and records any.")
            .define("engine.backend", Type.STRING, "auto", ValidString.in("auto", "cuda", "native", "vector", "scalar"), Importance.MEDIUM,
                    "Kernels: auto takes the fastest that works, a GPU before the processor; one asked for by name that cannot be had stops the start.")
            .define("engine.cuda.driver", Type.STRING, "system", ValidString.in("system", "standin"), Importance.LOW,
                    "With cuda: the system's driver, or the stand-in, which runs the same kernels on the processor, for development; auto never takes it.")
            .define(StandIn.ALLOWED, Type.BOOLEAN, false, Importance.LOW,
                    "Whether serve takes the stand-in for a driver; every attestation then says that there was no device.")
            .define("engine.cuda.device", Type.INT, 0, Range.between(0, 255), Importance.MEDIUM,
                    "With cuda: which device, as the driver counts them; CUDA_VISIBLE_DEVICES changes the count.")
            .define("engine.kv.format", Type.STRING, "auto", ValidString.in(KvFormat.ids().toArray(String[]::new)), Importance.MEDIUM,
                    "How the KV cache stores a token: auto takes the smallest that is lossless in practice, see docs/quality.md.")
            .define("engine.kv.index.format", Type.STRING, "auto", ValidString.in(CacheFormats.indexIds().toArray(String[]::new)), Importance.LOW,
                    "How index keys of sparse attention are stored: auto goes with engine.kv.format; of no other model can one be asked for.")
            .define("engine.speculation", Type.STRING, "off", ValidString.in(Speculation.Mode.ids().toArray(String[]::new)), Importance.MEDIUM,
                    "Whether the model's draft layer drafts tokens ahead, which changes no answer: off, mtp in every step, auto while it pays.")
            .define("engine.speculation.tokens", Type.INT, 1, Range.between(1, Speculation.MOST_TOKENS), Importance.LOW,
                    "The most tokens that are drafted for a sequence in a step.")
            .define("engine.weights", Type.STRING, "stored", ValidString.in(EngineConfig.WEIGHT_FORMATS.toArray(String[]::new)), Importance.MEDIUM,
                    "How weights stay in memory: stored keeps the checkpoint's formats, the others convert while loading.")
            .define("engine.memory.bytes", Type.LONG, 0L, Range.atLeast(0), Importance.HIGH,
                    "What weights, KV cache and scratch may take together, of the GPU's memory where they lie there; 0 takes most of what is free.")
            .define("engine.kv.bytes", Type.LONG, 0L, Range.atLeast(0), Importance.HIGH,
                    "Budget of the KV cache in bytes; 0 takes what the rest of the memory budget leaves, at most what the batch can fill.")
            .define("engine.cache.prefix", Type.BOOLEAN, true, Importance.MEDIUM,
                    "Whether prompts that begin alike share the KV pages of what they share, within one tenant.")
            .define(CacheSalts.KEY, Type.STRING, "", cacheGroups(), Importance.LOW,
                    "Tenants that share cached KV pages with one another: group:tenant,tenant;group:tenant. All others share with nobody.")
            .define("engine.aging.ms", Type.LONG, 2_000L, Range.between(0L, 3_600_000L), Importance.LOW,
                    "A waiting prompt gains one step of priority each time this has passed, so that none starves; 0 never.")
            .define("engine.threads", Type.INT, 0, Range.between(0, 1024), Importance.MEDIUM, "Compute threads; 0 is one per core.")
            .define("engine.max.batch", Type.INT, 16, Range.between(1, 4096), Importance.MEDIUM, "The most sequences that run at once.")
            .define("engine.prefill.chunk", Type.INT, 256, Range.between(1, 65_536), Importance.LOW,
                    "The most prompt tokens that one step computes.")
            .define("engine.max.context", Type.INT, 0, Range.atLeast(0), Importance.MEDIUM,
                    "The most tokens of one sequence; 0 is the model's own limit.")
            .define("engine.chat.format", Type.STRING, "", Importance.LOW,
                    "Id of the chat format; empty detects it from the checkpoint.")
            .define("engine.model.verify", Type.STRING, "auto", ValidString.in("auto", "require", "warn", "off"), Importance.HIGH,
                    "Whether a signature must cover the model's files: require stops the start where it does not, warn says so in the log "
                            + "and in every attestation; auto is require where engine.model.key is set, else off.")
            .define("engine.model.key", Type.STRING, "", Importance.HIGH,
                    "Public key that the model must be signed with: a PEM file, or a directory of them.")
            .define("engine.model.signature", Type.STRING, "", Importance.LOW,
                    "Signature bundle of the model; empty: model.sig in the model's directory.")
            .define("integrity.profile", Type.STRING, "default", ValidString.in("default", "strict", "off"), Importance.MEDIUM,
                    "How much is checked while serving: strict verifies every sealed KV page at each step that reads it; off is for measurements.")
            .define("integrity.scrub.interval", Type.STRING, "5m", Durations.zeroOr(Duration.ofMillis(50), Duration.ofDays(7)), Importance.MEDIUM,
                    "Within this span every block of the resident weights is verified again; 0 never.")
            .define("integrity.scrub.share", Type.DOUBLE, 0.01, Range.between(0.0001, 1.0), Importance.LOW,
                    "Share of one core that verifying the resident weights may take.")
            .define("integrity.kv.max.age", Type.STRING, "1m", Durations.zeroOr(Duration.ofMillis(1), Duration.ofDays(7)), Importance.MEDIUM,
                    "A cached KV page that was verified longer ago than this is verified again before a prompt takes it; 0 always.")
            .define("integrity.canary.interval", Type.STRING, "1m", Durations.zeroOr(Duration.ofMillis(100), Duration.ofDays(7)), Importance.MEDIUM,
                    "How often the model's golden prompt runs beside the traffic; 0 never.")
            .define("integrity.step.timeout", Type.STRING, "5m", Durations.zeroOr(Duration.ofMillis(100), Duration.ofDays(7)), Importance.MEDIUM,
                    "A step of the engine that takes longer than this, and 20 times as long as steps take, is taken for one that hangs: the "
                            + "process says so and ends, so that another one goes on; 0 never.")
            .define("integrity.logits.every", Type.INT, 32, Range.between(0, 4096), Importance.LOW,
                    "Generated tokens that one logits digest of the attestation covers; 0 attests without them, at level 1.")
            .define("integrity.proofs", Type.BOOLEAN, false, Importance.LOW,
                    "Whether completions carry activation proofs, 258 bytes for 32 tokens: who has the model can then check an answer "
                            + "within tolerances, also on hardware that does not give the same bits.")
            .define("intake.max.bytes", Type.INT, 1_000_000, Range.between(1_024, 64 << 20), Importance.MEDIUM,
                    "The largest prompt record in bytes that is accepted.")
            .define("intake.max.tokens", Type.INT, 4_096, Range.between(1, 1 << 20), Importance.MEDIUM,
                    "The most tokens that a prompt may ask for.")
            .define("intake.default.max.tokens", Type.INT, 256, Range.between(1, 1 << 20), Importance.MEDIUM,
                    "The most tokens that are generated when the prompt does not say.")
            .define("intake.tenant.required", Type.BOOLEAN, false, Importance.LOW, "Whether a prompt without a tenant is rejected.")
            .define("intake.dedup.retention.ms", Type.LONG, 3_600_000L, Range.between(60_000L, 31L * 86_400_000L), Importance.MEDIUM,
                    "How long a request id is remembered: within it the same body is answered once, another body is rejected.")
            .define("quotas.tokens.per.minute", Type.LONG, 0L, Range.between(0L, TokenBucket.MOST_PER_MINUTE), Importance.MEDIUM,
                    "Tokens of prompts and answers that each tenant may use in a minute, over all processes; 0 does not limit.")
            .define("quotas.inflight", Type.INT, 0, Range.atLeast(0), Importance.MEDIUM,
                    "Prompts that each tenant may have taken in and not answered, over all processes; 0 does not limit.")
            .define("quotas.context", Type.INT, 0, Range.atLeast(0), Importance.MEDIUM,
                    "Prompt tokens and max_tokens that one prompt of a tenant may have together; 0 does not limit.")
            .define(QuotaFile.KEY, Type.STRING, "", Importance.MEDIUM,
                    "File of tenants' own quotas, read again when it changes: lines such as acme.tokens.per.minute=20000.")
            .define("batch.max.size", Type.INT, 16, Range.between(1, 4096), Importance.LOW,
                    "A micro-batch of this many prompts goes to the engine at once.")
            .define("batch.max.wait.ms", Type.LONG, 0L, Range.between(0L, 1_000L), Importance.LOW,
                    "How long a prompt may wait for its micro-batch to fill; 0 hands over what one poll brought.")
            .define("inflight.max", Type.INT, 64, Range.between(1, 100_000), Importance.MEDIUM,
                    "Prompts in the engine, running or waiting, at which partitions are held back; resumed below three quarters.")
            .define("previews.linger.ms", Type.INT, 0, Range.between(0, 1_000), Importance.LOW,
                    "How long a preview may wait for others to share a request; 0 sends what is there, which batches under load anyway.")
            .define("previews.queue.max", Type.INT, 10_000, Range.between(1, 10_000_000), Importance.LOW,
                    "Pieces of text that may wait to be sent as previews; more are dropped, which leaves a hole in the preview's numbers.")
            .define("commit.gap.ms", Type.LONG, 10L, Range.between(0L, 1_000L), Importance.LOW,
                    "Results are committed on demand, but not more often than this.")
            .define("stream.threads", Type.INT, 1, Range.between(1, 64), Importance.LOW,
                    "Stream threads; the engine is shared, so one is enough nearly always.")
            .define("audit.key.file", Type.STRING, "", Importance.HIGH,
                    "File of the Ed25519 key that signs checkpoints, mode 0600; empty: audit.key in state.dir, created with --embedded only.")
            .define("audit.salts", Type.BOOLEAN, true, Importance.MEDIUM,
                    "Whether the salt of each answer's commitments is kept, sealed under a key of its tenant; otherwise only the completion has it.")
            .define("audit.key.previous.file", Type.STRING, "", Importance.MEDIUM,
                    "To rotate the audit key: file of the key that signs until now, while audit.key.file names the new one. Needed for the overlap.")
            .define("audit.key.overlap", Type.STRING, "24h", Durations.zeroOr(Duration.ofMinutes(1), Duration.ofDays(90)), Importance.LOW,
                    "How long after a rotation both keys sign; 0 for one checkpoint. Auditors should look at least once within it.")
            .define("audit.origin", Type.STRING, "millrace.local", nonEmpty(), Importance.MEDIUM,
                    "First part of every log's origin: a domain name of yours.")
            .define("audit.epoch.new", Type.BOOLEAN, false, Importance.LOW,
                    "Starts a new epoch where the log's state and the audit topic have diverged, instead of refusing. Use once.")
            .define("audit.checkpoint.interval.ms", Type.LONG, 500L, Range.between(100L, 60_000L), Importance.LOW,
                    "How often a grown log is signed.")
            .define("audit.checkpoint.max.lag", Type.STRING, "1m", Durations.zeroOr(Duration.ofSeconds(1), Duration.ofDays(1)), Importance.MEDIUM,
                    "How long leaves may stay unsigned when the signer fails: then no prompts are taken in until it works again; 0 never stops.")
            .define("shutdown.drain.ms", Type.LONG, 10_000L, Range.between(0L, 600_000L), Importance.LOW,
                    "How long a stop waits for prompts in flight; what is left is resumed at the next start.")
            .define("shutdown.leave", Type.BOOLEAN, true, Importance.MEDIUM,
                    "Whether an instance that is stopped gives its partitions to the others at once; otherwise they wait for it for "
                            + "the length of its session, 45 s.");

    static {
        GatewayKeys.addTo(DEFINITION);
    }

    private final AbstractConfig values;
    private final Map<String, String> kafka;
    private final Map<String, String> registry;

    private ServiceConfig(AbstractConfig values, Map<String, String> kafka, Map<String, String> registry) {
        this.values = values;
        this.kafka = Map.copyOf(kafka);
        this.registry = Map.copyOf(registry);
    }

    /// Reads the file (if any), the environment and the overrides.
    ///
    /// @throws ConfigException naming the key, what was expected and what was got
    public static ServiceConfig load(@Nullable Path file, Map<String, String> env, Map<String, String> overrides) {
        Map<String, String> all = new TreeMap<>();
        if (file != null) {
            Properties properties = new Properties();
            try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
                properties.load(reader);
            } catch (IOException | IllegalArgumentException e) {
                throw new ConfigException("config file " + file + ": cannot be read as properties (" + e.getMessage()
                        + "); expected lines of key=value in UTF-8");
            }
            properties.stringPropertyNames().forEach(k -> all.put(k, properties.getProperty(k).strip()));
        }
        Map<String, String> outer = new HashMap<>();
        env.forEach((k, v) -> {
            if (k.startsWith(ENV_PREFIX)) {
                String key = k.substring(ENV_PREFIX.length()).toLowerCase(Locale.ROOT).replace('_', '.');
                if (isKey(key)) {
                    outer.put(key, v);
                }
            }
        });
        outer.putAll(overrides);
        String secrets = outer.getOrDefault(SecretFiles.KEY, all.getOrDefault(SecretFiles.KEY, ""));
        if (!secrets.isBlank()) {
            all.putAll(SecretFiles.read(Path.of(secrets), ServiceConfig::isKey));
        }
        all.putAll(outer);
        return of(all);
    }

    private static boolean isKey(String key) {
        return DEFINITION.names().contains(key) || key.startsWith(KAFKA_PREFIX) || isOfRegistry(key);
    }

    /// The configuration with exactly these values set.
    public static ServiceConfig of(Map<String, String> all) {
        Map<String, String> own = new HashMap<>();
        Map<String, String> kafka = new HashMap<>();
        Map<String, String> registry = new HashMap<>();
        all.forEach((key, value) -> {
            ConfigGuard.check(key, value);
            if (key.startsWith(KAFKA_PREFIX)) {
                kafka.put(key.substring(KAFKA_PREFIX.length()), value);
            } else if (isOfRegistry(key)) {
                registry.put(key, value);
            } else if (DEFINITION.names().contains(key)) {
                own.put(key, value);
            } else {
                throw new ConfigException("config key \"" + key + "\": unknown; expected a key of docs/configuration.md, or one under "
                        + KAFKA_PREFIX + " or " + REGISTRY_PREFIX + nearest(key));
            }
        });
        AbstractConfig values = new AbstractConfig(DEFINITION, own, false);
        ServiceConfig config = new ServiceConfig(values, kafka, registry);
        GroupProtocol.check(config);
        if (config.integer("intake.default.max.tokens") > config.integer("intake.max.tokens")) {
            throw new ConfigException("config key \"intake.default.max.tokens\": expected at most intake.max.tokens ("
                    + config.integer("intake.max.tokens") + "), got " + config.integer("intake.default.max.tokens"));
        }
        return config;
    }

    private static boolean isOfRegistry(String key) {
        return key.startsWith(REGISTRY_PREFIX) || key.equals("auto.register.schemas")
                || key.startsWith("basic.auth.") || key.startsWith("bearer.auth.");
    }

    private static String nearest(String key) {
        return DEFINITION.names().stream()
                .filter(known -> known.endsWith(key) || known.startsWith(key) || distance(known, key) <= 2)
                .findFirst()
                .map(known -> "; did you mean " + known + "?")
                .orElse("");
    }

    private static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int above = row[j];
                int change = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                row[j] = Math.min(change, Math.min(above, row[j - 1]) + 1);
                diagonal = above;
            }
        }
        return row[b.length()];
    }

    public String string(String key) {
        return values.getString(key);
    }

    public int integer(String key) {
        return values.getInt(key);
    }

    public long number(String key) {
        return values.getLong(key);
    }

    public boolean flag(String key) {
        return values.getBoolean(key);
    }

    double decimal(String key) {
        return values.getDouble(key);
    }

    Password password(String key) {
        return values.getPassword(key);
    }

    public Duration duration(String key) {
        return Duration.ofMillis(values.getLong(key));
    }

    /// Whether the key was given a value, by whatever source.
    public boolean isSet(String key) {
        return key.startsWith(KAFKA_PREFIX)
                ? kafka.containsKey(key.substring(KAFKA_PREFIX.length()))
                : registry.containsKey(key) || values.originals().containsKey(key);
    }

    /// What goes to every Kafka client, prefix removed.
    public Map<String, String> kafka() {
        return kafka;
    }

    /// What goes to the registry client, under Confluent's names.
    public Map<String, String> registry() {
        return registry;
    }

    /// The same configuration with some values set anew.
    public ServiceConfig with(Map<String, String> changes) {
        Map<String, String> all = new HashMap<>(values.originalsStrings());
        kafka.forEach((k, v) -> all.put(KAFKA_PREFIX + k, v));
        all.putAll(registry);
        all.putAll(changes);
        return of(all);
    }

    /// The same configuration, with values for keys that have none.
    public ServiceConfig withDefaults(Map<String, String> defaults) {
        Map<String, String> missing = new HashMap<>(defaults);
        missing.keySet().removeIf(this::isSet);
        return with(missing);
    }

    /// The engine's part; `model` is the directory that `engine.model` was resolved to.
    public EngineConfig engine(Path model) {
        return new EngineConfig(
                model,
                string("engine.backend"),
                CudaConfig.of(string("engine.cuda.driver")).withDevice(integer("engine.cuda.device")),
                KvFormat.ofIdOrAuto(string("engine.kv.format")),
                CacheFormats.indexOfIdOrAuto(string("engine.kv.index.format")),
                new Speculation(Speculation.Mode.ofId(string("engine.speculation")), integer("engine.speculation.tokens")),
                string("engine.weights"),
                number("engine.memory.bytes"),
                number("engine.kv.bytes"),
                flag("engine.cache.prefix"),
                number("engine.aging.ms"),
                integer("engine.threads"),
                integer("engine.max.batch"),
                integer("engine.prefill.chunk"),
                integer("engine.max.context"),
                blankToNull(string("engine.model.digest")),
                chatFormat(),
                integrity());
    }

    /// How much the engine checks while it serves.
    public IntegrityConfig integrity() {
        return new IntegrityConfig(
                string("integrity.profile"),
                span("integrity.scrub.interval"),
                values.getDouble("integrity.scrub.share"),
                span("integrity.kv.max.age"),
                span("integrity.canary.interval"),
                integer("integrity.logits.every"),
                flag("integrity.proofs"),
                span("integrity.step.timeout"));
    }

    /// A span that is given with its unit.
    Duration span(String key) {
        return Durations.parse(key, string(key));
    }

    /// The chat format that is set, or null where the model's files tell it.
    public @Nullable String chatFormat() {
        return blankToNull(string("engine.chat.format"));
    }

    private static @Nullable String blankToNull(String value) {
        return value.isBlank() ? null : value;
    }

    private static ConfigDef.Validator cacheGroups() {
        return ConfigDef.LambdaValidator.with(
                (key, value) -> CacheSalts.groups((String) value), () -> "group:tenant,tenant;...");
    }

    private static ConfigDef.Validator nonEmpty() {
        return new ConfigDef.NonEmptyString();
    }
}

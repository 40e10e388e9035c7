package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import millrace.engine.EngineConfig;
import millrace.engine.KvFormat;
import millrace.engine.Speculation;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ServiceConfigTest {
    private static final String SECRET = "hunter2-secret";

    @TempDir
    private Path directory;

    private Path file(String text) throws Exception {
        return Files.writeString(directory.resolve("service.properties"), text, StandardCharsets.UTF_8);
    }

    private static void refused(String key, String value, String message) {
        assertThatThrownBy(() -> ServiceConfig.of(Map.of(key, value))).isInstanceOf(ConfigException.class).hasMessage(message);
    }

    @Test
    void startsWithTheDocumentedDefaults() {
        ServiceConfig config = ServiceConfig.of(Map.of());
        assertThat(config.string("topics.prompts")).isEqualTo("llm.prompts");
        assertThat(config.string("application.id")).isEqualTo("llm-inference");
        assertThat(config.integer("topics.partitions")).isEqualTo(4);
        assertThat(config.duration("shutdown.drain.ms")).isEqualTo(Duration.ofSeconds(10));
        assertThat(config.flag("topics.create")).isTrue();
        assertThat(config.flag("audit.epoch.new")).isFalse();
        assertThat(config.isSet("topics.partitions")).isFalse();
        EngineConfig engine = config.engine(directory);
        assertThat(engine.kvFormat()).isNull();
        assertThat(engine.indexFormat()).isNull();
        assertThat(engine.speculation()).isEqualTo(Speculation.OFF);
        assertThat(engine.pinnedDigest()).isNull();
        assertThat(engine.chatFormat()).isNull();
    }

    @Test
    void handsFormatOfIndexKeysAndSpeculationToTheEngine() {
        EngineConfig engine = ServiceConfig.of(Map.of("engine.kv.index.format", "bf16", "engine.speculation", "mtp",
                "engine.speculation.tokens", "3")).engine(directory);
        assertThat(engine.indexFormat()).isEqualTo(KvFormat.BF16);
        assertThat(engine.speculation()).isEqualTo(new Speculation(Speculation.Mode.MTP, 3));
        refused("engine.kv.index.format", "fp8",
                "Invalid value fp8 for configuration engine.kv.index.format: String must be one of: auto, f32, bf16, int8");
        refused("engine.speculation", "on",
                "Invalid value on for configuration engine.speculation: String must be one of: off, mtp, auto");
        refused("engine.speculation.tokens", "4",
                "Invalid value 4 for configuration engine.speculation.tokens: Value must be no more than 3");
    }

    @Test
    void letsTheEnvironmentWinOverTheFileAndTheCommandLineOverBoth() throws Exception {
        Path file = file("topics.partitions=1\nengine.threads = 1 \nengine.kv.format=f32\nkafka.bootstrap.servers=file:1\n");
        Map<String, String> env = Map.of(
                "MILLRACE_ENGINE_THREADS", "2", "MILLRACE_ENGINE_KV_FORMAT", "int8", "MILLRACE_KAFKA_SECURITY_PROTOCOL", "SSL",
                "MILLRACE_BASIC_AUTH_USER_INFO", "a:b", "MILLRACE_HOME", "/somewhere", "PATH", "/bin");
        ServiceConfig config = ServiceConfig.load(file, env, Map.of("engine.kv.format", "bf16"));
        assertThat(config.integer("topics.partitions")).isEqualTo(1);
        assertThat(config.integer("engine.threads")).isEqualTo(2);
        assertThat(config.string("engine.kv.format")).isEqualTo("bf16");
        assertThat(config.kafka()).isEqualTo(Map.of("bootstrap.servers", "file:1", "security.protocol", "SSL"));
        assertThat(config.registry()).isEqualTo(Map.of("basic.auth.user.info", "a:b"));
        assertThat(config.isSet("engine.threads")).isTrue();
        assertThat(config.isSet("kafka.bootstrap.servers")).isTrue();
    }

    @Test
    void keepsEveryValueWhenSomeAreSetAnew() {
        ServiceConfig config = ServiceConfig.of(Map.of("engine.threads", "3", "kafka.a", "b", "schema.registry.url", "http://r"));
        ServiceConfig changed = config.with(Map.of("engine.model", "glm-tiny"));
        assertThat(changed.integer("engine.threads")).isEqualTo(3);
        assertThat(changed.kafka()).isEqualTo(Map.of("a", "b"));
        assertThat(changed.registry()).isEqualTo(Map.of("schema.registry.url", "http://r"));
        assertThat(changed.string("engine.model")).isEqualTo("glm-tiny");
    }

    @Test
    void refusesAnUnknownKeyAndSuggestsTheRightOne() {
        refused("engine.kv.fromat", "f32", "config key \"engine.kv.fromat\": unknown; expected a key of docs/configuration.md, or one"
                + " under kafka. or schema.registry.; did you mean engine.kv.format?");
        refused("bootstrap.servers", "b:1", "config key \"bootstrap.servers\": unknown; expected a key of docs/configuration.md, or one"
                + " under kafka. or schema.registry.");
    }

    @Test
    void refusesValuesOutOfRange() {
        refused("topics.partitions", "0", "Invalid value 0 for configuration topics.partitions: Value must be at least 1");
        refused("engine.backend", "gpu", "Invalid value gpu for configuration engine.backend: String must be one of: auto, cuda, native, vector, scalar");
        refused("engine.cuda.driver", "fake", "Invalid value fake for configuration engine.cuda.driver: String must be one of: system, standin");
        refused("engine.threads", "many", "Invalid value many for configuration engine.threads: Not a number of type INT");
        refused("state.dir", "", "Invalid value  for configuration state.dir: String must be non-empty");
        assertThatThrownBy(() -> ServiceConfig.of(Map.of("intake.max.tokens", "10", "intake.default.max.tokens", "11")))
                .hasMessage("config key \"intake.default.max.tokens\": expected at most intake.max.tokens (10), got 11");
    }

    @Test
    void refusesAFileThatIsNoPropertiesFile() throws Exception {
        Path missing = directory.resolve("none.properties");
        assertThatThrownBy(() -> ServiceConfig.load(missing, Map.of(), Map.of()))
                .hasMessage("config file " + missing + ": cannot be read as properties (" + missing
                        + "); expected lines of key=value in UTF-8");
        Path broken = file("a=\\u12");
        assertThatThrownBy(() -> ServiceConfig.load(broken, Map.of(), Map.of()))
                .hasMessage("config file " + broken + ": cannot be read as properties (Malformed \\uxxxx encoding.); expected lines of"
                        + " key=value in UTF-8");
    }

    @Test
    void refusesALoginModuleThatLoadsClassesFromElsewhere() {
        for (String key : new String[] {"kafka.sasl.jaas.config", "kafka.producer.sasl.jaas.config"}) {
            refused(key, "com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"ldap://evil/x\";",
                    "CONFIG_REFUSED: config key \"" + key + "\": login module \"com.sun.security.auth.module.JndiLoginModule\" is not one"
                            + " of [com.sun.security.auth.module.Krb5LoginModule,"
                            + " org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule,"
                            + " org.apache.kafka.common.security.plain.PlainLoginModule,"
                            + " org.apache.kafka.common.security.scram.ScramLoginModule]");
        }
        ServiceConfig.of(Map.of("kafka.sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p\";"));
    }

    @Test
    void refusesACommandThatTheClientWouldRun() {
        for (String key : new String[] {"kafka.sasl.kerberos.kinit.cmd", "kafka.admin.sasl.kerberos.kinit.cmd"}) {
            refused(key, "/tmp/x.sh", "CONFIG_REFUSED: config key \"" + key + "\": the client would run this command; log in with a"
                    + " keytab in sasl.jaas.config instead");
        }
    }

    @Test
    void refusesFilesWhereAnAddressIsExpected() {
        refused("kafka.sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd", "CONFIG_REFUSED: config key"
                + " \"kafka.sasl.oauthbearer.token.endpoint.url\": expected an http or https address, got a file address");
        refused("schema.registry.url", "http://a,file:///etc/passwd", "CONFIG_REFUSED: config key \"schema.registry.url\": expected"
                + " http or https addresses, got \"file:///etc/passwd\"");
    }

    @Test
    void refusesConfigProviders() {
        refused("kafka.config.providers", "file", "CONFIG_REFUSED: config key \"kafka.config.providers\": config providers are off; put"
                + " secrets into files of secrets.dir, into the config file (mode 0600) or into the environment");
        refused("kafka.sasl.jaas.config", "${file:/etc/passwd:root}", "CONFIG_REFUSED: config key \"kafka.sasl.jaas.config\": login"
                + " module \"${file:/etc/passwd:root}\" is not one of [com.sun.security.auth.module.Krb5LoginModule,"
                + " org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule,"
                + " org.apache.kafka.common.security.plain.PlainLoginModule, org.apache.kafka.common.security.scram.ScramLoginModule]");
        refused("kafka.ssl.keystore.password", "${file:/etc/passwd:root}", "CONFIG_REFUSED: config key \"kafka.ssl.keystore.password\":"
                + " the value holds a ${...} reference, which is not expanded; give the value itself");
    }

    @Test
    void refusesToLetExactlyOnceBeTurnedOff() {
        for (String key : new String[] {
            "kafka.processing.guarantee", "kafka.producer.enable.idempotence", "kafka.consumer.isolation.level",
            "kafka.main.consumer.isolation.level", "kafka.transactional.id", "kafka.value.serializer",
            "kafka.processing.exception.handler", "kafka.application.id"
        }) {
            refused(key, "x", "CONFIG_REFUSED: config key \"" + key + "\": the service sets this itself: exactly-once and the audit log"
                    + " depend on it");
        }
    }

    @Test
    void neverSaysASecret() throws Exception {
        Map<String, String> settings = new HashMap<>(Map.of(
                "kafka.ssl.keystore.password", SECRET,
                "kafka.sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"" + SECRET + "\";",
                "schema.registry.url", "http://user:" + SECRET + "@registry:8081", "bearer.auth.token", SECRET));
        assertThat(ServiceConfig.of(settings).toString()).doesNotContain(SECRET);
        settings.put("engine.threads", "many");
        assertThatThrownBy(() -> ServiceConfig.of(settings)).hasMessageNotContaining(SECRET);
        assertThatThrownBy(() -> ServiceConfig.of(Map.of("schema.registry.url", "ftp://user:" + SECRET + "@host")))
                .hasMessage("CONFIG_REFUSED: config key \"schema.registry.url\": expected http or https addresses, got \"ftp://host\"");
        assertThat(ConfigGuard.withoutUserInfo("https://a:b@c:1/x,http://d@e")).isEqualTo("https://c:1/x,http://e");
    }

    @Test
    void handsKafkaKeysToEveryClientAndKeepsWhatExactlyOnceNeeds() {
        ServiceConfig config = ServiceConfig.of(Map.of(
                "kafka.bootstrap.servers", "b:1", "kafka.security.protocol", "SASL_SSL", "kafka.producer.compression.type", "lz4",
                "kafka.main.consumer.session.timeout.ms", "6000", "topics.replication.factor", "3"));
        KafkaClients clients = new KafkaClients(config);
        assertThat(clients.plain()).isEqualTo(Map.of("bootstrap.servers", "b:1", "security.protocol", "SASL_SSL"));
        Properties streams = clients.streams("instance-7", new WakeableClients());
        assertThat(streams)
                .containsEntry("processing.guarantee", "exactly_once_v2")
                .containsEntry("main.consumer.group.instance.id", "instance-7")
                .containsEntry("main.consumer.session.timeout.ms", "6000")
                .containsEntry("producer.compression.type", "lz4")
                .containsEntry("producer.linger.ms", 0)
                .containsEntry("security.protocol", "SASL_SSL")
                .containsEntry("replication.factor", 3);
    }
}

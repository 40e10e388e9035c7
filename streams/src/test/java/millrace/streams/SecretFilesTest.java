package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.common.config.ConfigException;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Secrets come from files, and are shown nowhere.
class SecretFilesTest {
    private static final String SECRET = "hunter2-secret";
    private static final String JAAS =
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"" + SECRET + "\";";

    @TempDir
    private Path directory;

    private Map<String, String> here() {
        return Map.of("MILLRACE_SECRETS_DIR", directory.toString());
    }

    @Test
    void takesEveryFileThatIsNamedAsAKey() throws Exception {
        Files.writeString(directory.resolve("kafka.sasl.jaas.config"), JAAS + "\n");
        Files.writeString(directory.resolve("basic.auth.user.info"), "u:" + SECRET);
        Files.writeString(directory.resolve("audit.key.file"), "/run/secrets/audit.key\r\n");
        Files.writeString(directory.resolve("audit.key"), "not a key of the configuration");
        Files.createDirectory(directory.resolve("kafka.directory"));
        ServiceConfig config = ServiceConfig.load(null, here(), Map.of());
        assertThat(config.kafka()).isEqualTo(Map.of("sasl.jaas.config", JAAS));
        assertThat(config.registry()).isEqualTo(Map.of("basic.auth.user.info", "u:" + SECRET));
        assertThat(config.string("audit.key.file")).isEqualTo("/run/secrets/audit.key");
        assertThat(config.toString()).doesNotContain(SECRET);
    }

    @Test
    void winsOverTheFileAndYieldsToEnvironmentAndCommandLine() throws Exception {
        Path secrets = Files.createDirectory(directory.resolve("secrets"));
        for (String key : new String[] {"kafka.ssl.key.password", "kafka.ssl.keystore.password", "kafka.ssl.truststore.password"}) {
            Files.writeString(secrets.resolve(key), "secret");
        }
        Path file = Files.writeString(directory.resolve("service.properties"),
                "secrets.dir=" + secrets + "\nkafka.ssl.key.password=file\nkafka.ssl.keystore.password=file\n");
        ServiceConfig config = ServiceConfig.load(file, Map.of("MILLRACE_KAFKA_SSL_KEYSTORE_PASSWORD", "env"),
                Map.of("kafka.ssl.truststore.password", "option"));
        assertThat(config.kafka()).isEqualTo(Map.of(
                "ssl.key.password", "secret", "ssl.keystore.password", "env", "ssl.truststore.password", "option"));
    }

    @Test
    void isGuardedAsEveryOtherSource() throws Exception {
        Files.writeString(directory.resolve("kafka.sasl.jaas.config"), "com.sun.security.auth.module.JndiLoginModule required;");
        assertThatThrownBy(() -> ServiceConfig.load(null, here(), Map.of())).isInstanceOf(ConfigException.class)
                .hasMessageStartingWith("CONFIG_REFUSED: config key \"kafka.sasl.jaas.config\": login module");
    }

    @Test
    void namesTheFileAndNeverWhatItHolds() throws Exception {
        Path large = Files.writeString(directory.resolve("kafka.ssl.key.password"), SECRET + "x".repeat(64 << 10));
        assertThatThrownBy(() -> ServiceConfig.load(null, here(), Map.of())).isInstanceOf(ConfigException.class)
                .hasMessage("secret " + large + ": expected at most 65536 bytes, got 65550");
        Files.write(large, new byte[] {(byte) 0xc3, 0x28});
        assertThatThrownBy(() -> ServiceConfig.load(null, here(), Map.of()))
                .hasMessage("secret " + large + ": expected UTF-8, got other bytes");
        Path none = directory.resolve("none");
        assertThatThrownBy(() -> ServiceConfig.load(null, Map.of(), Map.of("secrets.dir", none.toString())))
                .hasMessage("config key \"secrets.dir\": expected a directory that can be read, got " + none + " (NoSuchFileException)");
    }

    /// The network client's debug log shows the SASL exchange.
    @Test
    void refusesToLogInWhereTheLogWouldShowIt() {
        ServiceConfig logsIn = ServiceConfig.of(Map.of("kafka.security.protocol", "SASL_SSL", "kafka.sasl.jaas.config", JAAS));
        new KafkaClients(logsIn);
        Configurator.setLevel(NetworkClient.class.getName(), Level.DEBUG);
        try {
            assertThatThrownBy(() -> new KafkaClients(logsIn)).isInstanceOf(ConfigException.class)
                    .hasMessage("CONFIG_REFUSED: logger org.apache.kafka.clients.NetworkClient: expected INFO or above, got DEBUG; with"
                            + " SASL it would write the log-in into the log (CVE-2026-33558)");
            new KafkaClients(ServiceConfig.of(Map.of("kafka.security.protocol", "SSL")));
        } finally {
            Configurator.setLevel(NetworkClient.class.getName(), Level.WARN);
        }
    }
}

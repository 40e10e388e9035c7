package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClientCertificateTest {
    private static final double MONTH = Duration.ofDays(30).toSeconds();
    private static final Offset<Double> AN_HOUR = Offset.offset(3_600.0);

    @TempDir
    private Path directory;

    private static void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
    }

    private Path store() throws Exception {
        Path store = directory.resolve("client.p12");
        keytool("-genkeypair", "-alias", "client", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30", "-dname", "CN=client",
                "-storetype", "PKCS12", "-keystore", store.toString(), "-storepass", "changeit");
        return store;
    }

    private static double left(Map<String, String> kafka) {
        return new ClientCertificate(kafka, Clock.systemUTC()).secondsLeft();
    }

    @Test
    void saysWhenTheCertificateOfAStoreEnds() throws Exception {
        Map<String, String> kafka = Map.of("ssl.keystore.location", store().toString(), "ssl.keystore.type", "PKCS12",
                "ssl.keystore.password", "changeit");
        assertThat(left(kafka)).isCloseTo(MONTH, AN_HOUR);
        Clock later = Clock.fixed(Clock.systemUTC().instant().plus(Duration.ofDays(31)), ZoneOffset.UTC);
        assertThat(new ClientCertificate(kafka, later).secondsLeft()).as("it has ended").isNegative();
    }

    @Test
    void saysWhenTheCertificateOfATextEnds() throws Exception {
        Path pem = directory.resolve("client.pem");
        keytool("-exportcert", "-rfc", "-alias", "client", "-keystore", store().toString(), "-storepass", "changeit", "-file", pem.toString());
        assertThat(left(Map.of("ssl.keystore.location", pem.toString(), "ssl.keystore.type", "PEM"))).isCloseTo(MONTH, AN_HOUR);
        assertThat(left(Map.of("ssl.keystore.certificate.chain", Files.readString(pem)))).isCloseTo(MONTH, AN_HOUR);
    }

    @Test
    void isNoNumberWithoutOneOrWhereItCannotBeRead() throws Exception {
        assertThat(left(Map.of("bootstrap.servers", "b:9092"))).isNaN();
        assertThat(left(Map.of("ssl.keystore.location", directory.resolve("none").toString()))).isNaN();
        assertThat(left(Map.of("ssl.keystore.location", store().toString(), "ssl.keystore.type", "PKCS12", "ssl.keystore.password", "wrong")))
                .isNaN();
        assertThat(left(Map.of("ssl.keystore.certificate.chain", "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"))).isNaN();
    }
}

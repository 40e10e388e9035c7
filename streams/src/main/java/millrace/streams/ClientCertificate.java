package millrace.streams;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.time.Clock;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// When the certificate ends by which this process shows the cluster who it is, where it has one (`kafka.ssl.keystore.*`). The
/// audit keys have no such date.
final class ClientCertificate {
    private static final Logger LOG = LoggerFactory.getLogger(ClientCertificate.class);
    private static final long REREAD_MS = 3_600_000;
    private static final Pattern PEM = Pattern.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", Pattern.DOTALL);

    private final Map<String, String> kafka;
    private final Clock clock;
    private long readMs = Long.MIN_VALUE;
    private @Nullable Long endMs;

    /// @param kafka what goes to the Kafka clients
    ClientCertificate(Map<String, String> kafka, Clock clock) {
        this.kafka = Map.copyOf(kafka);
        this.clock = clock;
    }

    /// Seconds until the first certificate of the chain ends, below zero once it has; not a number without one, or while it cannot be read.
    /// Files are read again each hour, since they are replaced while the process runs.
    synchronized double secondsLeft() {
        long now = clock.millis();
        if (readMs == Long.MIN_VALUE || now - readMs >= REREAD_MS || now < readMs) {
            readMs = now;
            endMs = read();
        }
        return endMs == null ? Double.NaN : (endMs - now) / 1_000.0;
    }

    private @Nullable Long read() {
        try {
            return certificates().stream().filter(X509Certificate.class::isInstance)
                    .map(certificate -> ((X509Certificate) certificate).getNotAfter().getTime())
                    .min(Long::compare).orElse(null);
        } catch (IOException | GeneralSecurityException | RuntimeException e) {
            // Kafka's clients say what is wrong with it; without a word of its content here.
            LOG.warn("kafka.ssl.keystore.location: when the certificate ends cannot be read: {}", e.getClass().getSimpleName());
            return null;
        }
    }

    private List<Certificate> certificates() throws IOException, GeneralSecurityException {
        String chain = kafka.get("ssl.keystore.certificate.chain");
        String location = kafka.get("ssl.keystore.location");
        if (chain != null) {
            return pem(chain);
        }
        if (location == null) {
            return List.of();
        }
        String type = kafka.getOrDefault("ssl.keystore.type", "JKS");
        if (type.toUpperCase(Locale.ROOT).equals("PEM")) {
            return pem(Files.readString(Path.of(location)));
        }
        KeyStore store = KeyStore.getInstance(type);
        String password = kafka.get("ssl.keystore.password");
        try (InputStream in = Files.newInputStream(Path.of(location))) {
            store.load(in, password == null ? null : password.toCharArray());
        }
        List<Certificate> found = new ArrayList<>();
        for (String alias : Collections.list(store.aliases())) {
            Certificate[] certificates = store.isKeyEntry(alias) ? store.getCertificateChain(alias) : null;
            found.addAll(certificates == null ? List.of() : List.of(certificates));
        }
        return found;
    }

    private static List<Certificate> pem(String text) throws GeneralSecurityException {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        List<Certificate> found = new ArrayList<>();
        for (String block : PEM.matcher(text).results().map(part -> part.group()).toList()) {
            found.add(factory.generateCertificate(new ByteArrayInputStream(block.getBytes(StandardCharsets.US_ASCII))));
        }
        return found;
    }
}

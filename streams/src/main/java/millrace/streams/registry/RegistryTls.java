package millrace.streams.registry;

import java.io.File;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.jspecify.annotations.Nullable;

/// Stores (JKS or PKCS12) for a registry behind https; all null means the JDK's own trust store and no certificate.
public record RegistryTls(
        @Nullable String trustStore,
        @Nullable Password trustStorePassword,
        @Nullable String keyStore,
        @Nullable Password keyStorePassword) {

    /// The context for the client, or null when nothing is configured.
    @Nullable SSLContext context() {
        if (trustStore == null && keyStore == null) {
            return null;
        }
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            TrustManagerFactory trust = null;
            if (trustStore != null) {
                trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
                trust.init(load("schema.registry.ssl.truststore.location", trustStore, trustStorePassword));
            }
            KeyManagerFactory keys = null;
            if (keyStore != null) {
                keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
                keys.init(load("schema.registry.ssl.keystore.location", keyStore, keyStorePassword),
                        characters(keyStorePassword));
            }
            context.init(
                    keys == null ? null : keys.getKeyManagers(), trust == null ? null : trust.getTrustManagers(), null);
            return context;
        } catch (GeneralSecurityException e) {
            throw new ConfigException("schema.registry.ssl: the stores cannot be used: " + e.getMessage());
        }
    }

    private static KeyStore load(String key, String file, @Nullable Password password)
            throws GeneralSecurityException {
        try {
            return KeyStore.getInstance(new File(file), characters(password));
        } catch (IOException e) {
            throw new ConfigException(key + ": cannot read " + file + ": " + e.getMessage());
        }
    }

    private static char @Nullable [] characters(@Nullable Password password) {
        return password == null ? null : password.value().toCharArray();
    }
}

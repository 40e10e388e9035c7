package millrace.streams.embedded;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/// A broker that wants TLS and a log-in, and allows only what its authorizer was told.
public final class SecuredBroker {
    private static final String MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required ";

    private SecuredBroker() {}

    /// @param users their names; the password of each is [#password]. `admin` may do everything
    /// @param keyStore PKCS 12, with the broker's key
    public static EmbeddedBroker start(List<String> users, Path keyStore, Path trusted, String storePassword) {
        Map<String, String> settings = new HashMap<>(client("admin", trusted));
        settings.remove("security.protocol");
        settings.remove("sasl.mechanism");
        settings.remove("sasl.jaas.config");
        settings.put("sasl.enabled.mechanisms", "PLAIN");
        settings.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
        settings.put("listener.name.sasl_ssl.plain.sasl.jaas.config", MODULE + "username=\"admin\" password=\"" + password("admin")
                + "\" " + users.stream().map(user -> "user_" + user + "=\"" + password(user) + "\"").collect(Collectors.joining(" ")) + ";");
        settings.put("ssl.keystore.type", "PKCS12");
        settings.put("ssl.keystore.location", keyStore.toString());
        settings.put("ssl.keystore.password", storePassword);
        settings.put("ssl.key.password", storePassword);
        settings.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        settings.put("allow.everyone.if.no.acl.found", "false");
        // The controller's listener is the broker's own, on loopback, without a log-in.
        settings.put("super.users", "User:admin;User:ANONYMOUS");
        return EmbeddedBroker.ephemeral("127.0.0.1", 0, "SASL_SSL", settings);
    }

    public static String password(String user) {
        return user + "-hunter2";
    }

    /// What a client logs in with.
    public static Map<String, String> client(String user, Path trusted) {
        return Map.of(
                "security.protocol", "SASL_SSL", "sasl.mechanism", "PLAIN",
                "sasl.jaas.config", MODULE + "username=\"" + user + "\" password=\"" + password(user) + "\";",
                "ssl.truststore.type", "PEM", "ssl.truststore.location", trusted.toString());
    }
}

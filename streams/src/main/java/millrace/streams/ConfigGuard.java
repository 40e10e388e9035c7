package millrace.streams;

import java.net.URI;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.config.ConfigException;

/// Refuses configuration that would make a Kafka client run code or read files that it has no business with.
///
/// Login modules that load classes from a directory service, token endpoints that are files, and providers that
/// expand `${...}` from files have each been a published weakness of Kafka's clients.
final class ConfigGuard {
    private static final Set<String> LOGIN_MODULES = Set.of(
            "org.apache.kafka.common.security.plain.PlainLoginModule",
            "org.apache.kafka.common.security.scram.ScramLoginModule",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            "com.sun.security.auth.module.Krb5LoginModule");

    /// Keys whose values are set by the service itself; a change would break exactly-once or the wire format.
    private static final List<String> OWNED = List.of(
            "processing.guarantee", "isolation.level", "enable.idempotence", "transactional.id", "key.serializer",
            "value.serializer", "key.deserializer", "value.deserializer", "default.key.serde", "default.value.serde",
            "processing.exception.handler", "production.exception.handler", "deserialization.exception.handler",
            "default.production.exception.handler", "default.deserialization.exception.handler", "application.id", "state.dir",
            GroupProtocol.KEY);

    private ConfigGuard() {}

    static void check(String key, String value) {
        String bare = key.substring(key.lastIndexOf("kafka.") < 0 ? 0 : key.lastIndexOf("kafka.") + "kafka.".length());
        if (bare.endsWith("sasl.jaas.config")) {
            String module = value.strip().split("\\s+", 2)[0];
            if (!LOGIN_MODULES.contains(module)) {
                throw refused(key, "login module " + quoted(module) + " is not one of " + LOGIN_MODULES.stream().sorted().toList());
            }
        }
        if (bare.contains("config.providers")) {
            throw refused(key, "config providers are off; put secrets into files of secrets.dir, into the config file (mode 0600) or into"
                    + " the environment");
        }
        if (bare.endsWith("sasl.kerberos.kinit.cmd")) {
            throw refused(key, "the client would run this command; log in with a keytab in sasl.jaas.config instead");
        }
        if (value.contains("${")) {
            throw refused(key, "the value holds a ${...} reference, which is not expanded; give the value itself");
        }
        if (bare.endsWith(".url") && !bare.equals("schema.registry.url") && isFile(value)) {
            throw refused(key, "expected an http or https address, got a file address");
        }
        if (bare.equals("schema.registry.url")) {
            for (String url : value.split(",")) {
                String scheme = scheme(url.strip());
                if (!scheme.equals("http") && !scheme.equals("https") && !scheme.equals("mock")) {
                    throw refused(key, "expected http or https addresses, got " + quoted(withoutUserInfo(url.strip())));
                }
            }
        }
        for (String owned : OWNED) {
            if (key.startsWith(ServiceConfig.KAFKA_PREFIX) && (bare.equals(owned) || bare.endsWith("." + owned))) {
                throw refused(key, "the service sets this itself: exactly-once and the audit log depend on it");
            }
        }
    }

    /// Addresses for people: without the user and password that they may carry.
    static String withoutUserInfo(String urls) {
        return urls.replaceAll("//[^/,]*@", "//");
    }

    private static boolean isFile(String value) {
        return scheme(value.strip()).equals("file");
    }

    private static String scheme(String url) {
        try {
            String scheme = URI.create(url).getScheme();
            return scheme == null ? "" : scheme.toLowerCase(java.util.Locale.ROOT);
        } catch (IllegalArgumentException e) {
            return "";
        }
    }

    private static String quoted(String value) {
        String shown = value.length() > 80 ? value.substring(0, 80) + "..." : value;
        return '"' + shown.replaceAll("\\p{Cntrl}", "?") + '"';
    }

    private static ConfigException refused(String key, String why) {
        return new ConfigException("CONFIG_REFUSED: config key \"" + key + "\": " + why);
    }
}

package millrace.streams.registry;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.ValidString;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.jspecify.annotations.Nullable;

/// Where the registry is and how to talk to it, under Confluent's names.
///
/// `urls` are tried in turn; each has the scheme `http` or `https` and may have a path. A single `mock://scope` is a
/// registry in the memory of this process, for tests. `authorization` is the value of the header of that name.
public record RegistryConfig(
        List<URI> urls,
        @Nullable Password authorization,
        Duration connectTimeout,
        Duration readTimeout,
        int maxRetries,
        Duration retryWait,
        Duration retryMaxWait,
        Duration missingIdTtl,
        RegistryTls tls) {
    /// Every key, with type, default and meaning.
    public static final ConfigDef DEFINITION = new ConfigDef()
            .define("schema.registry.url", Type.LIST, Importance.HIGH,
                    "URLs of the schema registry, separated by commas; tried in turn. No redirect is followed.")
            .define("basic.auth.credentials.source", Type.STRING, "URL", ValidString.in("URL", "USER_INFO"),
                    Importance.MEDIUM,
                    "Where user and password come from: URL (http://user:password@host) or USER_INFO.")
            .define("basic.auth.user.info", Type.PASSWORD, null, Importance.MEDIUM,
                    "user:password, when basic.auth.credentials.source is USER_INFO.")
            .define("bearer.auth.credentials.source", Type.STRING, "STATIC_TOKEN", ValidString.in("STATIC_TOKEN"),
                    Importance.LOW, "Where the bearer token comes from: STATIC_TOKEN.")
            .define("bearer.auth.token", Type.PASSWORD, null, Importance.MEDIUM,
                    "Token that is sent as Authorization: Bearer; excludes user and password.")
            .define("http.connect.timeout.ms", Type.INT, 5_000, Range.between(1, 600_000), Importance.LOW,
                    "How long a connection may take, milliseconds.")
            .define("http.read.timeout.ms", Type.INT, 10_000, Range.between(1, 600_000), Importance.LOW,
                    "How long a whole answer may take, milliseconds.")
            .define("max.retries", Type.INT, 3, Range.between(0, 100), Importance.LOW,
                    "How often all URLs are tried again when none gives an answer.")
            .define("retries.wait.ms", Type.INT, 200, Range.between(0, 60_000), Importance.LOW,
                    "Wait before the first retry, milliseconds; doubles with each.")
            .define("retries.max.wait.ms", Type.INT, 2_000, Range.between(0, 60_000), Importance.LOW,
                    "The longest wait between retries, milliseconds.")
            .define("missing.id.cache.ttl.sec", Type.INT, 1, Range.between(0, 3_600), Importance.LOW,
                    "How long the answer \"no such id\" is believed without asking again, seconds.")
            .define("schema.registry.ssl.truststore.location", Type.STRING, null, Importance.LOW,
                    "Trust store file for https; the JDK's when absent.")
            .define("schema.registry.ssl.truststore.password", Type.PASSWORD, null, Importance.LOW,
                    "Password of the trust store.")
            .define("schema.registry.ssl.keystore.location", Type.STRING, null, Importance.LOW,
                    "Key store file with the client's certificate for https.")
            .define("schema.registry.ssl.keystore.password", Type.PASSWORD, null, Importance.LOW,
                    "Password of the key store and of its key.");

    public RegistryConfig {
        urls = List.copyOf(urls);
        if (urls.isEmpty()) {
            throw new ConfigException("schema.registry.url: expected at least one URL, got none");
        }
    }

    /// Reads the keys of [#DEFINITION] from a client's configuration; others are ignored.
    ///
    /// @throws ConfigException when a value is missing or not acceptable
    public static RegistryConfig of(Map<String, ?> configs) {
        AbstractConfig config = new AbstractConfig(DEFINITION, configs, false);
        List<URI> urls = new ArrayList<>();
        String userInfo = null;
        for (String text : config.getList("schema.registry.url")) {
            URI url = url(text.strip());
            if (url.getRawUserInfo() != null) {
                userInfo = url.getUserInfo();
                url = withoutUserInfo(url);
            }
            urls.add(url);
        }
        if (urls.size() > 1 && urls.stream().anyMatch(u -> "mock".equals(u.getScheme()))) {
            throw new ConfigException("schema.registry.url: a mock:// URL stands alone, got " + urls.size() + " URLs");
        }
        return new RegistryConfig(
                urls,
                authorization(config, userInfo),
                Duration.ofMillis(config.getInt("http.connect.timeout.ms")),
                Duration.ofMillis(config.getInt("http.read.timeout.ms")),
                config.getInt("max.retries"),
                Duration.ofMillis(config.getInt("retries.wait.ms")),
                Duration.ofMillis(config.getInt("retries.max.wait.ms")),
                Duration.ofSeconds(config.getInt("missing.id.cache.ttl.sec")),
                new RegistryTls(
                        config.getString("schema.registry.ssl.truststore.location"),
                        config.getPassword("schema.registry.ssl.truststore.password"),
                        config.getString("schema.registry.ssl.keystore.location"),
                        config.getPassword("schema.registry.ssl.keystore.password")));
    }

    private static @Nullable Password authorization(AbstractConfig config, @Nullable String userInfoOfUrl) {
        Password token = config.getPassword("bearer.auth.token");
        boolean fromUrl = config.getString("basic.auth.credentials.source").equals("URL");
        Password given = config.getPassword("basic.auth.user.info");
        if (!fromUrl && given == null) {
            throw new ConfigException("basic.auth.user.info: expected user:password, as basic.auth.credentials.source"
                    + " is USER_INFO, got nothing");
        }
        String userInfo = fromUrl ? userInfoOfUrl : given.value();
        if (token != null && userInfo != null) {
            throw new ConfigException("bearer.auth.token: expected either a token or user and password, got both");
        }
        if (token != null) {
            return new Password("Bearer " + token.value());
        }
        if (userInfo == null) {
            return null;
        }
        byte[] bytes = userInfo.getBytes(StandardCharsets.UTF_8);
        return new Password("Basic " + Base64.getEncoder().encodeToString(bytes));
    }

    private static URI url(String text) {
        URI url;
        try {
            url = new URI(text.endsWith("/") ? text.substring(0, text.length() - 1) : text);
        } catch (URISyntaxException e) {
            throw new ConfigException("schema.registry.url: expected a URL such as http://localhost:8081, got one that"
                    + " is not valid: " + e.getReason());
        }
        String scheme = url.getScheme() == null ? "" : url.getScheme().toLowerCase(Locale.ROOT);
        boolean known = scheme.equals("http") || scheme.equals("https") || scheme.equals("mock");
        if (!known || url.getRawAuthority() == null || url.getRawQuery() != null || url.getRawFragment() != null
                || !scheme.equals("mock") && url.getHost() == null) {
            throw new ConfigException("schema.registry.url: expected http or https, a host and no query, such as"
                    + " http://localhost:8081, got scheme \"" + scheme + "\"");
        }
        return url;
    }

    private static URI withoutUserInfo(URI url) {
        try {
            return new URI(url.getScheme(), null, url.getHost(), url.getPort(), url.getPath(), null, null);
        } catch (URISyntaxException e) {
            throw new ConfigException("schema.registry.url: not valid: " + e.getReason());
        }
    }
}

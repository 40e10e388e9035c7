package millrace.streams.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;

/// Where the cluster and the topics are, and how patient a client is.
///
/// The keys are those of the service (docs/configuration.md); a client reads `topics.*`, `kafka.*`, which goes to its Kafka clients
/// without the prefix (security included), and the registry's. One file may serve both.
///
/// @param timeout how long a request waits for its completion unless its [SendOptions] say otherwise; zero is for ever
/// @param openTimeout how long opening may take
public record ClientConfig(ServiceConfig service, Duration timeout, Duration openTimeout) {
    /// Long enough for a prompt that waits behind others; a client that must know sooner gives its prompts a deadline.
    public static final Duration DEFAULT_TIMEOUT = Duration.ofMinutes(10);

    private static final Duration DEFAULT_OPEN_TIMEOUT = Duration.ofSeconds(30);

    public ClientConfig {
        if (timeout.isNegative() || openTimeout.isNegative() || openTimeout.isZero()) {
            throw new IllegalArgumentException("timeouts: expected positive durations (timeout may be zero), got timeout " + timeout
                    + " and openTimeout " + openTimeout);
        }
    }

    public static ClientConfig of(ServiceConfig service) {
        return new ClientConfig(service, DEFAULT_TIMEOUT, DEFAULT_OPEN_TIMEOUT);
    }

    /// Reads keys with their values.
    ///
    /// @throws org.apache.kafka.common.config.ConfigException naming the key, what was expected and what was got
    public static ClientConfig of(Map<String, String> properties) {
        return of(ServiceConfig.of(properties));
    }

    /// Reads a properties file, and the environment over it as the service does.
    ///
    /// @throws org.apache.kafka.common.config.ConfigException naming the key, what was expected and what was got
    public static ClientConfig load(@Nullable Path file) {
        return of(ServiceConfig.load(file, System.getenv(), Map.of()));
    }

    public static Builder builder() {
        return new Builder();
    }

    public ClientConfig withTimeout(Duration timeout) {
        return new ClientConfig(service, timeout, openTimeout);
    }

    public ClientConfig withOpenTimeout(Duration openTimeout) {
        return new ClientConfig(service, timeout, openTimeout);
    }

    String topic(String use) {
        return service.string("topics." + use);
    }

    /// For configuration in code.
    public static final class Builder {
        private final Map<String, String> values = new LinkedHashMap<>();
        private Duration timeout = DEFAULT_TIMEOUT;

        private Builder() {}

        public Builder bootstrap(String servers) {
            return set("kafka.bootstrap.servers", servers);
        }

        public Builder registry(String url) {
            return set("schema.registry.url", url);
        }

        /// Any key of docs/configuration.md.
        public Builder set(String key, String value) {
            values.put(key, value);
            return this;
        }

        public Builder timeout(Duration value) {
            timeout = value;
            return this;
        }

        public ClientConfig build() {
            return of(values).withTimeout(timeout);
        }
    }
}

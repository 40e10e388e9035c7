package millrace.streams.gateway;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;

/// The settings of the gateway.
///
/// @param service the keys of the topics, of the Kafka clients and of the registry
/// @param keysFile of the API keys, or null where none is asked for
/// @param timeout how long a request waits for its answer
/// @param grace how long beyond that the service may take to say that the time is over
public record GatewayConfig(
        ServiceConfig service,
        String host,
        int port,
        @Nullable Path keysFile,
        List<String> models,
        Path directory,
        int maxConcurrent,
        int maxBodyBytes,
        long maxFileBytes,
        Duration timeout,
        Duration grace) {
    private static final Duration GRACE = Duration.ofSeconds(5);
    /// A cluster that does not answer is said soon enough for a client to go elsewhere.
    private static final Map<String, String> IMPATIENT = Map.of(
            "kafka.max.block.ms", "5000", "kafka.request.timeout.ms", "10000", "kafka.delivery.timeout.ms", "20000");

    /// Reads the keys under `gateway.`.
    public static GatewayConfig of(ServiceConfig config) {
        Map<String, String> missing = new HashMap<>(IMPATIENT);
        missing.keySet().removeIf(config::isSet);
        String keys = config.string("gateway.api.keys.file");
        return new GatewayConfig(
                config.with(missing),
                config.string("gateway.host"),
                config.integer("gateway.port"),
                keys.isBlank() ? null : Path.of(keys),
                Arrays.stream(config.string("gateway.models").split(",")).map(String::strip).filter(name -> !name.isEmpty()).toList(),
                Path.of(config.string("gateway.dir")),
                config.integer("gateway.max.concurrent"),
                config.integer("gateway.max.body.bytes"),
                config.number("gateway.max.file.bytes"),
                config.duration("gateway.timeout.ms"),
                GRACE);
    }
}

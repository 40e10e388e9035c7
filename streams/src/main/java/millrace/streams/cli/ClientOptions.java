package millrace.streams.cli;

import java.util.LinkedHashMap;
import java.util.Map;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// How a client command reaches the cluster and the registry.
final class ClientOptions {
    @Option(names = {"-b", "--bootstrap"}, paramLabel = "HOST:PORT",
            description = "Bootstrap servers (default: kafka.bootstrap.servers of the configuration, else 127.0.0.1:9092).")
    @Nullable String bootstrap;

    @Option(names = "--registry", paramLabel = "URL",
            description = "Schema registry (default: schema.registry.url of the configuration, else http://127.0.0.1:8081).")
    @Nullable String registry;

    @Mixin
    ConfigOptions options = new ConfigOptions();

    ServiceConfig load() {
        Map<String, String> defaults = new LinkedHashMap<>();
        defaults.put("kafka.bootstrap.servers", "127.0.0.1:9092");
        defaults.put("schema.registry.url", "http://127.0.0.1:8081");
        ServiceConfig config = options.load(defaults);
        Map<String, String> given = new LinkedHashMap<>();
        if (bootstrap != null) {
            given.put("kafka.bootstrap.servers", bootstrap);
        }
        if (registry != null) {
            given.put("schema.registry.url", registry);
        }
        return config.with(given);
    }
}

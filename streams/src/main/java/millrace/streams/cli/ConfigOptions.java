package millrace.streams.cli;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// Where a command's configuration comes from: file, environment, `-D`.
final class ConfigOptions {
    @Option(names = "--config", paramLabel = "FILE", description = "A properties file with keys of docs/configuration.md.")
    @Nullable Path file;

    @Option(names = "-D", paramLabel = "KEY=VALUE", mapFallbackValue = "",
            description = "Sets one configuration key; wins over the file and the environment. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    ServiceConfig load(Map<String, String> defaults) {
        return ServiceConfig.load(file, System.getenv(), overrides).withDefaults(defaults);
    }
}

package millrace.streams.cli;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// Properties of the Kafka client in a file of its own, as Kafka's commands take them.
final class CommandConfig {
    @Option(names = "--command-config", paramLabel = "FILE",
            description = "Properties of the Kafka client, such as security.protocol; win over the configuration.")
    @Nullable Path file;

    /// The configuration with what the file says of the client.
    ServiceConfig over(ServiceConfig config) throws IOException {
        Map<String, String> properties = new HashMap<>();
        read().forEach((name, value) -> properties.put("kafka." + name, value));
        return properties.isEmpty() ? config : config.with(properties);
    }

    /// What the file says, nothing without one.
    Map<String, String> read() throws IOException {
        Map<String, String> properties = new HashMap<>();
        if (file != null) {
            Properties read = new Properties();
            try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
                read.load(reader);
            }
            read.stringPropertyNames().forEach(name -> properties.put(name, read.getProperty(name)));
        }
        return properties;
    }
}

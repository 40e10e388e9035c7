package millrace.streams;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.jspecify.annotations.Nullable;

/// Versions of what runs.
public final class Versions {
    private Versions() {}

    public static String millrace() {
        @Nullable String version = Versions.class.getPackage().getImplementationVersion();
        return version == null ? "(unpackaged)" : version;
    }

    /// The version that Kafka's client library states of itself.
    public static String kafka() {
        try (InputStream in = Versions.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            if (in != null) {
                properties.load(in);
            }
            return properties.getProperty("version", "(unknown)");
        } catch (IOException e) {
            return "(unknown)";
        }
    }
}

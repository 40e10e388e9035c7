package millrace.streams.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import millrace.streams.ScratchDirectory;
import millrace.streams.embedded.EmbeddedCluster;

/// A service on a broker of its own that is gone after the measurement.
final class BenchCluster {
    private BenchCluster() {}

    /// What every such service is configured with; each bench adds its own.
    static Map<String, String> settings(EmbeddedCluster cluster, ScratchDirectory state) {
        Map<String, String> settings = new LinkedHashMap<>(cluster.serviceConfig());
        settings.put("state.dir", state.path().toString());
        settings.put("health.port", "-1");
        return settings;
    }
}

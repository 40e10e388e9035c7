package millrace.streams;

import java.util.Map;
import millrace.streams.embedded.EmbeddedCluster;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/// A cluster for all tests of one class, each of which takes topics of its own ([OwnTopics]): a static field with
/// `@RegisterExtension`.
final class OwnCluster implements BeforeAllCallback, AfterAllCallback {
    private @Nullable EmbeddedCluster cluster;

    @Override
    public void beforeAll(ExtensionContext context) {
        cluster = EmbeddedCluster.ephemeral();
    }

    @Override
    public void afterAll(ExtensionContext context) {
        if (cluster != null) {
            cluster.close();
        }
    }

    private EmbeddedCluster running() {
        if (cluster == null) {
            throw new IllegalStateException("the cluster runs from the first test of the class to its last");
        }
        return cluster;
    }

    /// As [EmbeddedCluster#serviceConfig()].
    Map<String, String> serviceConfig() {
        return running().serviceConfig();
    }

    String registryUrl() {
        return running().registryUrl();
    }
}

package millrace.streams;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.streams.registry.RegistryOrders;
import org.apache.kafka.clients.admin.Admin;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/// The contract on a cluster and a registry that somebody runs, which it leaves as it found them.
///
/// `KAFKA_BOOTSTRAP` and `SCHEMA_REGISTRY_URL` say where; how they are reached, if there is more to say, is read from the
/// variables of the service (`MILLRACE_KAFKA_*`, `MILLRACE_SCHEMA_REGISTRY_*`).
@EnabledIfEnvironmentVariable(named = "KAFKA_BOOTSTRAP", matches = ".+")
@EnabledIfEnvironmentVariable(named = "SCHEMA_REGISTRY_URL", matches = ".+")
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ExternalClusterIT extends ClusterContract {
    @Override
    String bootstrap() {
        return System.getenv("KAFKA_BOOTSTRAP");
    }

    @Override
    String registryUrl() {
        return System.getenv("SCHEMA_REGISTRY_URL");
    }

    @Override
    Map<String, String> environment() {
        return System.getenv();
    }

    @AfterAll
    void remove() throws Exception {
        try (Admin admin = new KafkaClients(access()).admin()) {
            List<String> topics = admin.listTopics().names().get(30, TimeUnit.SECONDS).stream()
                    .filter(ExternalClusterIT::isOurs).toList();
            admin.deleteTopics(topics).all().get(30, TimeUnit.SECONDS);
        }
        Map<String, String> registry = access().registry();
        for (JsonNode subject : new ObjectMapper().readTree(RegistryOrders.send(registry, "GET", "/subjects", null))) {
            if (isOurs(subject.asText())) {
                RegistryOrders.send(registry, "DELETE", "/subjects/" + subject.asText(), null);
                RegistryOrders.send(registry, "DELETE", "/subjects/" + subject.asText() + "?permanent=true", null);
            }
        }
    }

    private static boolean isOurs(String name) {
        return name.startsWith(RUN);
    }
}

package millrace.streams;

import java.time.Duration;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/// The contract on Kafka's own image and on Confluent's registry, those of compose/ unless `-Dkafka.image` and
/// `-Dregistry.image` name others (the second one that is configured like Confluent's). Skipped where no Docker engine answers.
@Testcontainers(disabledWithoutDocker = true)
class ContainerPipelineIT extends ClusterContract {
    private static final int REGISTRY_PORT = 8081;
    private static final Network NETWORK = Network.newNetwork();

    @Container
    private static final KafkaContainer KAFKA = new KafkaContainer(image("kafka", "apache/kafka"))
            .withNetwork(NETWORK)
            .withListener("kafka:19092")
            .withEnv("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false");

    @Container
    private static final GenericContainer<?> REGISTRY =
            new GenericContainer<>(image("registry", "confluentinc/cp-schema-registry"))
            .dependsOn(KAFKA)
            .withNetwork(NETWORK)
            .withExposedPorts(REGISTRY_PORT)
            .withEnv("SCHEMA_REGISTRY_HOST_NAME", "registry")
            .withEnv("SCHEMA_REGISTRY_LISTENERS", "http://0.0.0.0:" + REGISTRY_PORT)
            .withEnv("SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS", "PLAINTEXT://kafka:19092")
            .withEnv("SCHEMA_REGISTRY_KAFKASTORE_TOPIC_REPLICATION_FACTOR", "1")
            .waitingFor(Wait.forHttp("/subjects").forPort(REGISTRY_PORT).forStatusCode(200)
                    .withStartupTimeout(Duration.ofMinutes(3)));

    private static DockerImageName image(String service, String substituted) {
        return DockerImageName.parse(System.getProperty(service + ".image", ComposeTest.image(service)))
                .asCompatibleSubstituteFor(substituted);
    }

    @Override
    String bootstrap() {
        return KAFKA.getBootstrapServers();
    }

    @Override
    String registryUrl() {
        return "http://" + REGISTRY.getHost() + ":" + REGISTRY.getMappedPort(REGISTRY_PORT);
    }
}

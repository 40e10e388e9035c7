package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.streams.bench.PacedEngine;
import millrace.streams.embedded.EmbeddedCluster;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/// Runs docs/examples/previews.mjs against a service: a client of another language sees text early, takes the completion, cancels.
///
/// Off unless MILLRACE_NPM=1, as it installs packages: `MILLRACE_NPM=1 mvn verify -Dit.test=NodePreviewsIT`.
@EnabledIfEnvironmentVariable(named = "MILLRACE_NPM", matches = "1")
class NodePreviewsIT {
    private static final String WORDS = IntStream.range(0, 400).mapToObj(i -> "w" + i).collect(Collectors.joining(" "));

    @TempDir
    private Path temp;

    @Test
    void showsTakesAndCancels() throws Exception {
        Files.copy(Path.of("src/test/npm/package.json"), temp.resolve("package.json"));
        Files.copy(Repository.root().resolve("docs/examples/previews.mjs"), temp.resolve("previews.mjs"));
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of("state.dir", temp.resolve("state").toString(), "topics.partitions", "2", "health.port", "-1"));
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService service = InferenceService.start(config, c -> new PacedEngine(Duration.ofMillis(5)), true, line -> {})) {
                assertThat(service.card()).isNotNull();
                JsonNode answered = new ObjectMapper().readTree(
                        run("node", "previews.mjs", cluster.bootstrap(), cluster.registryUrl(), WORDS));
                assertThat(answered.path("finish_reason").asText()).isEqualTo("stop");
                assertThat(answered.path("text").asText()).isEqualTo(WORDS);
                assertThat(answered.path("deltas").asInt()).as("while it was generated").isGreaterThan(20);
                assertThat(WORDS).startsWith(answered.path("shown").asText());
                assertThat(answered.path("holes").asInt() + answered.path("restarts").asInt()).isZero();
                JsonNode cancelled = new ObjectMapper().readTree(
                        run("node", "previews.mjs", cluster.bootstrap(), cluster.registryUrl(), WORDS + " " + WORDS + " " + WORDS, "5"));
                assertThat(cancelled.path("finish_reason").asText()).isEqualTo("cancelled");
                assertThat(cancelled.path("text").asText()).startsWith("w0 w1").doesNotEndWith("w399");
            }
        }
    }

    private String run(String... command) throws Exception {
        Path output = temp.resolve("output.txt");
        Process process = new ProcessBuilder(List.of(command)).directory(temp.toFile()).redirectOutput(output.toFile())
                .redirectError(temp.resolve("error.txt").toFile()).start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        if (!ended) {
            process.destroyForcibly();
        }
        assertThat(ended && process.exitValue() == 0).as("%s: %s", command[0], Files.readString(temp.resolve("error.txt"))).isTrue();
        return Files.readString(output);
    }
}

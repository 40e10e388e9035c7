package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.embedded.EmbeddedCluster;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/// The clients of docs/examples, in other languages, against a service: each gets the answer to its own prompt.
///
/// Skipped where a language or its libraries are missing; JavaScript wants `MILLRACE_NPM=1`, as it installs packages.
@Timeout(value = 4, unit = TimeUnit.MINUTES)
class ExamplesIT {
    private static final String QUESTION = "Wie heißt du? ✓";

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;
    private static @Nullable InferenceService service;

    @BeforeAll
    static void start() {
        cluster = EmbeddedCluster.ephemeral();
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("state.dir", directory.resolve("state").toString(), "health.port", "-1", "topics.partitions", "2"));
        service = InferenceService.start(ServiceConfig.of(settings), config -> new NoOpEngine(), true, line -> {});
    }

    @AfterAll
    static void stop() {
        if (service != null) {
            service.close();
        }
        cluster.close();
    }

    @Test
    void pythonGetsItsAnswer() throws Exception {
        Path python = Path.of("/usr/bin/python3"); // the system's, for which the packages are
        assumeTrue(Files.isExecutable(python) && exit(python.toString(), "-c", "import confluent_kafka, avro, requests") == 0,
                "python3 with confluent-kafka, avro and requests");
        check(run(directory, python.toString(), Repository.root().resolve("docs/examples/python/ask.py").toString(), cluster.bootstrap(),
                cluster.registryUrl(), QUESTION));
    }

    @Test
    @EnabledIfEnvironmentVariable(named = "MILLRACE_NPM", matches = "1")
    void javaScriptGetsItsAnswer() throws Exception {
        assumeTrue(exit("node", "--version") == 0 && exit("npm", "--version") == 0, "node and npm are installed");
        Path folder = Files.createDirectory(directory.resolve("javascript"));
        for (String file : List.of("package.json", "ask.mjs")) {
            Files.copy(Repository.root().resolve("docs/examples/javascript").resolve(file), folder.resolve(file));
        }
        run(folder, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
        check(run(folder, "node", "ask.mjs", cluster.bootstrap(), cluster.registryUrl(), QUESTION));
    }

    private static void check(String output) throws IOException {
        JsonNode answer = new ObjectMapper().readTree(output.lines().toList().getLast());
        assertThat(answer.path("text").asText()).isEqualTo(QUESTION);
        assertThat(answer.path("finish_reason").asText()).isEqualTo("stop");
        assertThat(answer.path("leaf").isInt()).isTrue();
    }

    private static int exit(String... command) throws InterruptedException {
        try {
            return new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.DISCARD).start().waitFor();
        } catch (IOException e) {
            return -1;
        }
    }

    private static String run(Path folder, String... command) throws Exception {
        Path output = Files.createTempFile(directory, "output", ".txt");
        List<String> all = new ArrayList<>(List.of(command));
        Process process = new ProcessBuilder(all).directory(folder.toFile()).redirectErrorStream(true)
                .redirectOutput(output.toFile()).start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        if (!ended) {
            process.destroyForcibly();
        }
        assertThat(ended && process.exitValue() == 0).as("%s: %s", all, Files.readString(output)).isTrue();
        return Files.readString(output);
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/// Runs `src/test/npm/gateway.mjs`: the OpenAI library for JavaScript against the gateway.
///
/// Off unless MILLRACE_NPM=1, as it installs packages: `MILLRACE_NPM=1 mvn verify -Dit.test=NodeGatewayIT`.
@EnabledIfEnvironmentVariable(named = "MILLRACE_NPM", matches = "1")
class NodeGatewayIT {
    @TempDir
    private Path temp;

    @Test
    void theJavaScriptLibraryWorksUnchanged() throws Exception {
        for (String file : List.of("package.json", "gateway.mjs")) {
            Files.copy(Path.of("src/test/npm").resolve(file), temp.resolve(file));
        }
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of("state.dir", temp.resolve("state").toString(), "topics.partitions", "2", "health.port", "-1",
                    "gateway.port", "0", "gateway.dir", temp.resolve("gateway").toString()));
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new EchoEngine(), true, line -> {});
                    Gateway gateway = Gateway.start(GatewayConfig.of(config))) {
                JsonNode result = new ObjectMapper().readTree(run("node", "gateway.mjs", "http://127.0.0.1:" + gateway.port() + "/v1"));
                assertThat(result.get("whole").asText()).isEqualTo("hello there");
                assertThat(result.get("audit").asText()).contains("leaf=");
                assertThat(result.get("streamed").asText()).isEqualTo("once upon a time");
                assertThat(result.get("finish").asText()).isEqualTo("stop");
                assertThat(result.at("/usage/completion_tokens").asInt()).isEqualTo(1);
                assertThat(result.get("refused").toString())
                        .isEqualTo("{\"status\":400,\"param\":\"presence_penalty\",\"code\":\"unsupported_parameter\"}");
                assertThat(result.get("batch").asText()).isEqualTo("in a batch");
            }
        }
    }

    private String run(String... command) throws Exception {
        Path output = temp.resolve("output.txt");
        Process process = new ProcessBuilder(command).directory(temp.toFile()).redirectOutput(output.toFile())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        if (!ended) {
            process.destroyForcibly();
        }
        assertThat(ended && process.exitValue() == 0).as("%s: %s", String.join(" ", command), Files.readString(output)).isTrue();
        return Files.readString(output);
    }
}

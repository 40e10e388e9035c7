package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.engine.Engine;
import millrace.engine.guide.SchemaJudge;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.schemas.ToolCall;
import millrace.streams.cli.Main;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// Calls that a client requires, from the topic and from the gateway to the auditor, by a model that has never seen a tool.
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class RequiredToolsIT {
    @RegisterExtension
    static final OwnCluster CLUSTER = new OwnCluster();

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final String PARAMETERS = "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":8},"
            + "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\",\"days\"]}";
    private static final String TOOLS = "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"strict\":true,\"parameters\":" + PARAMETERS
            + "}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";
    private static final String NAMED = "{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}";

    @TempDir
    private Path directory;

    private ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(CLUSTER.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "-1", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "engine.threads", "2",
                "engine.chat.format", "glm-4.7", "gateway.port", "0"));
        settings.put("gateway.dir", directory.resolve("gateway-" + name).toString());
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private InferenceService serve(ServiceConfig config) throws Exception {
        return InferenceService.start(
                config, c -> Engine.open(c.engine(Models.directory("glm-tiny", directory.resolve("models")))), true, line -> { });
    }

    /// @return how many calls there are
    private static int isCall(List<ToolCall> calls, boolean named) throws Exception {
        SchemaJudge judge = new SchemaJudge(JSON.readTree(PARAMETERS));
        for (ToolCall call : calls) {
            JsonNode arguments = JSON.readTree(call.getArguments());
            assertThat(call.getName()).isIn("weather", "now");
            assertThat(call.getName().equals("now") ? arguments.isEmpty() : judge.accepts(arguments)).as(call.getArguments()).isTrue();
        }
        if (named) {
            assertThat(calls).extracting(ToolCall::getName).containsExactly("weather");
        }
        return calls.size();
    }

    private JsonNode audit(ServiceConfig config, int exitCode, String... arguments) throws Exception {
        List<String> line = new ArrayList<>(List.of("audit"));
        line.addAll(List.of(arguments));
        line.addAll(List.of("--bootstrap", String.valueOf(config.kafka().get("bootstrap.servers")), "--topic",
                config.string("topics.audit"), "--checkpoints-topic", config.string("topics.checkpoints"),
                "--completions-topic", config.string("topics.completions"), "--json"));
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        CommandLine command = Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err));
        assertThat(command.execute(line.toArray(String[]::new))).as(out + " " + err).isEqualTo(exitCode);
        return JSON.readTree(out.toString().lines().toList().getLast());
    }

    @Test
    void areValidAndComeOutAgainAndOpen() throws Exception {
        ServiceConfig config = config("required");
        int whole = 0;
        String opened = null;
        String vkey;
        try (InferenceService service = serve(config); ClusterClient client = new ClusterClient(config)) {
            vkey = service.vkey();
            for (int seed = 0; seed < 8; seed++) {
                boolean named = seed % 2 == 0;
                client.send(Prompt.newBuilder().setRequestId("r-" + seed).setThinking(false).setReturnTokenIds(true).setTools(TOOLS)
                        .setToolChoice(named ? NAMED : "required")
                        .setMessages(List.of(Message.newBuilder().setRole("user").setContent("Rain?").setToolCalls(List.of()).build()))
                        .setSampling(Sampling.newBuilder().setTemperature(1f).setSeed((long) seed).setMaxTokens(200).build()).build());
                Completion completion = client.await("r-" + seed, PATIENCE);
                assertThat(completion.getFinishReason()).as(completion.getErrorMessage()).isIn(FinishReason.stop, FinishReason.length);
                if (completion.getFinishReason() == FinishReason.stop) {
                    assertThat(completion.getReply().getContent()).isEmpty();
                    assertThat(isCall(completion.getReply().getToolCalls(), named)).as(completion.getText()).isPositive();
                    whole++;
                    opened = "r-" + seed;
                }
            }
        }
        assertThat(whole).isGreaterThan(3);
        assertThat(audit(config, 0, "verify", "--key", vkey).get("verdict").asText()).isEqualTo("ok");
        JsonNode replayed = audit(config, 0, "replay", "--model", "glm-tiny", "-D", "engine.chat.format=glm-4.7", "--key", vkey,
                "--backend", "scalar", "--threads", "1", "--batch", "3", "--kv-bytes", "16000000");
        assertThat(replayed.get("replayed").asInt()).isEqualTo(8);
        assertThat(replayed.get("bit_exact").asInt()).isEqualTo(8);
        JsonNode commitments = audit(config, 0, "open", "--model", "glm-tiny", "-D", "engine.chat.format=glm-4.7", "--key", vkey,
                "--request-id", opened).at("/answers/0/commitments");
        assertThat(commitments.propertyStream().toList()).allSatisfy(item -> assertThat(item.getValue().asText()).isEqualTo("opens"))
                .extracting(Map.Entry::getKey).contains("prompt", "completion", "token_ids", "response_format", "reply");
    }

    @Test
    void areGivenByTheGatewayWithWhereTheyStand() throws Exception {
        ServiceConfig config = config("gated");
        try (InferenceService service = serve(config); Gateway gateway = Gateway.start(GatewayConfig.of(config));
                HttpClient http = HttpClient.newHttpClient()) {
            assertThat(service.vkey()).isNotEmpty();
            int whole = 0;
            for (int seed = 0; seed < 6; seed++) {
                boolean named = seed % 2 == 0;
                var body = JSON.createObjectNode().put("model", "glm-tiny").put("temperature", 1).put("seed", seed).put("max_tokens", 200);
                body.putArray("messages").addObject().put("role", "user").put("content", "Rain?");
                body.set("tools", JSON.readTree(TOOLS));
                body.set("tool_choice", named ? JSON.readTree(NAMED) : JSON.getNodeFactory().textNode("required"));
                body.putObject("chat_template_kwargs").put("enable_thinking", false);
                HttpResponse<String> response = http.send(HttpRequest.newBuilder(
                        URI.create("http://127.0.0.1:" + gateway.port() + "/v1/chat/completions")).timeout(PATIENCE)
                        .header("Content-Type", "application/json").POST(BodyPublishers.ofString(body.toString())).build(), BodyHandlers.ofString());
                assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
                assertThat(response.headers().firstValue("Millrace-Audit").orElseThrow()).matches(".+; seq=\\d+; leaf=[0-9a-f]{64}");
                JsonNode choice = JSON.readTree(response.body()).at("/choices/0");
                if (!choice.at("/finish_reason").asText().equals("tool_calls")) {
                    assertThat(choice.at("/finish_reason").asText()).as(response.body()).isEqualTo("length");
                    continue;
                }
                List<ToolCall> calls = new ArrayList<>();
                choice.at("/message/tool_calls").forEach(call -> calls.add(ToolCall.newBuilder().setId(call.get("id").asText())
                        .setName(call.at("/function/name").asText()).setArguments(call.at("/function/arguments").asText()).build()));
                assertThat(isCall(calls, named)).as(response.body()).isPositive();
                whole++;
            }
            assertThat(whole).isGreaterThan(2);
        }
    }
}

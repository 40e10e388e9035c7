package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.core.http.HttpResponse;
import com.openai.core.http.HttpResponseFor;
import com.openai.core.http.StreamResponse;
import com.openai.errors.BadRequestException;
import com.openai.errors.NotFoundException;
import com.openai.errors.RateLimitException;
import com.openai.errors.UnauthorizedException;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.batches.Batch;
import com.openai.models.batches.BatchCreateParams;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.files.FileCreateParams;
import com.openai.models.files.FileObject;
import com.openai.models.files.FilePurpose;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import millrace.engine.Engine;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The gateway as a client library of others sees it: one with a model behind it, one with an engine that echoes.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class GatewayIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String KEY = "k-0123456789abcdef0123456789";
    private static final String LIMITED_KEY = "k-limited-0123456789abcdef0123";
    private static final String QUESTION = "What is the two-letter code for France?";

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;
    private static final List<AutoCloseable> OPEN = new ArrayList<>();
    private static Gateway model;
    private static Gateway echo;
    private static OpenAIClient tiny;
    private static OpenAIClient echoes;

    @BeforeAll
    static void start() throws Exception {
        cluster = EmbeddedCluster.ephemeral();
        Path quotas = Files.writeString(directory.resolve("quotas"), "limited.tokens.per.minute=40\n");
        ServiceConfig real = config("tiny", Map.of(
                "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "quotas.file", quotas.toString()));
        OPEN.add(InferenceService.start(real, c -> Engine.open(c.engine(Models.directory("glm-tiny", directory.resolve("models")))), true, line -> {}));
        Path keys = Files.writeString(directory.resolve("keys"), "# who may ask\nalpha " + KEY + "\nlimited " + LIMITED_KEY + "\n");
        Files.setPosixFilePermissions(keys, PosixFilePermissions.fromString("rw-------"));
        model = Gateway.start(GatewayConfig.of(real.with(Map.of("gateway.api.keys.file", keys.toString()))));
        OPEN.add(model);
        ServiceConfig fake = config("echo", Map.of("gateway.max.concurrent", "1"));
        OPEN.add(InferenceService.start(fake, c -> new EchoEngine(), true, line -> {}));
        echo = Gateway.start(GatewayConfig.of(fake));
        OPEN.add(echo);
        tiny = client(model, KEY);
        echoes = client(echo, "none");
    }

    private static ServiceConfig config(String name, Map<String, String> more) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "2",
                "health.port", "-1", "gateway.port", "0", "gateway.dir", directory.resolve("gateway-" + name).toString()));
        settings.putAll(OwnTopics.of(name));
        settings.putAll(more);
        return ServiceConfig.of(settings);
    }

    private static OpenAIClient client(Gateway gateway, String key) {
        return OpenAIOkHttpClient.builder().baseUrl("http://127.0.0.1:" + gateway.port() + "/v1").apiKey(key)
                .timeout(Duration.ofSeconds(60)).maxRetries(30).build();
    }

    @AfterAll
    static void stop() throws Exception {
        tiny.close();
        echoes.close();
        for (AutoCloseable open : OPEN.reversed()) {
            open.close();
        }
        cluster.close();
    }

    private static ChatCompletionCreateParams.Builder ask(String model, String question) {
        return ChatCompletionCreateParams.builder().model(model).temperature(0).maxCompletionTokens(24).addUserMessage(question);
    }

    @Test
    void answersAndSaysWhereTheAnswerStandsInTheAuditLog() {
        try (HttpResponseFor<ChatCompletion> response = tiny.chat().completions().withRawResponse().create(ask("glm-tiny", QUESTION).build())) {
            ChatCompletion answer = response.parse();
            assertThat(answer.choices().getFirst().message().content().orElseThrow().strip()).isEqualTo("FR");
            assertThat(answer.choices().getFirst().finishReason()).isEqualTo(ChatCompletion.Choice.FinishReason.STOP);
            assertThat(answer.usage().orElseThrow().totalTokens())
                    .isEqualTo(answer.usage().orElseThrow().promptTokens() + answer.usage().orElseThrow().completionTokens());
            assertThat(response.headers().values("Millrace-Audit")).singleElement().asString()
                    .matches("origin=millrace\\.local/.+; partition=\\d; seq=\\d+; leaf=[0-9a-f]{64}");
            assertThat(response.headers().values("x-request-id")).containsExactly(answer.id());
        }
        assertThat(tiny.models().list().data()).extracting(com.openai.models.models.Model::id).contains("glm-tiny");
    }

    private static ChatCompletionCreateParams.Builder seeded(int seed) {
        return ask("glm-tiny", QUESTION).temperature(1).putAdditionalBodyProperty("seed", JsonValue.from(seed));
    }

    @Test
    void givesSeveralAnswersWithLogProbabilities() {
        ChatCompletion answer = tiny.chat().completions().create(seeded(7).n(3).logprobs(true).topLogprobs(2).build());
        ChatCompletion again = tiny.chat().completions().create(seeded(8).build());
        assertThat(answer.choices()).hasSize(3);
        for (ChatCompletion.Choice choice : answer.choices()) {
            assertThat(choice.logprobs().orElseThrow().content().orElseThrow()).isNotEmpty().allSatisfy(token -> {
                assertThat(token.logprob()).isLessThanOrEqualTo(0);
                assertThat(token.topLogprobs()).hasSize(2);
            });
        }
        assertThat(answer.choices().get(1).message().content()).as("answer i has the seed + i").isEqualTo(again.choices().getFirst().message().content());
    }

    @Test
    @SuppressWarnings("deprecation") // fields of ours have no other door in this library
    void streamsTheSameTextThatIsAttested() {
        String whole = tiny.chat().completions().create(ask("glm-tiny", QUESTION).build()).choices().getFirst().message().content().orElseThrow();
        StringBuilder streamed = new StringBuilder();
        List<ChatCompletionChunk> chunks = new ArrayList<>();
        try (StreamResponse<ChatCompletionChunk> stream = tiny.chat().completions().createStreaming(ask("glm-tiny", QUESTION)
                .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build()).build())) {
            stream.stream().forEach(chunk -> {
                chunks.add(chunk);
                chunk.choices().forEach(choice -> choice.delta().content().ifPresent(streamed::append));
            });
        }
        assertThat(streamed.toString()).isEqualTo(whole);
        assertThat(chunks.getLast().usage().orElseThrow().completionTokens()).isPositive();
        ChatCompletionChunk finish = chunks.get(chunks.size() - 2);
        assertThat(finish.choices().getFirst().finishReason()).isPresent();
        assertThat(finish._additionalProperties().get("millrace").toString()).contains("leaf");
    }

    @Test
    void callsToolsAndTakesTheirAnswers() {
        ChatCompletionFunctionTool tool = ChatCompletionFunctionTool.builder().function(FunctionDefinition.builder().name("weather")
                .parameters(FunctionParameters.builder().putAdditionalProperty("type", JsonValue.from("object")).build()).build()).build();
        ChatCompletionCreateParams.Builder first = ask("no-op", "call weather {\"city\":\"Oslo\"}").addTool(tool);
        ChatCompletion.Choice choice = echoes.chat().completions().create(first.build()).choices().getFirst();
        assertThat(choice.finishReason()).isEqualTo(ChatCompletion.Choice.FinishReason.TOOL_CALLS);
        var call = choice.message().toolCalls().orElseThrow().getFirst().asFunction();
        assertThat(call.function().name()).isEqualTo("weather");
        assertThat(call.function().arguments()).isEqualTo("{\"city\":\"Oslo\"}");
        ChatCompletion second = echoes.chat().completions().create(first.addMessage(choice.message())
                .addMessage(ChatCompletionToolMessageParam.builder().toolCallId(call.id()).content("rain").build()).build());
        assertThat(second.choices().getFirst().message().content()).contains("rain");
    }

    @Test
    void tellsWhoseQuotaIsUsedUpWhenToComeAgain() {
        OpenAIClient limited = client(model, LIMITED_KEY).withOptions(options -> options.maxRetries(0));
        // An answer puts aside what it may take at most: of 40 tokens a minute the second finds too few.
        RateLimitException refused = null;
        for (int i = 0; i < 5 && refused == null; i++) {
            try {
                limited.chat().completions().create(ask("glm-tiny", QUESTION).build());
            } catch (RateLimitException e) {
                refused = e;
            }
        }
        assertThat(refused).as("a quota of 40 tokens a minute").isNotNull();
        assertThat(refused.statusCode()).isEqualTo(429);
        assertThat(refused.code()).contains("QUOTA_TOKENS");
        assertThat(refused.headers().values("Retry-After")).singleElement().satisfies(seconds ->
                assertThat(Integer.parseInt(seconds)).isBetween(1, 60));
        assertThat(tiny.chat().completions().create(ask("glm-tiny", QUESTION).build()).choices()).as("others go on").hasSize(1);
    }

    @Test
    void refusesByNameWhatItCannotHonour() {
        assertThatThrownBy(() -> tiny.chat().completions().create(ask("glm-tiny", "q").frequencyPenalty(0.5).build()))
                .isInstanceOfSatisfying(BadRequestException.class, e -> assertThat(e.param()).contains("frequency_penalty"));
        assertThatThrownBy(() -> tiny.chat().completions().create(ask("glm-tiny", "q").putAdditionalBodyProperty("frobnicate", JsonValue.from(1)).build()))
                .isInstanceOfSatisfying(BadRequestException.class, e -> assertThat(e.code()).contains("unknown_parameter"));
        assertThatThrownBy(() -> tiny.chat().completions().create(ask("gpt-9", "q").build()))
                .isInstanceOfSatisfying(NotFoundException.class, e -> assertThat(e.code()).contains("model_not_found"));
        OpenAIClient stranger = client(model, "k-that-nobody-knows");
        assertThatThrownBy(() -> stranger.chat().completions().create(ask("glm-tiny", "q").build())).isInstanceOf(UnauthorizedException.class);
        stranger.close();
    }

    @Test
    void aLibraryComesAgainWhenTheGatewayIsFull() throws Exception {
        CompletableFuture<ChatCompletion> slow = CompletableFuture.supplyAsync(
                () -> echoes.chat().completions().create(ask("no-op", "slow 800").build()));
        awaitMetric("millrace_gateway_in_flight 1.0");
        assertThat(echoes.chat().completions().create(ask("no-op", "behind it").build()).choices().getFirst().message().content()).contains("behind it");
        assertThat(slow.get(30, TimeUnit.SECONDS).choices().getFirst().message().content()).contains("slow 800");
        assertThat(metrics()).containsPattern("millrace_gateway_requests_seconds_count\\{endpoint=\"/v1/chat/completions\",status=\"429\"\\} [1-9]");
    }

    @Test
    void aStreamThatIsLeftIsCancelled() throws Exception {
        try (StreamResponse<ChatCompletionChunk> stream = echoes.chat().completions().createStreaming(ask("no-op", "slow 30000").build())) {
            assertThat(stream.stream().findFirst()).isPresent();
        }
        awaitMetric("millrace_gateway_cancelled_total 1.0");
        awaitMetric("millrace_gateway_in_flight 0.0");
    }

    private static String metrics() throws Exception {
        try (HttpClient http = HttpClient.newHttpClient()) {
            return http.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + echo.port() + "/metrics")).build(), BodyHandlers.ofString()).body();
        }
    }

    private static void awaitMetric(String line) throws Exception {
        long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!metrics().contains(line)) {
            assertThat(System.nanoTime()).as("waited for %s in%n%s", line, metrics()).isLessThan(until);
            Thread.sleep(10);
        }
    }

    @Test
    void runsABatchThatWasUploaded() throws Exception {
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 20; i++) {
            var line = JSON.createObjectNode().put("custom_id", "c-" + i).put("method", "POST").put("url", "/v1/chat/completions");
            line.putObject("body").put("model", "glm-tiny").put("temperature", 0).put("max_tokens", 8).putArray("messages").addObject()
                    .put("role", "user").put("content", QUESTION);
            lines.append(line).append('\n');
        }
        lines.append("{\"custom_id\":\"bad\",\"method\":\"GET\",\"url\":\"/v1/chat/completions\",\"body\":{}}\n");
        FileObject file = tiny.files().create(FileCreateParams.builder().file(lines.toString().getBytes(StandardCharsets.UTF_8))
                .purpose(FilePurpose.BATCH).build());
        Batch batch = tiny.batches().create(BatchCreateParams.builder().inputFileId(file.id())
                .endpoint(BatchCreateParams.Endpoint.V1_CHAT_COMPLETIONS).completionWindow(BatchCreateParams.CompletionWindow._24H).build());
        long until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!batch.status().equals(Batch.Status.COMPLETED)) {
            assertThat(System.nanoTime()).as(batch.toString()).isLessThan(until);
            Thread.sleep(50);
            batch = tiny.batches().retrieve(batch.id());
        }
        assertThat(batch.requestCounts().orElseThrow().completed()).isEqualTo(20);
        assertThat(batch.requestCounts().orElseThrow().failed()).isEqualTo(1);
        List<JsonNode> results = content(batch.outputFileId().orElseThrow());
        assertThat(results).hasSize(20).allSatisfy(result ->
                assertThat(result.at("/response/body/choices/0/message/content").asText().strip()).isEqualTo("FR"));
        assertThat(content(batch.errorFileId().orElseThrow())).singleElement().satisfies(error ->
                assertThat(error.at("/response/body/error/code").asText()).isEqualTo("invalid_method"));
        assertThat(tiny.batches().list().data()).extracting(Batch::id).contains(batch.id());
    }

    private static List<JsonNode> content(String file) throws Exception {
        List<JsonNode> lines = new ArrayList<>();
        try (HttpResponse response = tiny.files().content(file)) {
            for (String line : new String(response.body().readAllBytes(), StandardCharsets.UTF_8).lines().toList()) {
                lines.add(JSON.readTree(line));
            }
        }
        return lines;
    }
}

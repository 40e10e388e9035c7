package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import millrace.engine.Engine;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditReport;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.embedded.EmbeddedRegistry;
import org.apache.avro.Schema;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The service on a real broker and a real registry, seen from outside.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class ServiceIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;

    @BeforeAll
    static void start() {
        cluster = EmbeddedCluster.ephemeral();
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    /// Settings of a service with topics, group and state of its own.
    private static Map<String, String> settings(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of(
                "application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "2", "health.port", "-1",
                "engine.model", "glm-tiny", "engine.kv.bytes", "16000000"));
        settings.putAll(OwnTopics.of(name));
        return settings;
    }

    private static TextEngine glmTiny(ServiceConfig config) {
        return Engine.open(config.engine(Models.directory(config.string("engine.model"), directory.resolve("models"))));
    }

    private static InferenceService start(ServiceConfig config, InferenceService.EngineOpener opener, List<String> story) {
        return InferenceService.start(config, opener, true, story::add);
    }

    private static InferenceService startNoOp(ServiceConfig config) {
        return start(config, c -> new NoOpEngine(), new ArrayList<>());
    }

    private static Prompt.Builder chat(String id, String question) {
        return Prompt.newBuilder().setRequestId(id)
                .setMessages(List.of(Message.newBuilder().setRole("user").setContent(question).setToolCalls(List.of()).build()));
    }

    @Test
    void answersQuestionsRightAndTheAuditVerifies() throws Exception {
        Map<String, String> settings = settings("questions");
        settings.put("health.port", "0");
        ServiceConfig config = ServiceConfig.of(settings);
        List<String> story = new ArrayList<>();
        List<String> questions = Models.questions("glm-tiny").subList(0, 60);
        try (InferenceService service = start(config, ServiceIT::glmTiny, story); ClusterClient client = new ClusterClient(config)) {
            assertThat(story).hasSize(13).last().isEqualTo("ready");
            int right = 0;
            for (int i = 0; i < questions.size(); i++) {
                client.send(chat("q-" + i, JSON.readTree(questions.get(i)).get("prompt").asText()).build());
            }
            for (int i = 0; i < questions.size(); i++) {
                Completion completion = client.await("q-" + i, PATIENCE);
                assertThat(completion.getModelDigest()).isEqualTo(service.card().modelDigest());
                right += completion.getText().strip().equals(JSON.readTree(questions.get(i)).get("answer").asText()) ? 1 : 0;
            }
            assertThat(right).as("right answers of 60; the model knows 97 of 100").isGreaterThanOrEqualTo(55);
            holdsToASchema(client);
            aPlainConsumerReads(config);
            tellsOfItself(service);
            ClusterClient.sleep(1_500);
            AuditReport report = client.audit(NoteVerifier.parse(service.vkey()));
            assertThat(report.word()).as(report.text()).isEqualTo("ok");
            assertThat(report.leaves()).as("also what serves, in each of the logs").isGreaterThan(questions.size());
            assertThat(report.matched()).isEqualTo(questions.size() + 2);
            assertThat(report.checkpoints()).isPositive();
        }
    }

    private static void holdsToASchema(ClusterClient client) throws Exception {
        String format = "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":\"object\",\"properties\":{"
                + "\"sum\":{\"type\":\"integer\",\"minimum\":0},\"sure\":{\"type\":\"boolean\"}},\"required\":[\"sum\",\"sure\"]%s}}}";
        client.send(chat("form", "What is 81 plus 19?").setResponseFormat(format.formatted("")).build());
        client.send(chat("refused", "What is 81 plus 19?").setResponseFormat(format.formatted(",\"minProperties\":1")).build());
        Completion completion = client.await("form", PATIENCE);
        assertThat(completion.getFinishReason()).isEqualTo(FinishReason.stop);
        JsonNode document = JSON.readTree(completion.getReply().getContent());
        assertThat(document.get("sum").isIntegralNumber()).isTrue();
        assertThat(document.get("sure").isBoolean()).isTrue();
        Completion refused = client.await("refused", PATIENCE);
        assertThat(refused.getFinishReason()).isEqualTo(FinishReason.rejected);
        assertThat(refused.getErrorCode()).isEqualTo("GUIDE_UNSUPPORTED");
        assertThat(refused.getErrorMessage()).contains("\"minProperties\"");
    }

    /// A consumer that knows nothing of this project: bytes, a magic byte, a schema id, headers in UTF-8.
    private static void aPlainConsumerReads(ServiceConfig config) {
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", cluster.bootstrap(), "group.id", "foreign", "auto.offset.reset", "earliest"),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(Set.of(config.string("topics.completions")));
            ConsumerRecord<byte[], byte[]> first = null;
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (first == null && System.nanoTime() < until) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    first = record;
                }
            }
            assertThat(first).isNotNull();
            assertThat(first.value()[0]).isZero();
            assertThat(ByteBuffer.wrap(first.value()).getInt(1)).isPositive();
            assertThat(new String(first.headers().lastHeader("ce_type").value(), StandardCharsets.UTF_8))
                    .isEqualTo("millrace.completion.v1");
        }
    }

    private static void tellsOfItself(InferenceService service) throws Exception {
        String at = "http://127.0.0.1:" + service.healthPort();
        assertThat(get(at + "/health/live").body()).isEqualTo("{\"status\":\"UP\",\"checks\":[{\"name\":\"service\",\"status\":\"UP\"}]}");
        HttpResponse<String> ready = get(at + "/health/ready");
        assertThat(ready.statusCode()).isEqualTo(200);
        assertThat(JSON.readTree(ready.body()).get("checks")).extracting(check -> check.get("name").asText())
                .containsExactlyInAnyOrder("streams", "engine", "integrity", "checkpoints", "accepting");
        assertThat(get(at + "/health/started").statusCode()).isEqualTo(200);
        String metrics = get(at + "/metrics").body();
        assertThat(metrics).contains("millrace_audit_leaves_total ", "millrace_kv_capacity_tokens",
                "millrace_audit_unsigned_leaves", "millrace_audit_seq{partition=\"0\"}",
                "millrace_integrity_verify_mode{mode=\"digest_recorded\"} 1.0", "millrace_integrity_admitting 1.0",
                "millrace_integrity_mismatches_total{kind=\"weight\"} 0.0",
                "gen_ai_server_time_to_first_token_seconds_count", "kafka_stream");
    }

    private static HttpResponse<String> get(String url) throws Exception {
        try (HttpClient http = HttpClient.newHttpClient()) {
            return http.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
        }
    }

    @Test
    void deadLettersWhatCannotBeReadAndServesTheNextPrompt() throws Exception {
        ServiceConfig config = ServiceConfig.of(settings("corpus"));
        try (InferenceService service = startNoOp(config); ClusterClient client = new ClusterClient(config)) {
            byte[] good = client.encode(Prompt.newBuilder().setRequestId("x").setPrompt("q").build());
            int foreign = client.registry().register("corpus.foreign", new Schema.Parser().parse(
                    "{\"type\":\"record\",\"name\":\"Other\",\"namespace\":\"elsewhere\",\"fields\":[]}"));
            Map<String, byte[]> corpus = new HashMap<>();
            corpus.put("empty", new byte[0]);
            corpus.put("four bytes", Arrays.copyOf(good, 4));
            corpus.put("magic byte 1", with(good, 0, 1));
            corpus.put("unknown schema id", ByteBuffer.wrap(good.clone()).putInt(1, 1 << 30).array());
            corpus.put("schema of another subject", ByteBuffer.wrap(good.clone()).putInt(1, foreign).array());
            corpus.put("truncated", Arrays.copyOf(good, good.length - 2));
            corpus.put("left over", Arrays.copyOf(good, good.length + 1));
            // A string of 2^31 - 1 bytes, and the union's branch 99.
            corpus.put("string length", concat(Arrays.copyOf(good, 5), new byte[] {-2, -1, -1, -1, 15}));
            corpus.put("union branch", with(good, 7, 99 * 2 & 0x7f));
            // request_id "x", nulls, then messages: an array whose block claims -2^63 items.
            corpus.put("array block", concat(Arrays.copyOf(good, 5),
                    new byte[] {2, 'x', 0, 0, 0, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1}));
            for (Map.Entry<String, byte[]> bad : corpus.entrySet()) {
                client.sendRaw(bad.getKey().getBytes(StandardCharsets.UTF_8), bad.getValue(), new RecordHeaders());
            }
            client.sendRaw("null".getBytes(StandardCharsets.UTF_8), null, new RecordHeaders());
            client.send(Prompt.newBuilder().setRequestId("next-good").setPrompt("still there?").build());
            assertThat(client.await("next-good", PATIENCE).getText()).isEqualTo("still there?");

            List<ConsumerRecord<byte[], byte[]>> letters = client.readAll("topics.dlq");
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (letters.size() < corpus.size() + 1 && System.nanoTime() < until) {
                ClusterClient.sleep(100);
                letters = client.readAll("topics.dlq");
            }
            Map<String, String> codes = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> letter : letters) {
                String name = new String(letter.key(), StandardCharsets.UTF_8);
                codes.put(name, new String(letter.headers().lastHeader("__streams.errors.exception").value(), StandardCharsets.UTF_8));
                assertThat(letter.value()).as(name).isEqualTo(corpus.get(name));
            }
            assertThat(codes).isEqualTo(Map.ofEntries(
                    Map.entry("null", "SCHEMA_NULL"), Map.entry("empty", "SCHEMA_TOO_SHORT"), Map.entry("four bytes", "SCHEMA_TOO_SHORT"),
                    Map.entry("magic byte 1", "SCHEMA_MAGIC"), Map.entry("unknown schema id", "SCHEMA_UNKNOWN_ID"),
                    Map.entry("schema of another subject", "SCHEMA_FOREIGN"), Map.entry("truncated", "AVRO_DECODE"),
                    Map.entry("left over", "AVRO_DECODE"), Map.entry("string length", "AVRO_DECODE"),
                    Map.entry("union branch", "AVRO_DECODE"), Map.entry("array block", "AVRO_DECODE")));
            assertThat(letters).hasSize(codes.size());
            ClusterClient.sleep(1_500);
            AuditReport report = client.audit(NoteVerifier.parse(service.vkey()));
            assertThat(report.word()).as(report.text()).isEqualTo("ok");
            assertThat(report.leaves()).as("and two that say what serves, in each log that was written")
                    .isBetween(codes.size() + 3L, codes.size() + 5L);
        }
    }

    private static byte[] with(byte[] bytes, int at, int value) {
        byte[] changed = bytes.clone();
        changed[at] = (byte) value;
        return changed;
    }

    private static byte[] concat(byte[] a, byte[] b) {
        return ByteBuffer.allocate(a.length + b.length).put(a).put(b).array();
    }

    @Test
    void rejectsWhatTheModelCannotServeByCode() {
        ServiceConfig config = ServiceConfig.of(settings("rejections"));
        try (InferenceService service = start(config, ServiceIT::glmTiny, new ArrayList<>());
                ClusterClient client = new ClusterClient(config)) {
            Map<String, Prompt> prompts = new HashMap<>();
            prompts.put("PROMPT_EMPTY", chat("e", "").setMessages(List.of()).build());
            prompts.put("PARAM_RANGE", chat("t", "q").setSampling(sampling().setTemperature(Float.NaN).build()).build());
            prompts.put("CONTEXT_OVERFLOW", chat("c", "q").setSampling(sampling().setMaxTokens(1_024).build()).build());
            prompts.put("PARAM_LIMIT", chat("s", "q").setSampling(sampling().setStop(List.of("")).build()).build());
            prompts.put("TOKEN_ID_RANGE", Prompt.newBuilder().setRequestId("i").setTokenIds(List.of(1 << 30)).build());
            prompts.values().forEach(client::send);
            client.send(chat("good", "What is 1 plus 1?").build());
            assertThat(client.await("good", PATIENCE).getFinishReason()).isIn(FinishReason.stop, FinishReason.length);
            prompts.forEach((code, prompt) ->
                    assertThat(client.await(prompt.getRequestId(), PATIENCE).getErrorCode()).isEqualTo(code));
            assertThat(service.card().name()).isEqualTo("glm-tiny");
        }
    }

    private static millrace.schemas.Sampling.Builder sampling() {
        return millrace.schemas.Sampling.newBuilder();
    }

    @Test
    void keepsPromptsOfAnUnknownSchemaWhileTheRegistryIsDown() throws Exception {
        EmbeddedRegistry second = EmbeddedRegistry.start(cluster.bootstrap(), "127.0.0.1", 0);
        int port = second.port();
        Map<String, String> settings = settings("outage");
        ServiceConfig outside = ServiceConfig.of(settings);
        settings.put("schema.registry.url", second.url());
        settings.put("schema.registry.max.retries", "0");
        ServiceConfig config = ServiceConfig.of(settings);
        try (InferenceService service = startNoOp(config); ClusterClient client = new ClusterClient(outside)) {
            second.close();
            client.sendRaw(null, LaterRelease.prompt(client, "outage.later", "later"), new RecordHeaders());
            client.send(Prompt.newBuilder().setRequestId("known").setPrompt("q").build());
            assertThat(client.await("known", PATIENCE).getText()).as("what is cached is served").isEqualTo("q");
            ClusterClient.sleep(1_000);
            assertThat(client.answer("later")).isNull();
            assertThat(client.readAll("topics.dlq")).isEmpty();
            try (EmbeddedRegistry again = EmbeddedRegistry.start(cluster.bootstrap(), "127.0.0.1", port)) {
                assertThat(client.await("later", PATIENCE).getText()).isEqualTo("from the future");
                assertThat(again.port()).isEqualTo(port);
            }
            client.assertExactlyOnce(List.of("known", "later"));
            assertThat(service.healthPort()).isEqualTo(-1);
        }
    }

    @Test
    void finishesWhatIsInFlightWhenItStopsAndResumesTheRest() {
        ServiceConfig config = ServiceConfig.of(settings("drain"));
        List<String> ids = new ArrayList<>();
        try (InferenceService service = start(config, ServiceIT::glmTiny, new ArrayList<>())) {
            try (ClusterClient client = new ClusterClient(config)) {
                for (int i = 0; i < 40; i++) {
                    ids.add("d-" + i);
                    client.send(chat("d-" + i, "What is " + i + " plus 2?").build());
                }
                client.await("d-0", PATIENCE);
            }
            assertThat(service.card().name()).isEqualTo("glm-tiny");
        }
        try (InferenceService service = start(config, ServiceIT::glmTiny, new ArrayList<>());
                ClusterClient client = new ClusterClient(config)) {
            ids.forEach(id -> client.await(id, PATIENCE));
            client.assertExactlyOnce(ids);
            ClusterClient.sleep(1_500);
            AuditReport report = client.audit(NoteVerifier.parse(service.vkey()));
            assertThat(report.word()).as(report.text()).isEqualTo("ok");
        }
    }

    @Test
    void refusesToStartOnWhatItCannotTrust() throws Exception {
        Map<String, String> digest = settings("refuse-digest");
        digest.put("engine.model.digest", "sha256:" + "0".repeat(64));
        assertThatThrownBy(() -> start(ServiceConfig.of(digest), ServiceIT::glmTiny, new ArrayList<>()))
                .hasMessageContaining(": expected the pinned digest sha256:" + "0".repeat(64) + ", got sha256:")
                .hasMessageEndingWith("; serve the pinned model, or pin this one after checking where it came from");

        Map<String, String> topics = settings("refuse-topics");
        topics.put("topics.create", "false");
        assertThatThrownBy(() -> startNoOp(ServiceConfig.of(topics))).hasMessageStartingWith("TOPIC_MISSING: ");

        Map<String, String> key = settings("refuse-key");
        assertThatThrownBy(() -> InferenceService.start(ServiceConfig.of(key), c -> new NoOpEngine(), false, line -> {}))
                .hasMessageStartingWith("audit.key.file " + directory.resolve("refuse-key").resolve("audit.key") + ": cannot be read (")
                .hasMessageEndingWith("); make a key with `millrace audit keygen`, or point to the one you have");

        Map<String, String> registry = settings("refuse-registry");
        registry.put("schema.registry.url", "http://127.0.0.1:1");
        registry.put("schema.registry.max.retries", "0");
        assertThatThrownBy(() -> startNoOp(ServiceConfig.of(registry))).hasMessageContaining("http://127.0.0.1:1");

        Map<String, String> broker = settings("refuse-broker");
        broker.put("kafka.bootstrap.servers", "127.0.0.1:1");
        broker.put("kafka.default.api.timeout.ms", "1000");
        broker.put("kafka.request.timeout.ms", "1000");
        assertThatThrownBy(() -> startNoOp(ServiceConfig.of(broker)))
                .hasMessageStartingWith("kafka.bootstrap.servers: the cluster did not answer (")
                .hasMessageEndingWith("); check the address and the security settings");
    }

    @Test
    void refusesALogWhoseTopicWasDeletedAndBeginsANewEpochWhenTold() throws Exception {
        Map<String, String> settings = settings("epoch");
        settings.put("topics.partitions", "1");
        ServiceConfig config = ServiceConfig.of(settings);
        try (InferenceService service = startNoOp(config); ClusterClient client = new ClusterClient(config)) {
            client.send(Prompt.newBuilder().setRequestId("before").setPrompt("q").build());
            client.await("before", PATIENCE);
            assertThat(service.card().name()).isEqualTo("no-op");
        }
        try (Admin admin = new KafkaClients(config).admin()) {
            admin.deleteTopics(List.of("epoch.audit", "epoch.completions", "epoch.checkpoints")).all().get(30, TimeUnit.SECONDS);
            ClusterClient.sleep(1_000);
        }
        assertThatThrownBy(() -> startNoOp(config))
                .hasMessageStartingWith("LOG_STATE_DIVERGED: audit partition 0 ends with no leaf, the log's state with leaf 2 of ");
        try (InferenceService service = startNoOp(config.with(Map.of("audit.epoch.new", "true")));
                ClusterClient client = new ClusterClient(config)) {
            client.send(Prompt.newBuilder().setRequestId("after").setPrompt("q").build());
            assertThat(client.await("after", PATIENCE).getAudit().getSeq()).as("after the start of the epoch, the model and the build").isEqualTo(3);
            assertThat(service.card().name()).isEqualTo("no-op");
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.engine.Engine;
import millrace.integrity.Checkpoint;
import millrace.integrity.Digest;
import millrace.integrity.InclusionProof;
import millrace.integrity.Leaf;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteSigner;
import millrace.integrity.NoteVerifier;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// What a running service tells of itself over HTTP.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class ConsoleIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    static final String SECRET_TEXT = "What is the two-letter code for France?";

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;
    private static InferenceService service;
    private static ClusterClient client;
    private static HttpClient http;

    @BeforeAll
    static void start() {
        cluster = EmbeddedCluster.ephemeral();
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of(
                "application.id", "console", "state.dir", directory.resolve("state").toString(), "topics.partitions", "2",
                "health.port", "0", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "integrity.canary.interval", "1s"));
        ServiceConfig config = ServiceConfig.of(settings);
        try (Admin admin = new KafkaClients(config).admin()) {
            admin.createTopics(List.of(new NewTopic("llm.audit.cosigs", 2, (short) 1))).all().get();
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
        service = InferenceService.start(
                config, c -> Engine.open(c.engine(Models.directory(c.string("engine.model"), directory.resolve("models")))), true, line -> {});
        client = new ClusterClient(config);
        http = HttpClient.newHttpClient();
        ask("warm-0");
        ask("warm-1");
    }

    @AfterAll
    static void stop() {
        http.close();
        client.close();
        service.close();
        cluster.close();
    }

    private static void ask(String id) {
        client.send(Prompt.newBuilder().setRequestId(id)
                .setMessages(List.of(Message.newBuilder().setRole("user").setContent(SECRET_TEXT).setToolCalls(List.of()).build())).build());
        client.await(id, PATIENCE);
    }

    private static HttpResponse<String> get(String path, String... headers) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + service.healthPort() + path));
        if (headers.length > 0) {
            request.headers(headers);
        }
        return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    @Test
    void metricsAreThoseOfTheDocument() throws Exception {
        String scrape = get("/metrics").body();
        assertThat(MetricNames.exposed(scrape)).containsExactlyInAnyOrderElementsOf(MetricNames.documented());
    }

    @Test
    void dashboardAndAlertsAskOnlyForWhatThereIs() throws Exception {
        Set<String> sampled = MetricNames.sampled(get("/metrics").body());
        for (String file : List.of("compose/grafana/dashboards/millrace.json", "compose/prometheus/alerts.yml")) {
            Set<String> asked = new TreeSet<>(MetricNames.asked(Files.readString(Repository.root().resolve(file))));
            assertThat(asked).as(file).hasSizeGreaterThan(10);
            asked.removeAll(sampled);
            assertThat(asked).as(file + ": asked for and not exposed").isEmpty();
        }
    }

    @Test
    void latenciesHaveTheConventionsAttributesAndBuckets() throws Exception {
        String scrape = get("/metrics").body();
        String attributes = "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"millrace\",gen_ai_request_model=\"glm-tiny\","
                + "gen_ai_response_model=\"glm-tiny\"";
        assertThat(scrape)
                .contains("gen_ai_server_time_to_first_token_seconds_bucket{" + attributes + ",le=\"0.25\"}")
                .contains("gen_ai_client_token_usage_bucket{" + attributes + ",gen_ai_token_type=\"input\",le=\"64.0\"}")
                .contains("gen_ai_server_request_duration_seconds_count{error_type=\"\"," + attributes + "}");
    }

    @Test
    void speaksOpenMetricsWhereAsked() throws Exception {
        HttpResponse<String> plain = get("/metrics");
        assertThat(plain.headers().firstValue("content-type")).hasValue("text/plain; version=0.0.4; charset=utf-8");
        HttpResponse<String> open = get("/metrics", "Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        assertThat(open.headers().firstValue("content-type")).hasValue("application/openmetrics-text; version=1.0.0; charset=utf-8");
        assertThat(open.body()).endsWith("# EOF\n").contains("# TYPE millrace_audit_leaves counter");
    }

    @Test
    void probesHaveShortNamesToo() throws Exception {
        for (String probe : List.of("live", "ready", "started")) {
            HttpResponse<String> answer = get("/" + probe);
            assertThat(answer.statusCode()).as(probe).isEqualTo(200);
            assertThat(JSON.readTree(answer.body()).get("status").asText()).isEqualTo("UP");
            assertThat(JSON.readTree(answer.body()).get("checks"))
                    .hasSameSizeAs(JSON.readTree(get("/health/" + probe).body()).get("checks"));
        }
    }

    @Test
    void isReadOnlyAndForbidsForeignContent() throws Exception {
        URI root = URI.create("http://127.0.0.1:" + service.healthPort() + "/metrics");
        for (String method : List.of("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")) {
            HttpResponse<String> answer = http.send(HttpRequest.newBuilder(root)
                    .method(method, HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
            assertThat(answer.statusCode()).as(method).isEqualTo(405);
            assertThat(answer.headers().firstValue("allow")).hasValue("GET, HEAD");
        }
        HttpResponse<String> head = http.send(HttpRequest.newBuilder(root).HEAD().build(), HttpResponse.BodyHandlers.ofString());
        assertThat(head.statusCode()).isEqualTo(200);
        assertThat(head.body()).isEmpty();
        assertThat(get("/../metrics/x").statusCode()).isEqualTo(404);
        assertThat(get("/metrics").headers().map()).containsEntry("x-content-type-options", List.of("nosniff"))
                .containsEntry("cache-control", List.of("no-store")).containsKey("content-security-policy");
    }

    @Test
    void countsWhatWaitsInEachPartition() throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        String scrape = get("/metrics").body();
        while (!scrape.contains("millrace_queue_lag{partition=\"1\"} 0.0") && System.nanoTime() < until) {
            Thread.sleep(100);
            scrape = get("/metrics").body();
        }
        for (int partition = 0; partition < 2; partition++) {
            String of = "{partition=\"" + partition + "\"} 0.0";
            assertThat(scrape).contains("millrace_queue_lag" + of, "millrace_queue_pending" + of, "millrace_queue_inflight" + of);
        }
    }

    @Test
    void theTailHasCommittedLeavesAndTheirProofs() throws Exception {
        ask("tail-1");
        JsonNode row = null;
        long until = System.nanoTime() + PATIENCE.toNanos();
        JsonNode proof = JSON.createObjectNode();
        while (!proof.has("path") && System.nanoTime() < until) {
            for (JsonNode each : JSON.readTree(get("/api/tail?after=0").body()).get("rows")) {
                row = each.get("request").asText().equals("tail-1") ? each : row;
            }
            if (row != null) {
                proof = JSON.readTree(get("/api/proof?origin=" + row.get("origin").asText() + "&seq=" + row.get("seq").asLong()).body());
            }
            Thread.sleep(50);
        }
        assertThat(row).isNotNull();
        assertThat(row.get("verdict").asText()).isEqualTo("OK");
        assertThat(row.get("provable").asBoolean()).isTrue();
        byte[] body = Base64.getDecoder().decode(proof.get("body").asText());
        Digest leaf = Leaf.hash(Digest.ofHex(proof.get("fingerprint").asText()), body);
        assertThat(leaf.hex()).isEqualTo(row.get("leaf").asText());
        SignedNote note = SignedNote.parse(proof.get("note").asText());
        note.verify(List.of(NoteVerifier.parse(service.vkey())));
        Checkpoint head = Checkpoint.parse(note.text());
        List<Digest> path = new ArrayList<>();
        proof.get("path").forEach(hash -> path.add(Digest.ofHex(hash.asText())));
        assertThat(new InclusionProof(row.get("seq").asLong(), head.size(), path).verify(leaf, head.root())).isEqualTo(Verdict.VERIFIED);
        String schema = get("/api/schema?fingerprint=" + proof.get("fingerprint").asText()).body();
        assertThat(Digest.sha256(schema).hex()).isEqualTo(proof.get("fingerprint").asText());
    }

    @Test
    void answersQuestionsThatMakeNoSense() throws Exception {
        for (String path : List.of("/api/proof", "/api/proof?origin=x&seq=-1", "/api/proof?origin=%2e%2e%2f&seq=99999999999999999999",
                "/api/schema?fingerprint=../../etc/passwd", "/console/../console/console.js", "/console/", "/favicon.ico", "/api/")) {
            assertThat(get(path).statusCode()).as(path).isEqualTo(404);
        }
        assertThat(get("/api/tail?after=-5").statusCode()).isEqualTo(200);
        assertThat(get("/api/state?since=soon").statusCode()).isEqualTo(200);
    }

    /// Another name that somebody had resolve to this machine.
    @Test
    void aForeignHostReadsNothingOfTheConsole() throws Exception {
        try (Socket socket = new Socket("127.0.0.1", service.healthPort())) {
            socket.getOutputStream().write("GET /api/tail HTTP/1.1\r\nHost: evil.example:8080\r\nConnection: close\r\n\r\n"
                    .getBytes(StandardCharsets.US_ASCII));
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(answer).startsWith("HTTP/1.1 421 ").doesNotContain("rows");
        }
    }

    @Test
    void showsNoTextOfPromptsOrCompletions() throws Exception {
        ask("secret-1");
        for (String path : List.of("/metrics", "/ready", "/api/facts", "/api/state", "/api/tail?after=0")) {
            assertThat(get(path).body()).as(path).doesNotContain("two-letter", "France");
        }
    }

    @Test
    void tellsHowLongNoWitnessHasCosigned() throws Exception {
        NoteSigner log = NoteSigner.generate("log", new SecureRandom());
        NoteSigner witness = NoteSigner.generate("witness", NoteKey.Kind.WITNESS, new SecureRandom());
        long seconds = System.currentTimeMillis() / 1_000 - 100;
        SignedNote note = SignedNote.sign("origin\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", log).cosign(witness, seconds);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", cluster.bootstrap()), new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>("llm.audit.cosigs", 0, null, note.encode().getBytes(StandardCharsets.UTF_8))).get();
        }
        Pattern lag = Pattern.compile("(?m)^millrace_audit_witness_lag_seconds (\\d+\\.\\d+)$");
        Matcher found = lag.matcher(get("/metrics").body());
        for (long until = System.nanoTime() + PATIENCE.toNanos(); !found.find() && System.nanoTime() < until;) {
            Thread.sleep(50);
            found = lag.matcher(get("/metrics").body());
        }
        found.reset();
        assertThat(found.find()).isTrue();
        assertThat(Double.parseDouble(found.group(1))).isGreaterThanOrEqualTo(100);
    }
}

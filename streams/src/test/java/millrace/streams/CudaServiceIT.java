package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import millrace.engine.Engine;
import millrace.engine.TextEngine;
import millrace.engine.kernel.cuda.BrokenDevice;
import millrace.integrity.NoteVerifier;
import millrace.integrity.WireReader;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.ComputeDevice;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.schemas.Schemas;
import millrace.streams.cli.Main;
import millrace.streams.embedded.EmbeddedCluster;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// A service on the CUDA backend, over the stand-in for a driver: what it says of itself, how its answers are audited, and what
/// comes of a device that fails.
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class CudaServiceIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final String NAME = "Millrace CUDA stand-in (CPU)";
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    private static Path directory;

    private static EmbeddedCluster cluster;

    @BeforeAll
    static void start() {
        assumeTrue(BrokenDevice.isPresent(), "built without a C++ compiler");
        cluster = EmbeddedCluster.ephemeral();
    }

    @AfterAll
    static void stop() {
        if (cluster != null) {
            cluster.close();
        }
    }

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "0", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "engine.memory.bytes", "512000000",
                "engine.backend", "cuda", "engine.cuda.driver", "standin", "integrity.proofs", "true"));
        settings.put("engine.threads", "2");
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private static TextEngine open(ServiceConfig config) {
        return Engine.open(config.engine(Models.directory(config.string("engine.model"), directory.resolve("models"))));
    }

    private static Prompt prompt(int i, int tokens) {
        return Prompt.newBuilder().setRequestId("r-" + i).setPrompt("Question " + i + ": what is " + i + " + 7?").setReturnTokenIds(true)
                .setSampling(Sampling.newBuilder().setTemperature(i % 2 * 0.7f).setSeed((long) i).setMaxTokens(tokens).build()).build();
    }

    private static List<AttestationRecord> leaves(ClusterClient client) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        return client.readAll("topics.audit").stream().map(record -> reader.read(record.value()).record()).toList();
    }

    @Test
    void saysWhatItIsAndIsAuditedOnBothKindsOfMachine() throws Exception {
        ServiceConfig config = config("standin");
        List<String> story = new ArrayList<>();
        String vkey;
        try (InferenceService service = InferenceService.start(config, CudaServiceIT::open, true, story::add);
                ClusterClient client = new ClusterClient(config)) {
            vkey = service.vkey();
            IntStream.range(0, 4).forEach(i -> client.send(prompt(i, 40)));
            IntStream.range(0, 4).forEach(i -> client.await("r-" + i, PATIENCE));
            tells(service, story);
            ClusterClient.sleep(1_500);
            assertThat(client.audit(NoteVerifier.parse(vkey)).computedBy())
                    .containsExactly(Map.entry("cuda on " + NAME + ", compute capability 9.0, STAND-IN", 4L));
            List<AttestationRecord> leaves = leaves(client);
            assertThat(leaves).allSatisfy(leaf -> {
                assertThat(leaf.getProfile()).isEqualTo("cuda-mma/v1");
                ComputeDevice device = leaf.getDevice();
                assertThat(device.getName()).isEqualTo(NAME);
                assertThat(device.getStandin()).isTrue();
                assertThat(device.getImageSha256().bytes()).isNotEqualTo(new byte[32]);
            });
            assertThat(leaves.getFirst().getDetail()).contains(" backend=cuda profile=cuda-mma/v1 device=Millrace_CUDA_stand-in_(CPU)");
        }
        JsonNode processor = replay(config, vkey, "--backend", "vector");
        assertThat(processor.get("within_tolerance").asInt()).isEqualTo(4);
        assertThat(processor.get("bit_exact").asInt()).isZero();
        assertThat(processor.get("proofs").asInt()).isPositive();
        JsonNode device = replay(config, vkey, "--backend", "cuda", "-D", "engine.cuda.driver=standin");
        assertThat(device.get("bit_exact").asInt()).isEqualTo(4);
        assertThat(device.get("with_logits").asInt()).isEqualTo(4);
    }

    private static void tells(InferenceService service, List<String> story) throws Exception {
        assertThat(story).anyMatch(line -> line.startsWith("device " + NAME + ", compute capability 9.0, driver "))
                .anyMatch(line -> line.contains("THIS IS NO GPU: " + NAME));
        try (HttpClient http = HttpClient.newHttpClient()) {
            JsonNode ready = JSON.readTree(get(http, service, "/health/ready"));
            JsonNode engine = IntStream.range(0, ready.get("checks").size()).mapToObj(i -> ready.get("checks").get(i))
                    .filter(check -> check.get("name").asText().equals("engine")).findFirst().orElseThrow();
            assertThat(engine.at("/data/backend").asText()).isEqualTo("cuda");
            assertThat(engine.at("/data/device").asText()).isEqualTo(NAME);
            assertThat(engine.at("/data/standin").asText()).isEqualTo("true");
            assertThat(get(http, service, "/metrics")).containsPattern(
                    "millrace_engine_device_info\\{capability=\"9.0\",driver=\"[0-9.]+\",image=\"[0-9a-f]{64}\",name=\"Millrace CUDA");
        }
    }

    private static String get(HttpClient http, InferenceService service, String path) throws Exception {
        URI at = URI.create("http://127.0.0.1:" + service.healthPort() + path);
        return http.send(HttpRequest.newBuilder(at).build(), HttpResponse.BodyHandlers.ofString()).body();
    }

    /// The last line of `audit replay --json`, which has to end well.
    private static JsonNode replay(ServiceConfig config, String vkey, String... engine) throws Exception {
        List<String> arguments = new ArrayList<>(List.of("audit", "replay", "--model", "glm-tiny", "--key", vkey, "--kv-bytes",
                "16000000", "--threads", "2", "--json", "--bootstrap", String.valueOf(config.kafka().get("bootstrap.servers")),
                "--topic", config.string("topics.audit"), "--checkpoints-topic", config.string("topics.checkpoints"),
                "--completions-topic", config.string("topics.completions"), "-D", "topics.prompts=" + config.string("topics.prompts")));
        arguments.addAll(List.of(engine));
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out));
        line.setErr(new PrintWriter(err));
        int exit = line.execute(arguments.toArray(String[]::new));
        assertThat(exit).as(err + out.toString()).isZero();
        return JSON.readTree(out.toString().lines().toList().getLast());
    }

    /// A kernel runs astray while prompts are computed. None of them is answered; the log says what happened; the next start
    /// answers each of them once.
    @Test
    void aDeviceThatFailsEndsTheServiceAndTheNextStartAnswersEveryPrompt() throws Exception {
        ServiceConfig config = config("broken");
        List<String> ids = IntStream.range(0, 5).mapToObj(i -> "r-" + i).toList();
        try (InferenceService service = InferenceService.start(config, CudaServiceIT::open, true, line -> { });
                ClusterClient client = new ClusterClient(config)) {
            CompletableFuture<@Nullable Throwable> end = run(service);
            client.send(prompt(0, 4));
            client.await("r-0", PATIENCE);
            IntStream.range(1, 5).forEach(i -> client.send(prompt(i, 200)));
            ClusterClient.sleep(300);
            BrokenDevice.strike();
            assertThat(end.get(60, TimeUnit.SECONDS)).hasMessageStartingWith("the engine failed (engine: a ")
                    .hasMessageContaining("CUDA_ERROR_ILLEGAL_ADDRESS")
                    .hasMessageEndingWith("; prompts in flight stay pending and are resumed at the next start");
        }
        BrokenDevice.replace();
        try (InferenceService service = InferenceService.start(config, CudaServiceIT::open, true, line -> { });
                ClusterClient client = new ClusterClient(config)) {
            for (String id : ids) {
                Completion completion = client.await(id, PATIENCE);
                assertThat(completion.getErrorCode()).as(id).isNull();
            }
            client.assertExactlyOnce(ids);
            ClusterClient.sleep(1_500);
            List<AttestationRecord> leaves = leaves(client);
            assertThat(leaves).filteredOn(leaf -> leaf.getEvent() == AuditEvent.FAULT).singleElement().satisfies(fault -> {
                assertThat(fault.getErrorCode()).isEqualTo("CUDA_FAILED");
                assertThat(fault.getVerdict()).isEqualTo(AuditVerdict.FAILED);
                assertThat(fault.getSuspect()).as("nothing is in doubt").isNull();
                assertThat(fault.getDetail()).contains("kind=DEVICE result=refused ", " result=700 name=CUDA_ERROR_ILLEGAL_ADDRESS");
            });
            WireReader<AlarmRecord> reader = new WireReader<>(Schemas.ALARM, null);
            assertThat(client.readAll("topics.faults")).extracting(record -> reader.read(record.value()).record().getCode())
                    .containsExactly("CUDA_FAILED", "ENGINE_FAILED");
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
        }
    }

    private static CompletableFuture<@Nullable Throwable> run(InferenceService service) {
        CompletableFuture<@Nullable Throwable> end = new CompletableFuture<>();
        Thread.ofPlatform().daemon().start(() -> {
            try {
                end.complete(service.run());
            } catch (InterruptedException e) {
                end.completeExceptionally(e);
            }
        });
        return end;
    }
}

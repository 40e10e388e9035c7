package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import millrace.engine.EngineFaults;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.integrity.WireReader;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.schemas.Schemas;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// The steps of a real engine under a service hang, fail or run out of memory: the service says so and ends, and the next one
/// answers everything, once and with the same bits.
@Timeout(value = 4, unit = TimeUnit.MINUTES)
class EngineFaultIT {
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final int PROMPTS = 8;

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "0", "engine.model", "glm-tiny", "engine.threads", "1", "engine.kv.bytes", "16000000",
                "integrity.step.timeout", "4s"));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private static Prompt prompt(String name, int i) {
        return Prompt.newBuilder().setRequestId(name + "-" + i).setPrompt("Question " + i + ": what is " + i + " + 7?")
                .setReturnTokenIds(true)
                .setSampling(Sampling.newBuilder().setTemperature(i % 2).setSeed((long) i).setMaxTokens(60).build()).build();
    }

    private static InferenceService open(ServiceConfig config, EngineFaults faults) {
        return InferenceService.start(config, c -> engine(c, faults), true, line -> {});
    }

    private static TextEngine engine(ServiceConfig config, EngineFaults faults) {
        return faults.open(config.engine(Models.directory("glm-tiny", directory.resolve("models"))));
    }

    @ParameterizedTest
    @EnumSource(EngineFaults.Kind.class)
    void theNextOneGoesOn(EngineFaults.Kind kind) throws Exception {
        ServiceConfig config = config("faults-" + kind.name().toLowerCase(java.util.Locale.ROOT).replace('_', '-'));
        EngineFaults faults = new EngineFaults();
        InferenceService failing = open(config, faults);
        // Its topics are there by now.
        try (ClusterClient client = new ClusterClient(config)) {
            try (InferenceService service = failing) {
                CompletableFuture<Throwable> fatal = CompletableFuture.supplyAsync(() -> {
                    try {
                        return service.run();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                assertThat(status(service)).isEqualTo(200);
                faults.strike(kind, 10);
                IntStream.range(0, PROMPTS).forEach(i -> client.send(prompt("p", i)));
                assertThat(fatal.get(PATIENCE.toSeconds(), TimeUnit.SECONDS)).hasMessageContaining("the engine failed (engine: ");
                assertThat(status(service)).as("not ready").isEqualTo(503);
            }
            faults.letGo();
            String code = kind == EngineFaults.Kind.HANG ? "ENGINE_HUNG" : "ENGINE_FAILED";
            assertThat(alarms(client)).extracting(AlarmRecord::getCode).contains(code);
            assertThat(faults(client)).contains(code);
            try (InferenceService service = open(config, new EngineFaults())) {
                IntStream.range(0, PROMPTS).forEach(i -> client.send(prompt("again", i)));
                for (int i = 0; i < PROMPTS; i++) {
                    Completion resumed = client.await("p-" + i, PATIENCE);
                    Completion again = client.await("again-" + i, PATIENCE);
                    assertThat(resumed.getErrorCode()).isNull();
                    assertThat(resumed.getTokenIds()).isEqualTo(again.getTokenIds()).isNotEmpty();
                }
                ClusterClient.sleep(1_500);
                assertThat(client.readAll("topics.completions")).as("each once").hasSize(2 * PROMPTS);
                assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
            }
        }
    }

    private static int status(InferenceService service) throws Exception {
        try (HttpClient http = HttpClient.newHttpClient()) {
            return http.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + service.healthPort() + "/health/ready"))
                    .build(), HttpResponse.BodyHandlers.discarding()).statusCode();
        }
    }

    private static List<AlarmRecord> alarms(ClusterClient client) {
        WireReader<AlarmRecord> reader = new WireReader<>(Schemas.ALARM, null);
        return client.readAll("topics.faults").stream().map(record -> reader.read(record.value()).record()).toList();
    }

    private static List<String> faults(ClusterClient client) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        return client.readAll("topics.audit").stream().map(record -> reader.read(record.value()).record())
                .filter(leaf -> leaf.getEvent() == AuditEvent.FAULT).map(AttestationRecord::getErrorCode).toList();
    }
}

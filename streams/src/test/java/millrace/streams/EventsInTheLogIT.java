package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.integrity.NoteVerifier;
import millrace.integrity.WireReader;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Prompt;
import millrace.schemas.Schemas;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.embedded.EmbeddedCluster;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// What the engine's checks find, on a real broker: transactions, the second road, and the hold on what comes in.
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class EventsInTheLogIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

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

    private static ServiceConfig config(String name, String healthPort) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", healthPort));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
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

    private static Prompt prompt(String id) {
        return Prompt.newBuilder().setRequestId(id).setPrompt("question " + id).build();
    }

    private static List<AlarmRecord> alarms(ClusterClient client) {
        WireReader<AlarmRecord> reader = new WireReader<>(Schemas.ALARM, null);
        return client.readAll("topics.faults").stream().map(record -> reader.read(record.value()).record()).toList();
    }

    private static List<AttestationRecord> leaves(ClusterClient client) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        return client.readAll("topics.audit").stream().map(record -> reader.read(record.value()).record()).toList();
    }

    @Test
    void stopsWithTheFaultInTheLogAndAlarmsBesideItWhenTheEngineRefuses() throws Exception {
        ServiceConfig config = config("refused", "-1");
        WatchedEngine engine = new WatchedEngine();
        try (InferenceService service = InferenceService.start(config, c -> engine, true, line -> {});
                ClusterClient client = new ClusterClient(config)) {
            CompletableFuture<@Nullable Throwable> end = run(service);
            client.send(prompt("a"));
            client.await("a", PATIENCE);
            engine.post(Kind.WEIGHT, Result.REFUSED, "WEIGHT_REPEATED", 1);
            engine.failure = "integrity: WEIGHT_REPEATED: damaged twice";
            assertThat(end.get(30, TimeUnit.SECONDS)).hasMessage("the engine failed (integrity: WEIGHT_REPEATED: damaged twice);"
                    + " prompts in flight stay pending and are resumed at the next start");
        }
        try (InferenceService service = InferenceService.start(config, c -> new NoOpEngine(), true, line -> {});
                ClusterClient client = new ClusterClient(config)) {
            client.send(prompt("b"));
            client.await("b", PATIENCE);
            assertThat(alarms(client)).extracting(AlarmRecord::getKind, AlarmRecord::getResult, AlarmRecord::getCode,
                            AlarmRecord::getSuspectFromStep)
                    .containsExactly(org.assertj.core.groups.Tuple.tuple("WEIGHT", "refused", "WEIGHT_REPEATED", 1L),
                            org.assertj.core.groups.Tuple.tuple("ENGINE", "refused", "ENGINE_FAILED", -1L));
            List<AttestationRecord> leaves = leaves(client);
            assertThat(leaves).extracting(AttestationRecord::getEvent).containsExactly(AuditEvent.MODEL_LOAD, AuditEvent.BUILD,
                    AuditEvent.INFERENCE, AuditEvent.FAULT, AuditEvent.MODEL_LOAD, AuditEvent.BUILD, AuditEvent.INFERENCE);
            assertThat(leaves.get(3).getSuspect().getFromSeq()).isEqualTo(2);
            assertThat(leaves.get(3).getSuspect().getToSeq()).isEqualTo(2);
            client.assertExactlyOnce(List.of("a", "b"));
            ClusterClient.sleep(1_500);
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
        }
    }

    /// The leaf of an event is taken back with its transaction and written by the next; its alarm never waits for either.
    @Test
    void writesAnEventAgainWhoseTransactionWasAborted() throws Exception {
        ServiceConfig config = config("aborted", "-1");
        WatchedEngine[] self = new WatchedEngine[1];
        WatchedEngine engine = new WatchedEngine(number -> {
            if (number == 2) {
                self[0].post(Kind.COMPUTE, Result.REPAIRED, "ENGINE_NUMERIC", IntegrityEvent.NO_STEP);
            } else if (number == 3) {
                throw new IllegalStateException("the third prompt breaks the stream thread");
            }
        });
        self[0] = engine;
        try (InferenceService service = InferenceService.start(config, c -> engine, true, line -> {});
                ClusterClient client = new ClusterClient(config)) {
            CompletableFuture<@Nullable Throwable> end = run(service);
            List<String> ids = List.of("a", "b", "c", "d");
            ids.forEach(id -> client.send(prompt(id)));
            ids.forEach(id -> client.await(id, PATIENCE));
            client.assertExactlyOnce(ids);
            ClusterClient.sleep(1_500);
            assertThat(leaves(client)).filteredOn(leaf -> leaf.getEvent() == AuditEvent.FAULT)
                    .extracting(AttestationRecord::getErrorCode).containsExactly("ENGINE_NUMERIC");
            assertThat(alarms(client)).extracting(AlarmRecord::getCode).containsExactly("ENGINE_NUMERIC");
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
            assertThat(end).isNotDone();
        }
    }

    @Test
    void takesNothingInAndIsNotReadyWhileAFaultIsRepaired() throws Exception {
        ServiceConfig config = config("held", "0");
        WatchedEngine engine = new WatchedEngine();
        try (InferenceService service = InferenceService.start(config, c -> engine, true, line -> {});
                ClusterClient client = new ClusterClient(config)) {
            assertThat(down(service)).isEmpty();
            engine.admitting = false;
            ClusterClient.sleep(500);
            client.send(prompt("a"));
            ClusterClient.sleep(1_500);
            assertThat(engine.integrity().admitting()).isFalse();
            assertThat(down(service)).containsExactly("integrity");
            assertThat(client.answered()).as("it waits in its topic").isZero();
            engine.admitting = true;
            client.await("a", PATIENCE);
            assertThat(down(service)).isEmpty();
        }
    }

    /// The checks of readiness that are not up.
    private static List<String> down(InferenceService service) throws Exception {
        try (HttpClient http = HttpClient.newHttpClient()) {
            URI ready = URI.create("http://127.0.0.1:" + service.healthPort() + "/health/ready");
            String body = http.send(HttpRequest.newBuilder(ready).build(), HttpResponse.BodyHandlers.ofString()).body();
            List<String> down = new java.util.ArrayList<>();
            for (JsonNode check : new ObjectMapper().readTree(body).get("checks")) {
                if (check.get("status").asText().equals("DOWN")) {
                    down.add(check.get("name").asText());
                }
            }
            return down;
        }
    }
}

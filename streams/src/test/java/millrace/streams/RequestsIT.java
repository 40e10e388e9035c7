package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.integrity.NoteVerifier;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.cli.Main;
import millrace.streams.embedded.EmbeddedCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// Cancellations and quotas on a real broker, seen from outside.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class RequestsIT {
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

    /// Answers at once, but what begins with "hold": that never ends by itself.
    private static final class HoldingEngine implements TextEngine {
        private final NoOpEngine others = new NoOpEngine();
        private final Set<PreparedPrompt> held = ConcurrentHashMap.newKeySet();

        @Override
        public ModelCard card() {
            return others.card();
        }

        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return others.prepare(request);
        }

        @Override
        public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            if (!prompt.text().startsWith("hold")) {
                return others.submit(prompt, listener);
            }
            held.add(prompt);
            AtomicBoolean ended = new AtomicBoolean();
            return () -> {
                if (ended.compareAndSet(false, true)) {
                    held.remove(prompt);
                    listener.onEnd(new GenerationResult("so far", List.of(1), FinishReason.CANCELLED,
                            new Usage(prompt.ids().length, 1, 0), Timings.NONE, null, null, Transcript.NONE));
                }
            };
        }

        @Override
        public int load() {
            return others.load() + held.size();
        }

        @Override
        public void close() {
            others.close();
        }
    }

    private static ServiceConfig config(String name, Map<String, String> more) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "-1", "shutdown.drain.ms", "0"));
        settings.putAll(OwnTopics.of(name));
        settings.putAll(more);
        return ServiceConfig.of(settings);
    }

    private static InferenceService start(ServiceConfig config) {
        return InferenceService.start(config, c -> new HoldingEngine(), true, line -> {});
    }

    private static Prompt prompt(String id, String text) {
        return Prompt.newBuilder().setRequestId(id).setTenant("acme").setPrompt(text).build();
    }

    /// What a user types.
    private static String millrace(ServiceConfig config, String... arguments) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of("-b", config.kafka().get("bootstrap.servers"), "--registry", config.registry().get("schema.registry.url"),
                "-D", "topics.cancels=" + config.string("topics.cancels")));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out, true, StandardCharsets.UTF_8));
        line.setErr(new PrintWriter(out, true, StandardCharsets.UTF_8));
        int code = line.execute(all.toArray(String[]::new));
        String text = out.toString(StandardCharsets.UTF_8);
        assertThat(code).as(text).isZero();
        return text;
    }

    private static void isCancelled(Completion completion, String text) {
        assertThat(completion.getFinishReason()).isEqualTo(millrace.schemas.FinishReason.cancelled);
        assertThat(completion.getText()).isEqualTo(text);
    }

    private static void auditIsClean(ClusterClient client, String vkey) {
        assertThat(client.audit(NoteVerifier.parse(vkey)).verdict().ok()).isTrue();
    }

    @Test
    void cancellationsReachAFullEngineAndHoldOverARestart() throws Exception {
        ServiceConfig config = config("cancels", Map.of("inflight.max", "2"));
        List<String> ids = new ArrayList<>(List.of("h-1", "h-2", "h-3", "r-4"));
        String vkey;
        try (InferenceService service = start(config); ClusterClient client = new ClusterClient(config)) {
            vkey = service.vkey();
            for (String id : List.of("h-1", "h-2", "h-3")) {
                client.send(prompt(id, "hold " + id));
            }
            client.send(prompt("r-4", "an ordinary prompt"));
            String said = millrace(config, "cancel", "h-1", "--tenant", "acme");
            assertThat(said).isEqualTo("cancellation of h-1 at cancels.cancels-0@0" + System.lineSeparator());
            isCancelled(client.await("h-1", PATIENCE), "so far");
            millrace(config, "cancel", "h-2");
            millrace(config, "cancel", "h-2", "--tenant", "acme");
            isCancelled(client.await("h-2", PATIENCE), "so far");
            assertThat(client.await("r-4", PATIENCE).getFinishReason()).isEqualTo(millrace.schemas.FinishReason.stop);
            assertThat(client.answer("h-3")).as("nobody has cancelled it, whoever else was").isNull();
        }
        millrace(config, "cancel", "h-3", "--tenant", "acme");
        millrace(config, "cancel", "h-5", "--tenant", "acme", "--key", "h-5");
        try (InferenceService service = start(config); ClusterClient client = new ClusterClient(config)) {
            isCancelled(client.await("h-3", PATIENCE), "so far");
            client.send(prompt("h-5", "hold what was cancelled before it came"));
            isCancelled(client.await("h-5", PATIENCE), "");
            ids.add("h-5");
            client.assertExactlyOnce(ids);
            auditIsClean(client, vkey);
            assertThat(service.vkey()).isEqualTo(vkey);
        }
    }

    @Test
    void quotasRefuseWithATimeAndTakeTheSamePromptLater() throws Exception {
        Path file = Files.writeString(directory.resolve("quotas.properties"), "acme.inflight=1\n");
        ServiceConfig config = config("quotas", Map.of("quotas.file", file.toString()));
        try (InferenceService service = start(config); ClusterClient client = new ClusterClient(config)) {
            client.send(prompt("h-1", "hold"));
            client.send(prompt("r-2", "an ordinary prompt"));
            Completion refused = client.await("r-2", PATIENCE);
            assertThat(refused.getErrorCode()).isEqualTo("QUOTA_INFLIGHT");
            assertThat(refused.getRetryAfterMs()).isPositive();

            Files.writeString(file, "acme.inflight=2\nacme.context=400\n");
            long until = System.nanoTime() + PATIENCE.toNanos();
            // The file is looked at each second; until then the answer stays what it was.
            while (client.answer("r-2").getFinishReason() != millrace.schemas.FinishReason.stop) {
                assertThat(System.nanoTime()).isLessThan(until);
                client.send(prompt("r-2", "an ordinary prompt"));
                ClusterClient.sleep(250);
            }
            client.send(prompt("r-3", "x".repeat(200)));
            assertThat(client.await("r-3", PATIENCE).getErrorCode()).isEqualTo("QUOTA_CONTEXT");
            millrace(config, "cancel", "h-1", "--tenant", "acme");
            isCancelled(client.await("h-1", PATIENCE), "so far");
            long tries = client.readAll("topics.prompts").size();
            assertThat(tries).isGreaterThanOrEqualTo(4);
            auditIsClean(client, service.vkey());
        }
    }
}

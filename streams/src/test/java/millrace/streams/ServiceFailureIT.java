package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/// What the service does when a part of it breaks while it serves.
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ServiceFailureIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "-1"));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private static InferenceService start(ServiceConfig config, TextEngine engine) {
        return InferenceService.start(config, c -> engine, true, line -> {});
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

    /// Answers like the no-op engine, but for the n-th prompt, at which it fails in the given way.
    private static final class FaultyEngine implements TextEngine {
        private enum Fault { THROWS, ENGINE_FAILED }

        private final NoOpEngine sound = new NoOpEngine();
        private final AtomicInteger submitted = new AtomicInteger();
        private final int at;
        private final Fault fault;

        FaultyEngine(int at, Fault fault) {
            this.at = at;
            this.fault = fault;
        }

        @Override
        public ModelCard card() {
            return sound.card();
        }

        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return sound.prepare(request);
        }

        @Override
        public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            if (submitted.incrementAndGet() != at) {
                return sound.submit(prompt, listener);
            }
            if (fault == Fault.THROWS) {
                throw new IllegalStateException("the " + at + "th prompt breaks the stream thread");
            }
            listener.onEnd(ScriptedEngine.failed("ENGINE_FAILED", "the step thread died"));
            return () -> {};
        }

        @Override
        public int load() {
            return sound.load();
        }

        @Override
        public void close() {
            sound.close();
        }
    }

    @Test
    void buildsKafkaStreamsAnewWhenAStreamThreadDied() throws Exception {
        ServiceConfig config = config("thread");
        try (InferenceService service = start(config, new FaultyEngine(3, FaultyEngine.Fault.THROWS));
                ClusterClient client = new ClusterClient(config)) {
            CompletableFuture<@Nullable Throwable> end = run(service);
            List<String> ids = List.of("a", "b", "c", "d", "e");
            ids.forEach(id -> client.send(prompt(id)));
            ids.forEach(id -> assertThat(client.await(id, PATIENCE).getText()).isEqualTo("question " + id));
            client.assertExactlyOnce(ids);
            ClusterClient.sleep(1_500);
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
            assertThat(end).isNotDone();
            service.stop();
            assertThat(end.get(20, TimeUnit.SECONDS)).isNull();
        }
    }

    @Test
    void stopsWhenTheEngineFailedAndAnswersAtTheNextStart() throws Exception {
        ServiceConfig config = config("engine");
        List<String> ids = List.of("a", "b", "c");
        try (InferenceService service = start(config, new FaultyEngine(2, FaultyEngine.Fault.ENGINE_FAILED));
                ClusterClient client = new ClusterClient(config)) {
            CompletableFuture<@Nullable Throwable> end = run(service);
            ids.forEach(id -> client.send(prompt(id)));
            assertThat(end.get(30, TimeUnit.SECONDS))
                    .hasMessage("the engine failed; prompts in flight stay pending and are resumed at the next start");
        }
        try (InferenceService service = start(config, new NoOpEngine()); ClusterClient client = new ClusterClient(config)) {
            ids.forEach(id -> client.await(id, PATIENCE));
            client.assertExactlyOnce(ids);
            ClusterClient.sleep(1_500);
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
        }
    }
}

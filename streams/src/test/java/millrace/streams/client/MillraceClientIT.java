package millrace.streams.client;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The client on a real broker, with a service that the test plays.
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class MillraceClientIT {
    private static EmbeddedCluster cluster;

    @BeforeAll
    static void start() {
        cluster = EmbeddedCluster.ephemeral();
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    /// Topics of a test's own.
    private static ServiceConfig config(EmbeddedCluster on, String name, List<String> topics) throws Exception {
        Map<String, String> settings = new HashMap<>(on.serviceConfig());
        List.of("prompts", "completions", "deltas", "cancels").forEach(use -> settings.put("topics." + use, name + "." + use));
        ServiceConfig config = ServiceConfig.of(settings);
        ClientScene.createTopics(config, 2, topics);
        return config;
    }

    private static ServiceConfig config(String name) throws Exception {
        return config(cluster, name, List.of("prompts", "completions", "deltas", "cancels"));
    }

    private static Completion get(PendingAnswer answer) throws Exception {
        return answer.completion().get(30, TimeUnit.SECONDS);
    }

    @Test
    void givesEachRequestItsOwnCompletionAndIgnoresAllOthers() throws Exception {
        ServiceConfig config = config("own");
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config));
                MillraceClient other = MillraceClient.open(ClientConfig.of(config))) {
            Prompt tenants = ClientScene.prompt("same");
            tenants.setTenant("acme");
            PendingAnswer first = client.send(ClientScene.prompt("same"));
            PendingAnswer ofTenant = client.send(tenants);
            PendingAnswer elsewhere = other.send(ClientScene.prompt("elsewhere"));
            byte[] key = "same".getBytes(StandardCharsets.UTF_8);
            int partition = first.sent().get().partition();
            scene.raw("completions", partition, key, new byte[] {1, 2, 3});
            scene.raw("completions", partition, key, new byte[0]);
            scene.raw("completions", partition, null, new byte[9]);
            scene.complete(elsewhere, "for the other");
            scene.complete(ofTenant, "for acme");
            scene.complete(first, "for nobody's tenant");
            scene.complete(first, "once more");
            assertThat(get(first).getText()).isEqualTo("for nobody's tenant");
            assertThat(get(ofTenant).getText()).isEqualTo("for acme");
            assertThat(get(elsewhere).getText()).isEqualTo("for the other");
            assertThat(client.waiting()).isZero();
            // In the same partition: once it is here, everything above has been read.
            PendingAnswer behind = client.send(ClientScene.prompt("behind"), SendOptions.DEFAULT.withKey("same"));
            scene.raw("completions", partition, key, scene.encoded(behind, "behind"));
            assertThat(get(behind).getText()).isEqualTo("behind");
            PendingAnswer again = client.send(ClientScene.prompt("same"));
            scene.complete(again, "a new request of an old name");
            assertThat(get(again).getText()).isEqualTo("a new request of an old name");
        }
    }

    @Test
    void refusesWhatItCouldNotRecognize() throws Exception {
        ServiceConfig config = config("refused");
        try (MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            client.send(ClientScene.prompt("twice"));
            assertThatThrownBy(() -> client.send(ClientScene.prompt("twice")))
                    .hasMessage("request_id twice: expected one that is not in flight here, got one that is; wait for its completion,"
                            + " or use a new id");
            assertThatThrownBy(() -> client.send(ClientScene.prompt("with blank")))
                    .hasMessage("request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 10 characters, not all of these");
            Prompt bad = ClientScene.prompt("x");
            bad.setTenant("");
            assertThatThrownBy(() -> client.send(bad)).hasMessageStartingWith("tenant: expected 1 to 64 characters");
            assertThatThrownBy(() -> client.sendAll(ClientScene.prompt("x"), 0)).hasMessage("n: expected at least 1, got 0");
            assertThat(client.waiting()).isEqualTo(1);
        }
    }

    @Test
    void endsTheWaitWithAReason() throws Exception {
        ServiceConfig config = config("ends");
        MillraceClient client = MillraceClient.open(ClientConfig.of(config));
        PendingAnswer late = client.send(ClientScene.prompt("late"), SendOptions.DEFAULT.withTimeout(Duration.ofMillis(200)));
        assertThatThrownBy(() -> get(late)).isInstanceOf(ExecutionException.class).cause().isInstanceOf(ClientException.class)
                .hasMessage("CLIENT_TIMEOUT: request late: no completion within PT0.2S; is the service running? The prompt may still be"
                        + " answered");
        PendingAnswer dropped = client.send(ClientScene.prompt("dropped"));
        dropped.completion().cancel(true);
        assertThat(client.waiting()).as("who does not wait any more is forgotten").isZero();
        Prompt huge = ClientScene.prompt("huge");
        huge.setPrompt("x".repeat(2_000_000));
        assertThatThrownBy(() -> get(client.send(huge))).cause().hasMessageStartingWith("CLIENT_SEND_FAILED: request huge: topic ends.prompts"
                + " did not acknowledge it (");
        PendingAnswer open = client.send(ClientScene.prompt("open"));
        client.close();
        assertThatThrownBy(() -> get(open)).cause()
                .hasMessage("CLIENT_CLOSED: the client was closed; a prompt that was sent is answered all the same");
        assertThatThrownBy(() -> client.send(ClientScene.prompt("after"))).hasMessageStartingWith("CLIENT_CLOSED: ");
        client.close();
        Map<String, String> missing = new HashMap<>(cluster.serviceConfig());
        missing.put("topics.completions", "nowhere");
        assertThatThrownBy(() -> MillraceClient.open(ClientConfig.of(missing)))
                .hasMessageStartingWith("CLIENT_OPEN: topic nowhere: expected one that exists");
    }

    /// In sequence, what is void is told, holes are told, and nothing comes behind the completion.
    @Test
    void hearsPreviewsInOrderUntilTheCompletion() throws Exception {
        ServiceConfig config = config("heard");
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            List<String> heard = new CopyOnWriteArrayList<>();
            PendingAnswer answer = client.send(ClientScene.prompt("p"), new DeltaListener() {
                @Override
                public void onDelta(Delta delta) {
                    heard.add(delta.getKind() + delta.getText());
                }

                @Override
                public void onRestart() {
                    heard.add("restart");
                }

                @Override
                public void onGap(long count) {
                    heard.add("gap " + count);
                }
            });
            scene.preview(answer, 5, 0, DeltaKind.CONTENT, "a");
            scene.preview(answer, 5, 1, DeltaKind.CONTENT, "b");
            scene.preview(answer, 5, 1, DeltaKind.CONTENT, "b");
            scene.preview(answer, 5, 2, DeltaKind.RESTART, "");
            scene.preview(answer, 5, 3, DeltaKind.CONTENT, "A");
            scene.preview(answer, 7, 0, DeltaKind.CONTENT, "x");
            scene.preview(answer, 5, 4, DeltaKind.CONTENT, "of the older attempt");
            scene.raw("deltas", answer.sent().get().partition(), "p".getBytes(StandardCharsets.UTF_8), new byte[] {0, 0, 0, 0, 99});
            scene.preview(answer, 7, 3, DeltaKind.REASONING, "y");
            scene.preview(answer, 7, 4, DeltaKind.END, "");
            long until = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (!heard.contains("END") && System.nanoTime() < until) {
                Thread.sleep(5);
            }
            scene.complete(answer, "xy");
            assertThat(get(answer).getText()).isEqualTo("xy");
            assertThat(heard).containsExactly("CONTENTa", "CONTENTb", "restart", "CONTENTA", "restart", "CONTENTx", "gap 2", "REASONINGy",
                    "END");
        }
    }

    @Test
    void aListenerThatSleepsOrFailsDelaysNobodyElse() throws Exception {
        ServiceConfig config = config("slow");
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            CountDownLatch wake = new CountDownLatch(1);
            PendingAnswer slow = client.send(ClientScene.prompt("slow"), delta -> {
                try {
                    wake.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            PendingAnswer failing = client.send(ClientScene.prompt("failing"), delta -> {
                throw new IllegalStateException("of the listener");
            });
            PendingAnswer quick = client.send(ClientScene.prompt("quick"));
            scene.preview(slow, 1, 0, DeltaKind.CONTENT, "a");
            scene.preview(failing, 1, 0, DeltaKind.CONTENT, "a");
            scene.complete(slow, "slow");
            scene.complete(failing, "failing");
            scene.complete(quick, "quick");
            assertThat(get(quick).getText()).isEqualTo("quick");
            assertThat(get(failing).getText()).isEqualTo("failing");
            wake.countDown();
            assertThat(get(slow).getText()).isEqualTo("slow");
        }
    }

    @Test
    void doesWithoutPreviewsWhereThereIsNoTopicForThem() throws Exception {
        ServiceConfig config = config(cluster, "without", List.of("prompts", "completions"));
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            PendingAnswer answer = client.send(ClientScene.prompt("p"), delta -> {});
            scene.complete(answer, "all the same");
            assertThat(get(answer).getText()).isEqualTo("all the same");
        }
    }

    @Test
    void takesAnswersFromPartitionsThatAreAddedLater() throws Exception {
        ServiceConfig config = config("grown");
        Map<String, String> quick = Map.of("kafka.metadata.max.age.ms", "300");
        try (ClientScene scene = new ClientScene(config.with(quick));
                MillraceClient client = MillraceClient.open(ClientConfig.of(config.with(quick)));
                Admin admin = new KafkaClients(config).admin()) {
            admin.createPartitions(Map.of("grown.prompts", NewPartitions.increaseTo(8), "grown.completions", NewPartitions.increaseTo(8)))
                    .all().get(30, TimeUnit.SECONDS);
            List<PendingAnswer> answers = new ArrayList<>();
            long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
            while (answers.stream().noneMatch(a -> a.sent().join().partition() > 1) && System.nanoTime() < until) {
                answers.add(client.send(ClientScene.prompt("p" + answers.size())));
                Thread.sleep(20);
            }
            for (PendingAnswer answer : answers) {
                scene.complete(answer, "in " + answer.sent().get().partition());
            }
            for (PendingAnswer answer : answers) {
                assertThat(get(answer).getText()).isEqualTo("in " + answer.sent().get().partition());
            }
        }
    }

    @Test
    void waitsForManyAtOnceAndThroughARestartOfTheBroker(@TempDir Path directory) throws Exception {
        int broker = freePort();
        int registry = freePort();
        EmbeddedCluster own = EmbeddedCluster.start(directory, "127.0.0.1", broker, registry);
        ServiceConfig config = config(own, "many", List.of("prompts", "completions", "deltas"));
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            List<PendingAnswer> answers =
                    IntStream.range(0, 10_000).mapToObj(i -> client.send(ClientScene.prompt("q" + i))).toList();
            for (PendingAnswer answer : answers) {
                answer.sent().get(60, TimeUnit.SECONDS);
            }
            assertThat(client.waiting()).isEqualTo(10_000);
            scene.complete(answers.getFirst(), "before");
            assertThat(get(answers.getFirst()).getText()).isEqualTo("before");
            own.close();
            own = EmbeddedCluster.start(directory, "127.0.0.1", broker, registry);
            for (int i = 1; i < 200; i++) {
                scene.complete(answers.get(i), "after " + i);
            }
            for (int i = 1; i < 200; i++) {
                assertThat(answers.get(i).completion().get(60, TimeUnit.SECONDS).getText()).isEqualTo("after " + i);
            }
            assertThat(client.waiting()).isEqualTo(9_800);
        } finally {
            own.close();
        }
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    @Test
    void sendsOnePromptForEachAnswerOfSeveral() throws Exception {
        ServiceConfig config = config("several");
        try (ClientScene scene = new ClientScene(config); MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            Prompt prompt = ClientScene.prompt("r");
            prompt.setSampling(Sampling.newBuilder().setSeed(40L).setTemperature(1f).build());
            assertThat(MillraceClient.copies(prompt, 3)).extracting(Prompt::getRequestId, p -> p.getSampling().getSeed())
                    .containsExactly(org.assertj.core.groups.Tuple.tuple("r.0", 40L), org.assertj.core.groups.Tuple.tuple("r.1", 41L),
                            org.assertj.core.groups.Tuple.tuple("r.2", 42L));
            assertThat(prompt.getRequestId()).as("the original is left as it was").isEqualTo("r");
            List<PendingAnswer> answers = client.sendAll(prompt, 3);
            assertThat(answers.stream().map(a -> a.sent().join().partition()).distinct()).as("one partition").hasSize(1);
            for (PendingAnswer answer : answers) {
                scene.raw("completions", answer.sent().get().partition(), "r".getBytes(StandardCharsets.UTF_8),
                        scene.encoded(answer, "to " + answer.requestId()));
            }
            for (PendingAnswer answer : answers) {
                assertThat(get(answer).getText()).isEqualTo("to " + answer.requestId());
            }
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.Engine;
import millrace.integrity.NoteVerifier;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.bench.PacedEngine;
import millrace.streams.cli.Main;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.DeltaListener;
import millrace.streams.client.MillraceClient;
import millrace.streams.client.PendingAnswer;
import millrace.streams.registry.AvroDecoder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// Previews on a real broker, from the engine to a client.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class PreviewsIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of(
                "application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "2", "health.port", "-1",
                "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "shutdown.drain.ms", "0"));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private static String words(int n) {
        return IntStream.range(0, n).mapToObj(i -> "w" + i).collect(Collectors.joining(" "));
    }

    /// What a client has on its screen.
    private static final class Screen implements DeltaListener {
        final List<Delta> deltas = new CopyOnWriteArrayList<>();
        final StringBuffer content = new StringBuffer();
        final StringBuffer reasoning = new StringBuffer();
        volatile int restarts;
        volatile long lost;

        @Override
        public void onDelta(Delta delta) {
            deltas.add(delta);
            (delta.getKind() == DeltaKind.REASONING ? reasoning : content).append(delta.getText());
        }

        @Override
        public void onRestart() {
            restarts++;
            content.setLength(0);
            reasoning.setLength(0);
        }

        @Override
        public void onGap(long count) {
            lost += count;
        }

        void awaitDeltas(int count) throws InterruptedException {
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (deltas.size() < count) {
                assertThat(System.nanoTime()).as("%d of %d deltas", deltas.size(), count).isLessThan(until);
                Thread.sleep(2);
            }
        }
    }

    private static Completion get(PendingAnswer answer) throws Exception {
        return answer.completion().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private static Map<String, List<Delta>> previewsById(ClusterClient client) {
        AvroDecoder<Delta> decoder = new AvroDecoder<>(client.registry(), Delta.class);
        return client.readAll("topics.deltas").stream().map(record -> decoder.decode(record.value()))
                .collect(Collectors.groupingBy(Delta::getRequestId));
    }

    @Test
    void togetherAreTheCompletionsText() throws Exception {
        ServiceConfig config = config("together");
        ObjectMapper json = new ObjectMapper();
        List<String> questions = Models.questions("glm-tiny").subList(0, 12);
        try (InferenceService service = InferenceService.start(config,
                        c -> Engine.open(c.engine(Models.directory("glm-tiny", directory.resolve("models")))), true, line -> {});
                MillraceClient client = MillraceClient.open(ClientConfig.of(config)); ClusterClient outside = new ClusterClient(config)) {
            Map<PendingAnswer, Screen> screens = new HashMap<>();
            List<PendingAnswer> quiet = new ArrayList<>();
            for (int i = 0; i < questions.size(); i++) {
                String question = json.readTree(questions.get(i)).get("prompt").asText();
                Prompt prompt = Prompt.newBuilder().setRequestId("q" + i)
                        .setMessages(List.of(new Message("user", question, null, null, null, List.of()))).build();
                if (i % 3 == 2) {
                    quiet.add(client.send(prompt));
                } else {
                    Screen screen = new Screen();
                    screens.put(client.send(prompt, screen), screen);
                }
            }
            for (PendingAnswer answer : quiet) {
                get(answer);
            }
            Map<String, Completion> completions = new HashMap<>();
            for (PendingAnswer answer : screens.keySet()) {
                completions.put(answer.requestId(), get(answer));
            }
            Map<String, List<Delta>> previews = previewsById(outside);
            assertThat(previews.keySet()).as("nothing of those that did not ask").isEqualTo(completions.keySet());
            previews.forEach((id, deltas) -> {
                Completion completion = completions.get(id);
                assertThat(deltas).extracting(Delta::getSeq).as("in order and without a hole")
                        .containsExactlyElementsOf(IntStream.range(0, deltas.size()).mapToObj(Long::valueOf).toList());
                assertThat(deltas).extracting(Delta::getAttempt).containsOnly(deltas.getFirst().getAttempt());
                assertThat(deltas.getLast().getKind()).isEqualTo(DeltaKind.END);
                assertThat(deltas.getLast().getTokens()).isEqualTo(completion.getUsage().getCompletionTokens());
                assertThat(text(deltas, DeltaKind.CONTENT)).isEqualTo(
                        completion.getReply() == null ? completion.getText() : completion.getReply().getContent());
                assertThat(text(deltas, DeltaKind.REASONING)).isEqualTo(
                        completion.getReply() == null || completion.getReply().getReasoningContent() == null
                                ? "" : completion.getReply().getReasoningContent());
            });
            onTheCommandLine(config, completions);
            for (ConsumerRecord<byte[], byte[]> record : outside.readAll("topics.deltas")) {
                assertThat(record.headers().lastHeader("millrace-preview").value()).asString().isEqualTo("unattested");
            }
            ClusterClient.sleep(1_500);
            assertThat(outside.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
        }
    }

    /// `consume --deltas` shows the same, by request.
    private static void onTheCommandLine(ServiceConfig config, Map<String, Completion> completions) throws Exception {
        StringWriter out = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(out));
        int exit = line.execute("consume", "--deltas", "--from-beginning", "--json", "--max", "" + completions.size(),
                "-b", config.kafka().get("bootstrap.servers"), "--registry", config.registry().get("schema.registry.url"),
                "-D", "topics.deltas=" + config.string("topics.deltas"));
        assertThat(exit).isZero();
        ObjectMapper json = new ObjectMapper();
        Map<String, StringBuilder> shown = new HashMap<>();
        for (String each : out.toString().lines().toList()) {
            JsonNode node = json.readTree(each);
            assertThat(node.get("kind").asText()).isIn("CONTENT", "REASONING", "TOOL_CALL", "END");
            StringBuilder text = shown.computeIfAbsent(node.get("request_id").asText(), id -> new StringBuilder());
            text.append(node.get("kind").asText().equals("CONTENT") ? node.get("text").asText() : "");
        }
        assertThat(shown.keySet()).isEqualTo(completions.keySet());
        completions.forEach((id, completion) -> assertThat(shown.get(id)).as(id).hasToString(
                completion.getReply() == null ? completion.getText() : completion.getReply().getContent()));
    }

    private static String text(List<Delta> deltas, DeltaKind kind) {
        return deltas.stream().filter(d -> d.getKind() == kind).map(Delta::getText).collect(Collectors.joining());
    }

    @Test
    void anotherRunVoidsWhatWasShown() throws Exception {
        ServiceConfig config = config("another");
        Screen screen = new Screen();
        InferenceService first = InferenceService.start(config, c -> new PacedEngine(Duration.ofMillis(20)), true, line -> {});
        try (MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            Prompt prompt = Prompt.newBuilder().setRequestId("p").setPrompt(words(200)).build();
            PendingAnswer answer = client.send(prompt, screen);
            screen.awaitDeltas(20);
            first.close();
            assertThat(answer.completion()).isNotDone();
            assertThat(screen.deltas).extracting(Delta::getKind).as("no completion is on its way").doesNotContain(DeltaKind.END);
            long before = screen.deltas.getLast().getAttempt();
            try (InferenceService second = InferenceService.start(config, c -> new PacedEngine(Duration.ofMillis(2)), true, line -> {})) {
                assertThat(get(answer).getText()).isEqualTo(words(200));
                assertThat(second.card()).isNotNull();
            }
            assertThat(screen.restarts).isEqualTo(1);
            assertThat(screen.deltas.getLast().getAttempt()).isGreaterThan(before);
            assertThat(words(200)).startsWith(screen.content.toString());
        }
    }

    @Test
    void aCancelledPromptHasShownWhatItsCompletionSays() throws Exception {
        ServiceConfig config = config("cancelled");
        Screen screen = new Screen();
        try (InferenceService service = InferenceService.start(config, c -> new PacedEngine(Duration.ofMillis(10)), true, line -> {});
                MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
            PendingAnswer answer = client.send(Prompt.newBuilder().setRequestId("p").setPrompt(words(2_000)).build(), screen);
            screen.awaitDeltas(10);
            answer.cancel().get(30, TimeUnit.SECONDS);
            Completion completion = get(answer);
            assertThat(completion.getFinishReason()).isEqualTo(FinishReason.cancelled);
            assertThat(completion.getText()).startsWith("w0 w1").startsWith(screen.content.toString());
            assertThat(service.card()).isNotNull();
        }
    }

    @Test
    void completionsGoOnWithoutTheirTopic() throws Exception {
        ServiceConfig config = config("gone");
        try (InferenceService service = InferenceService.start(config, c -> new PacedEngine(Duration.ofMillis(2)), true, line -> {});
                MillraceClient client = MillraceClient.open(ClientConfig.of(config)); Admin admin = new KafkaClients(config).admin()) {
            Screen before = new Screen();
            assertThat(get(client.send(Prompt.newBuilder().setRequestId("a").setPrompt(words(20)).build(), before)).getText())
                    .isEqualTo(words(20));
            assertThat(before.deltas).isNotEmpty();
            admin.deleteTopics(List.of("gone.deltas")).all().get(30, TimeUnit.SECONDS);
            for (int i = 0; i < 8; i++) {
                Prompt prompt = Prompt.newBuilder().setRequestId("p" + i).setPrompt(words(100)).build();
                assertThat(get(client.send(prompt, new Screen())).getText()).isEqualTo(words(100));
            }
            assertThat(service.card()).isNotNull();
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import millrace.engine.Device;
import millrace.engine.Engine;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.embedded.EmbeddedCluster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Answers of a service computed again by the auditor: in another process, with another count of threads and another
/// backend.
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class ReplayIT {
    private static final int PROMPTS = 260;
    private static final Duration PATIENCE = Duration.ofMinutes(3);
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

    private static ServiceConfig config(String name) {
        return config(name, Map.of());
    }

    private static ServiceConfig config(String name, Map<String, String> more) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "2",
                "health.port", "-1", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "engine.threads", "2",
                "intake.default.max.tokens", "40", "integrity.proofs", "true"));
        settings.putAll(OwnTopics.of(name));
        settings.putAll(more);
        return ServiceConfig.of(settings);
    }

    private static TextEngine glmTiny(ServiceConfig config) {
        return Engine.open(config.engine(Models.directory(config.string("engine.model"), directory.resolve("models"))));
    }

    /// All that a prompt can vary: its form, its sampling, its length, its stop strings, its deadline, its tenant.
    private static Prompt prompt(int number, String question, SplittableRandom random) {
        Prompt.Builder prompt = Prompt.newBuilder().setRequestId("r-" + number).setReturnTokenIds(random.nextBoolean());
        switch (random.nextInt(3)) {
            case 0 -> prompt.setPrompt(question);
            case 1 -> prompt.setTokenIds(random.ints(random.nextInt(2, 90), 10, 200).boxed().toList());
            default -> prompt.setMessages(List.of(
                    Message.newBuilder().setRole("user").setContent(question).setToolCalls(List.of()).build()));
        }
        if (random.nextInt(4) > 0) {
            Sampling.Builder sampling = Sampling.newBuilder().setTemperature((float) random.nextDouble(0, 2))
                    .setTopP((float) random.nextDouble(0.3, 1)).setTopK(random.nextInt(50))
                    .setMinP((float) random.nextDouble(0, 0.1)).setRepetitionPenalty((float) random.nextDouble(0.9, 1.3));
            if (random.nextBoolean()) {
                sampling.setSeed(random.nextLong());
            }
            if (random.nextBoolean()) {
                sampling.setMaxTokens(random.nextInt(1, 70));
            }
            if (random.nextInt(3) == 0) {
                sampling.setStop(List.of("e", "\n\n"));
            }
            prompt.setSampling(sampling.build());
        }
        if (random.nextInt(4) == 0) {
            prompt.setLogprobs(random.nextInt(6));
        }
        if (random.nextInt(5) == 0) {
            prompt.setTenant("tenant-" + random.nextInt(3));
        }
        if (random.nextInt(8) == 0) {
            prompt.setDeadlineMs(System.currentTimeMillis() + random.nextInt(200, 20_000));
        }
        return prompt.build();
    }

    private static void ask(ServiceConfig config, int count) throws IOException {
        SplittableRandom random = new SplittableRandom(20261130);
        List<String> questions = Models.questions("glm-tiny");
        try (ClusterClient client = new ClusterClient(config)) {
            for (int i = 0; i < count; i++) {
                client.send(prompt(i, JSON.readTree(questions.get(i % questions.size())).get("prompt").asText(), random));
            }
            for (int i = 0; i < count; i++) {
                Completion completion = client.await("r-" + i, PATIENCE);
                assertThat(completion.getSalt().remaining()).isEqualTo(32);
            }
        }
    }

    /// What the auditor's process printed, and how it ended.
    private record Ran(int exitCode, List<String> lines, String err) {
        JsonNode last() {
            try {
                return JSON.readTree(lines.getLast());
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
    }

    private static Ran audit(ServiceConfig config, String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx400m", "-XX:+UseSerialGC",
                "--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED",
                "--sun-misc-unsafe-memory-access=allow", "-Djava.io.tmpdir=" + directory, "-cp",
                System.getProperty("java.class.path"), "millrace.streams.cli.Main", "audit"));
        command.addAll(List.of(arguments));
        command.addAll(List.of("--bootstrap", String.valueOf(config.kafka().get("bootstrap.servers")), "--topic",
                config.string("topics.audit"), "--checkpoints-topic", config.string("topics.checkpoints"),
                "--completions-topic", config.string("topics.completions"), "--json"));
        Path out = directory.resolve("audit.out");
        Path err = directory.resolve("audit.err");
        Process process = new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile()).start();
        assertThat(process.waitFor(5, TimeUnit.MINUTES)).as("ends in time").isTrue();
        return new Ran(process.exitValue(), Files.readAllLines(out), Files.readString(err, StandardCharsets.UTF_8));
    }

    @Test
    void answersComeOutBitForBitInAnotherProcess() throws Exception {
        ServiceConfig config = config("replayed");
        String vkey;
        try (InferenceService service = InferenceService.start(config, ReplayIT::glmTiny, true, line -> { })) {
            vkey = service.vkey();
            ask(config, PROMPTS);
        }
        Ran replayed = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--sample", "200", "--seed", "7",
                "--backend", "scalar", "--threads", "1", "--batch", "5", "--kv-bytes", "16000000");
        assertThat(replayed.exitCode()).as(replayed.err() + replayed.lines()).isZero();
        assertThat(replayed.last().get("verdict").asText()).isEqualTo("ok");
        assertThat(replayed.last().get("replayed").asInt()).isEqualTo(200);
        assertThat(replayed.last().get("bit_exact").asInt()).isEqualTo(200);
        assertThat(replayed.last().get("with_logits").asInt()).as("answers with logits digests").isGreaterThan(190);
        refusesAnotherModel(config, vkey);
        asksForOneByName(config, vkey);
    }

    private static void refusesAnotherModel(ServiceConfig config, String vkey) throws Exception {
        Ran other = audit(config, "replay", "--model", "kimi-tiny", "--kv", "auto", "--key", vkey, "--sample", "3",
                "--kv-bytes", "16000000");
        assertThat(other.exitCode()).as(other.err()).isEqualTo(2);
        assertThat(other.last().get("code").asText()).isEqualTo("REPLAY_MODEL");
        Ran otherFormat = audit(config, "replay", "--model", "glm-tiny", "--kv", "f32", "--key", vkey, "--sample", "3",
                "--kv-bytes", "16000000");
        assertThat(otherFormat.exitCode()).as(otherFormat.err()).isEqualTo(2);
        assertThat(otherFormat.last().get("code").asText()).isEqualTo("REPLAY_PROFILE");
        assertThat(otherFormat.last().get("why").asText()).contains("KV format (--kv): it was computed with ");
    }

    private static void asksForOneByName(ServiceConfig config, String vkey) throws Exception {
        Ran one = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--request-id", "r-17", "--kv-bytes", "16000000");
        assertThat(one.exitCode()).as(one.err()).isZero();
        assertThat(one.last().get("replayed").asInt()).isEqualTo(1);
        Ran none = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--request-id", "nobody");
        assertThat(none.exitCode()).isEqualTo(2);
        assertThat(none.last().get("code").asText()).isEqualTo("REPLAY_NOTHING");
    }

    /// Drafts decide when a token was computed and not which: who served with them is replayed without, and the other way round.
    @Test
    void answersComeOutWithDraftedTokensAndWithoutThem() throws Exception {
        Map<String, String> drafting = Map.of(
                "engine.model", "glm-tiny-mtp", "engine.speculation", "mtp", "engine.speculation.tokens", "2");
        comeOut(config("drafted", drafting), "off");
        comeOut(config("undrafted", Map.of("engine.model", "glm-tiny-mtp")), "mtp:3");
    }

    private static void comeOut(ServiceConfig config, String speculation) throws Exception {
        int prompts = 60;
        String vkey;
        try (InferenceService service = InferenceService.start(config, ReplayIT::glmTiny, true, line -> { })) {
            vkey = service.vkey();
            ask(config, prompts);
        }
        Ran replayed = audit(config, "replay", "--model", "glm-tiny-mtp", "--speculation", speculation, "--key", vkey,
                "--threads", "1", "--batch", "5", "--kv-bytes", "16000000");
        assertThat(replayed.exitCode()).as(replayed.err() + replayed.lines()).isZero();
        assertThat(replayed.last().get("replayed").asInt()).isGreaterThan(prompts / 2);
        assertThat(replayed.last().get("bit_exact").asInt()).isEqualTo(replayed.last().get("replayed").asInt());
    }

    /// An operator whose engine answers something else than the model that it attests: everything in the topics agrees, and
    /// only computing again shows it.
    @Test
    void findsAnEngineThatDidNotRunWhatItAttests() throws Exception {
        ServiceConfig config = config("lied");
        String vkey;
        try (InferenceService service =
                InferenceService.start(config, c -> new LyingEngine(glmTiny(c)), true, line -> { })) {
            vkey = service.vkey();
            try (ClusterClient client = new ClusterClient(config)) {
                for (int i = 0; i < 4; i++) {
                    client.send(Prompt.newBuilder().setRequestId("r-" + i).setPrompt("To be or not").setReturnTokenIds(true)
                            .setSampling(Sampling.newBuilder().setMaxTokens(8).build()).build());
                    client.await("r-" + i, PATIENCE);
                }
            }
            assertThat(audit(config, "verify", "--key", vkey).last().get("verdict").asText()).isEqualTo("ok");
        }
        Ran replayed = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--kv-bytes", "16000000");
        assertThat(replayed.exitCode()).as(replayed.err()).isEqualTo(1);
        assertThat(replayed.last().get("differing").asInt()).isEqualTo(1);
        JsonNode violation = replayed.last().get("violation");
        assertThat(violation.get("code").asText()).isEqualTo("REPLAY_TOKENS");
        assertThat(violation.get("what").asText()).contains("request r-2: token ids, first at step 5: ");
        assertThat(violation.get("topic").asText()).isEqualTo("lied.audit");
    }

    /// Answers that say of themselves that another profile and a device gave them: their bits are not compared, and an exchanged
    /// token is found all the same. The command says so when the tokens are missing.
    @Test
    void followsAnswersOfAnotherProfile() throws Exception {
        ServiceConfig config = config("disguised");
        String vkey;
        try (InferenceService service =
                InferenceService.start(config, c -> new LyingEngine(disguised(glmTiny(c))), true, line -> { })) {
            vkey = service.vkey();
            try (ClusterClient client = new ClusterClient(config)) {
                for (int i = 0; i < 5; i++) {
                    client.send(Prompt.newBuilder().setRequestId("r-" + i).setPrompt("To be or not").setReturnTokenIds(i != 1)
                            .setSampling(Sampling.newBuilder().setTemperature(i % 2 * 0.8f).setMaxTokens(40).build()).build());
                    client.await("r-" + i, PATIENCE);
                }
            }
        }
        Ran verified = audit(config, "verify", "--key", vkey);
        assertThat(verified.last().get("computed_by").toString()).contains("on Some GPU, compute capability 9.0\":5}");
        Ran all = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--kv-bytes", "16000000");
        assertThat(all.exitCode()).as(all.err()).isEqualTo(1);
        assertThat(all.last().get("bit_exact").asInt()).isZero();
        assertThat(all.last().get("within_tolerance").asInt()).isEqualTo(4);
        assertThat(all.last().get("near_ties").asInt()).isZero();
        assertThat(all.last().get("proofs").asInt()).isPositive();
        assertThat(all.last().get("violation").get("code").asText()).isEqualTo("REPLAY_TOKENS");
        assertThat(all.last().get("violation").get("what").asText()).endsWith("request r-2: token at step 5");
        assertThat(all.last().get("violation").get("expected").asText()).contains(" between two logits would give");
    }

    /// What a client has cut short is the beginning of its answer: it has a leaf as any other, and comes out again.
    @Test
    void answersThatWereCancelledComeOutAsFarAsTheyCame() throws Exception {
        ServiceConfig config = config("cancelled");
        CountDownLatch heard = new CountDownLatch(1);
        String vkey;
        try (InferenceService service = InferenceService.start(
                config, c -> new Pausing(glmTiny(c), heard, new CountDownLatch(1)), true, line -> { })) {
            vkey = service.vkey();
            try (ClusterClient client = new ClusterClient(config)) {
                Prompt prompt = Prompt.newBuilder().setRequestId("r-1").setPrompt("To be or not").setReturnTokenIds(true)
                        .setSampling(Sampling.newBuilder().setTemperature(2f).setSeed(3L).setMaxTokens(150).build()).build();
                client.send(prompt);
                assertThat(heard.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
                client.cancel(prompt);
                Completion completion = client.await("r-1", PATIENCE);
                assertThat(completion.getFinishReason()).isEqualTo(FinishReason.cancelled);
                assertThat(completion.getText()).isNotEmpty();
                assertThat(completion.getTokenIds()).hasSizeBetween(3, 149);
            }
        }
        assertThat(audit(config, "verify", "--key", vkey).last().get("verdict").asText()).isEqualTo("ok");
        Ran replayed = audit(config, "replay", "--model", "glm-tiny", "--key", vkey, "--kv-bytes", "16000000");
        assertThat(replayed.exitCode()).as(replayed.err() + replayed.lines()).isZero();
        assertThat(replayed.last().get("bit_exact").asInt()).isEqualTo(1);
    }

    /// Waits after the third piece of text for its client to cancel.
    private record Pausing(TextEngine honest, CountDownLatch heard, CountDownLatch cancelled) implements TextEngine {
        @Override
        public ModelCard card() {
            return honest.card();
        }

        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return honest.prepare(request);
        }

        @Override
        public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            Generation generation = honest.submit(prompt, new GenerationListener() {
                private int pieces;

                @Override
                public void onDelta(String text) {
                    if (++pieces == 3) {
                        heard.countDown();
                        try {
                            cancelled.await();
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                        }
                    }
                }

                @Override
                public void onEnd(GenerationResult result) {
                    listener.onEnd(result);
                }
            });
            return () -> {
                generation.cancel();
                cancelled.countDown();
            };
        }

        @Override
        public int load() {
            return honest.load();
        }

        @Override
        public void close() {
            honest.close();
        }
    }

    private static Disguised disguised(TextEngine engine) {
        ModelCard card = engine.card();
        return new Disguised(engine, new ModelCard(card.name(), card.architecture(), card.modelDigest(), card.files(),
                card.tokenizerDigest(), card.templateDigest(), card.chatFormat(), card.parameters(), card.vocabSize(),
                card.maxContext(), "cuda", "", card.weightFormat(), card.kvFormat(), card.kvBytesPerToken(), card.kvBytes(),
                card.kvCapacityTokens(), card.memory(), card.build(), "cuda-mma/v1", card.trust(), card.blockTableSha256(),
                new Device("Some GPU", "9.0", "12.8", "ab".repeat(32), false), card.speculation()));
    }

    /// Says that it is another one.
    private record Disguised(TextEngine honest, ModelCard card) implements TextEngine {
        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return honest.prepare(request);
        }

        @Override
        public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            return honest.submit(prompt, listener);
        }

        @Override
        public int load() {
            return honest.load();
        }

        @Override
        public void close() {
            honest.close();
        }
    }

    /// Answers the request `r-2` with another sixth token than the model gave.
    private record LyingEngine(TextEngine honest) implements TextEngine {
        @Override
        public ModelCard card() {
            return honest.card();
        }

        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return honest.prepare(request);
        }

        @Override
        public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            return honest.submit(prompt, result ->
                    listener.onEnd(prompt.request().id().equals("r-2") ? changed(result) : result));
        }

        private static GenerationResult changed(GenerationResult result) {
            List<Integer> ids = new ArrayList<>(result.tokenIds());
            ids.set(5, ids.get(5) ^ 1);
            return new GenerationResult(result.text(), ids, result.reason(), result.usage(), result.timings(),
                    result.errorCode(), result.errorMessage(), result.transcript());
        }

        @Override
        public int load() {
            return honest.load();
        }

        @Override
        public void close() {
            honest.close();
        }
    }
}

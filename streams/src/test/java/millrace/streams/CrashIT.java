package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.Engine;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.integrity.NoteSigner;
import millrace.integrity.audit.AuditReport;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.clients.admin.Admin;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A service that is killed hard, again and again, loses nothing, sends nothing twice and answers with the same bits.
class CrashIT {
    private static final Logger LOG = LoggerFactory.getLogger(CrashIT.class);
    private static final int PROMPTS = 500;
    private static final int KILLS = 5;
    private static final int MAX_TOKENS = 24;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path directory;

    @Test
    @Timeout(value = 5, unit = TimeUnit.MINUTES)
    void answersEachOf500PromptsOnceThoughItIsKilledFiveTimes() throws Exception {
        long seed = Long.getLong("millrace.test.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        Path key = directory.resolve("audit.key");
        NoteSigner signer = NoteSigner.loadOrCreate(key, "millrace.test", new SecureRandom());
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of(
                    "engine.model", "glm-tiny", "engine.threads", "1", "engine.kv.bytes", "8000000", "health.port", "-1",
                    "topics.partitions", "2", "audit.origin", "millrace.test", "audit.key.file", key.toString(),
                    "state.dir", directory.resolve("state").toString(), "inflight.max", "32"));
            ServiceConfig config = ServiceConfig.of(settings);
            try (Admin admin = new KafkaClients(config).admin()) {
                new Topics(config).ensure(admin);
            }
            List<Prompt> prompts = prompts();
            try (ClusterClient client = new ClusterClient(config)) {
                List<String> recoveries = flow(client, settings, prompts, random, seed);
                LOG.info("seed {}: from kill to the first new completion: {}", seed, recoveries);
                client.assertExactlyOnce(prompts.stream().map(Prompt::getRequestId).toList());
                AuditReport report = client.audit(signer.verifier());
                assertThat(report.word()).as("seed %d: %s", seed, report.text()).isEqualTo("ok");
                assertThat(report.leaves()).as("also what serves, in each life").isGreaterThan(PROMPTS);
                assertThat(report.matched()).isEqualTo(PROMPTS);
                assertSameBits(config, prompts, client);
            }
        }
    }

    /// Sends the prompts in as many parts as there are lives, and ends each life but the last in the middle of its part.
    private List<String> flow(
            ClusterClient client, Map<String, String> settings, List<Prompt> prompts, SplittableRandom random, long seed) {
        List<String> recoveries = new ArrayList<>();
        int sent = 0;
        long killedAt = 0;
        for (int life = 0; life <= KILLS; life++) {
            int upTo = PROMPTS * (life + 1) / (KILLS + 1);
            int before = client.answered();
            long startedAt = System.nanoTime();
            try (ServiceProcess service = ServiceProcess.start(directory, settings)) {
                for (; sent < upTo; sent++) {
                    client.send(prompts.get(sent));
                }
                boolean last = life == KILLS;
                if (life > 0) {
                    await(client, service, before + 1, seed, life);
                    recoveries.add("%.1f s (%.1f s CPU)".formatted(
                            (client.firstArrivalAfter(startedAt) - killedAt) / 1e9, service.cpuSeconds()));
                }
                await(client, service, last ? PROMPTS : before + random.nextInt(5, 60), seed, life);
                if (last) {
                    // So that a checkpoint covers the last leaves.
                    ClusterClient.sleep(2_500);
                    assertThat(service.stop()).as("0, or what the JVM makes of SIGTERM").isIn(0, 143);
                    assertThat(service.tail()).endsWith("stopped");
                } else {
                    ClusterClient.sleep(random.nextInt(150));
                    killedAt = System.nanoTime();
                    service.kill();
                    // What was committed before has arrived by then.
                    ClusterClient.sleep(100);
                }
            }
        }
        return recoveries;
    }

    private static void await(ClusterClient client, ServiceProcess service, int answers, long seed, int life) {
        long until = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        while (client.answered() < answers) {
            assertThat(service.isAlive()).as("seed %d, life %d:%n%s", seed, life, service.tail()).isTrue();
            assertThat(System.nanoTime()).as("seed %d, life %d, %d of %d answers after 90 s:%n%s",
                    seed, life, client.answered(), answers, service.tail()).isLessThan(until);
            ClusterClient.sleep(5);
        }
    }

    static List<Prompt> prompts() throws IOException {
        List<String> questions = Models.questions("glm-tiny");
        List<Prompt> prompts = new ArrayList<>();
        for (int i = 0; i < PROMPTS; i++) {
            String question = new ObjectMapper().readTree(questions.get(i % questions.size())).get("prompt").asText();
            prompts.add(Prompt.newBuilder()
                    .setRequestId("prompt-" + i)
                    .setMessages(List.of(Message.newBuilder().setRole("user").setContent(question).setToolCalls(List.of()).build()))
                    .setSampling(millrace.schemas.Sampling.newBuilder()
                            .setTemperature(0.9f).setSeed((long) i).setMaxTokens(MAX_TOKENS).build())
                    .setReturnTokenIds(true)
                    .build());
        }
        return prompts;
    }

    /// The completions equal those of an engine that nothing disturbs.
    private void assertSameBits(ServiceConfig config, List<Prompt> prompts, ClusterClient client) throws InterruptedException {
        Map<String, GenerationResult> expected = new ConcurrentHashMap<>();
        CountDownLatch left = new CountDownLatch(prompts.size());
        try (Engine engine = Engine.open(config.engine(Models.directory("glm-tiny", directory.resolve("models"))))) {
            for (int i = 0; i < prompts.size(); i++) {
                Prompt prompt = prompts.get(i);
                String id = prompt.getRequestId();
                PromptInput input = new PromptInput.Messages(
                        List.of(ChatMessage.of("user", prompt.getMessages().getFirst().getContent())), ChatOptions.DEFAULT);
                engine.submit(
                        engine.prepare(new GenerationRequest(
                                id, input, new Sampling(0.9f, 1f, 0, 0f, 1f, i), MAX_TOKENS, List.of(), Long.MAX_VALUE, 0)),
                        result -> {
                            expected.put(id, result);
                            left.countDown();
                        });
            }
            assertThat(left.await(60, TimeUnit.SECONDS)).isTrue();
        }
        for (Prompt prompt : prompts) {
            Completion completion = client.answer(prompt.getRequestId());
            GenerationResult undisturbed = expected.get(prompt.getRequestId());
            assertThat(completion.getTokenIds()).as(prompt.getRequestId()).isEqualTo(undisturbed.tokenIds());
            assertThat(completion.getText()).as(prompt.getRequestId()).isEqualTo(undisturbed.text());
            assertThat(completion.getFinishReason()).isIn(FinishReason.stop, FinishReason.length);
        }
    }
}

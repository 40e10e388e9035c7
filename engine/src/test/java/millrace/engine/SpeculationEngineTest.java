package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntPredicate;
import java.util.stream.Stream;
import millrace.engine.batch.StepModel;
import millrace.engine.batch.StepModelAround;
import millrace.engine.batch.StepPlan;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Models with draft layers, whole: answers, digests of logits and activations are the same bits whether tokens are drafted or
/// not, and whether drafts are right or not.
@Timeout(300)
class SpeculationEngineTest {
    private static final IntegrityConfig EACH = new IntegrityConfig(
            "strict", Duration.ZERO, 0.01, Duration.ZERO, Duration.ZERO, 1, true);

    private static final int PAGES = 22;

    private static final ResponseFormat FORMAT = new ResponseFormat.JsonSchema("""
            {"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"array","items":{"enum":["x",1,null]},
            "minItems":2,"maxItems":5}},"required":["a","b"],"additionalProperties":false}""");

    @TempDir
    Path dir;

    private static EngineConfig config(Path dir, KvFormat format, int chunk) {
        return EngineConfig.of(dir).withThreads(2).withMaxBatch(5).withPrefillChunk(chunk).withKvFormat(format)
                .withIntegrity(EACH);
    }

    /// The same for many: prompts that share beginnings, greedy and sampled, with too little memory for all, and every 41st of them
    /// cancelled on its way.
    @ParameterizedTest
    @CsvSource({
        "glm-tiny-mtp, INT8, mtp:2", "glm-tiny-mtp, BF16, auto:3", "glm4_moe, BF16, mtp:3", "kimi_k2, INT8, mtp:2",
        "glm_moe_dsa, INT8, mtp:1", "glm_moe_dsa, BF16, auto:2"
    })
    void fiveHundredAnswersAreThoseWithoutDrafts(String name, KvFormat format, String speculation) throws Exception {
        boolean trained = name.equals("glm-tiny-mtp");
        if (trained) {
            copy("glm-tiny", dir);
            copy(name, dir);
        } else {
            TinyModel.of(name).withTokenizer().write(dir);
        }
        List<GenerationRequest> requests = requests(500, trained ? 1024 : 2048, 24);
        EngineConfig config = config(dir, format, 32);
        List<GenerationResult> expected;
        long bytesPerToken;
        try (Engine off = Engine.open(config.withKvBytes(8 << 20))) {
            expected = answer(off, requests, i -> false, () -> {});
            bytesPerToken = off.card().kvBytesPerToken();
        }
        EngineConfig drafting = config.withSpeculation(Speculation.of(speculation)).withKvBytes(16L * PAGES * bytesPerToken);
        var submitted = new CountDownLatch(1);
        try (Engine on = Engine.openAround(
                drafting, inner -> trained ? inner : new Informed(inner, requests, expected, submitted))) {
            List<GenerationResult> results = answer(on, requests, i -> i % 41 == 5, submitted::countDown);
            compare(name, results, expected);
            assertThat(results).anyMatch(result -> result.reason() == FinishReason.CANCELLED);
            // What `auto` drafts depends on what steps take here and now.
            if (drafting.speculation().mode() == Speculation.Mode.MTP) {
                assertThat(on.stats().drafts().accepted().get(0)).isPositive();
            }
            assertThat(on.stats().preemptions()).isPositive();
            assertThat(on.stats().prefixHitTokens()).isPositive();
            assertThat(on.stats().kvFreePages()).isEqualTo(on.stats().kvPages());
        }
    }

    private static void copy(String bundled, Path to) throws IOException {
        try (Stream<Path> files = Files.list(Path.of("../streams/src/main/resources/models", bundled))) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({
        "glm4_moe, BF16, 7, mtp:1", "glm4_moe, INT8, 256, mtp:3", "kimi_k2, INT8, 7, mtp:2", "kimi_k2, F32, 1, mtp:3",
        "glm_moe_dsa, INT8, 7, mtp:3", "glm_moe_dsa, BF16, 256, auto:2", "glm_moe_dsa, INT8, 1, mtp:1"
    })
    void answersAreThoseWithoutDrafts(String family, KvFormat format, int chunk, String speculation) throws Exception {
        TinyModel.of(family).withTokenizer().write(dir);
        List<GenerationRequest> requests = requests(14, 2048, 60);
        EngineConfig config = config(dir, format, chunk);
        List<GenerationResult> expected;
        long bytesPerToken;
        try (Engine off = Engine.open(config.withKvBytes(8 << 20))) {
            expected = answer(off, requests, i -> false, () -> {});
            assertThat(off.stats().drafts()).isEqualTo(DraftStats.NONE);
            bytesPerToken = off.card().kvBytesPerToken();
        }
        // The draft layer takes some of it; the rest is too little for all.
        EngineConfig drafting = config.withSpeculation(Speculation.of(speculation)).withKvBytes(16L * PAGES * bytesPerToken);
        try (Engine on = Engine.openForIds(drafting)) {
            compare(family, answer(on, requests, i -> i == 5, () -> {}), expected);
            follow(on, requests, expected);
        }
        // The first step waits until all are submitted.
        var submitted = new CountDownLatch(1);
        try (Engine on = Engine.openAround(drafting, model -> new Informed(model, requests, expected, submitted))) {
            compare(family, answer(on, requests, i -> i == 5, submitted::countDown), expected);
            DraftStats drafts = on.stats().drafts();
            assertThat(drafts.steps()).isPositive();
            for (int i = 0; i < drafting.speculation().tokens(); i++) {
                assertThat(drafts.accepted().get(i)).isPositive().isLessThanOrEqualTo(drafts.drafted().get(i));
            }
            if (chunk > 1) {
                assertThat(on.stats().preemptions()).isPositive();
            }
            assertThat(on.stats().prefixHitTokens()).isPositive();
            assertThat(on.stats().kvFreePages()).isEqualTo(on.stats().kvPages());
        }
    }

    /// Answers that are followed, in chunks like those of a prompt, are what is chosen there.
    private static void follow(Engine engine, List<GenerationRequest> requests, List<GenerationResult> expected) {
        for (int i = 0; i < requests.size(); i++) {
            var end = new CompletableFuture<Trace>();
            engine.trace(engine.prepare(requests.get(i)), expected.get(i).tokenIds(), end::complete);
            assertThat(end.join().departures()).as("request %d", i).isEmpty();
            assertThat(end.join().steps()).isEqualTo(expected.get(i).tokenIds().size());
            assertThat(end.join().activations()).usingRecursiveComparison()
                    .isEqualTo(expected.get(i).transcript().activations());
        }
    }

    private static void compare(String name, List<GenerationResult> results, List<GenerationResult> expected) {
        for (int i = 0; i < results.size(); i++) {
            GenerationResult result = results.get(i);
            GenerationResult right = expected.get(i);
            String which = name + ", request " + i;
            int count = result.tokenIds().size();
            if (result.reason() == FinishReason.CANCELLED) {
                assertThat(result.tokenIds()).as(which).isEqualTo(right.tokenIds().subList(0, count));
                assertThat(result.transcript().logitsDigests()).as(which)
                        .isEqualTo(right.transcript().logitsDigests().subList(0, count));
                continue;
            }
            assertThat(result.reason()).as(which).isEqualTo(right.reason());
            assertThat(result.tokenIds()).as(which).isEqualTo(right.tokenIds());
            assertThat(result.text()).as(which).isEqualTo(right.text());
            assertThat(result.logprobs()).as(which).isEqualTo(right.logprobs());
            assertThat(result.transcript().logitsDigests()).as(which).isEqualTo(right.transcript().logitsDigests());
            assertThat(result.transcript().activations()).as(which).usingRecursiveComparison()
                    .isEqualTo(right.transcript().activations());
        }
    }

    private static List<GenerationRequest> requests(int count, int vocabSize, int most) {
        var random = new SplittableRandom(7);
        List<Integer> common = random.ints(70, 0, vocabSize).boxed().toList();
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            List<Integer> prompt = new ArrayList<>(common.subList(0, i % 3 == 0 ? 48 : i % 3 * 10));
            random.ints(3 + random.nextInt(most), 0, vocabSize).forEach(prompt::add);
            Sampling sampling = i % 2 == 0 ? Sampling.GREEDY : new Sampling(1.2f, 0.95f, 50, 0f, 1.1f, i);
            var request = new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, 10 + random.nextInt(most), List.of(), Long.MAX_VALUE,
                    i % 2);
            requests.add(switch (i % 5) {
                case 0 -> request.withLogprobs(2);
                case 3 -> request.withFormat(FORMAT);
                default -> request;
            });
        }
        return requests;
    }

    /// @param cancelled which of them are cancelled on their way
    /// @param submitted told when all are submitted
    private static List<GenerationResult> answer(
            Engine engine, List<GenerationRequest> requests, IntPredicate cancelled, Runnable submitted) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (int i = 0; i < requests.size(); i++) {
            var end = new CompletableFuture<GenerationResult>();
            ends.add(end);
            var generation = new AtomicReference<@Nullable Generation>();
            boolean cancelling = cancelled.test(i);
            generation.set(engine.submit(engine.prepare(requests.get(i)), new GenerationListener() {
                @Override
                public void onDelta(String text, int tokens) {
                    Generation running = generation.get();
                    if (cancelling && tokens > 3 && running != null) {
                        running.cancel();
                    }
                }

                @Override
                public void onEnd(GenerationResult result) {
                    end.complete(result);
                }
            }));
        }
        submitted.run();
        return ends.stream().map(CompletableFuture::join).toList();
    }

    /// A model whose drafts are what the answers have there, three times of four: weights that nobody trained draft next to
    /// nothing that is right.
    private static final class Informed extends StepModelAround {
        private final StepModel model;
        private final CountDownLatch submitted;
        private final List<List<Integer>> answers = new ArrayList<>();

        /// What stands in each table, as far as it was computed here.
        private final Map<PageTable, Map<Integer, Integer>> seen = new WeakHashMap<>();

        Informed(
                StepModel model,
                List<GenerationRequest> requests,
                List<GenerationResult> results,
                CountDownLatch submitted) {
            super(model);
            this.model = model;
            this.submitted = submitted;
            for (int i = 0; i < requests.size(); i++) {
                List<Integer> all = new ArrayList<>(((PromptInput.TokenIds) requests.get(i).input()).ids());
                all.addAll(results.get(i).tokenIds());
                answers.add(Collections.unmodifiableList(all));
            }
        }

        @Override
        public int forward(StepPlan plan) {
            try {
                submitted.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            for (int s = 0; s < plan.segmentCount(); s++) {
                Map<Integer, Integer> tokens = seen.computeIfAbsent(plan.pages(s), table -> new HashMap<>());
                for (int i = 0; i < plan.rows(s); i++) {
                    tokens.put(plan.position(plan.firstRow(s) + i), plan.token(plan.firstRow(s) + i));
                }
            }
            return model.forward(plan);
        }

        @Override
        public int draft(StepPlan plan, int[] sources, boolean further) {
            int rows = model.draft(plan, sources, further);
            int row = 0;
            for (int s = 0; s < plan.segmentCount(); s++) {
                if (plan.wanted(s) == StepPlan.Logits.NONE) {
                    continue;
                }
                int last = plan.firstRow(s) + plan.rows(s) - 1;
                int position = plan.position(last) + 1;
                Map<Integer, Integer> tokens = new HashMap<>(seen.getOrDefault(plan.pages(s), Map.of()));
                tokens.keySet().removeIf(at -> at >= position);
                tokens.put(position, plan.token(last));
                int next = next(tokens, position + 1);
                if (next >= 0 && (position + next) % 4 > 0) {
                    model.logits()[row * model.vocabSize() + next] = 1_000;
                }
                row++;
            }
            return rows;
        }

        private int next(Map<Integer, Integer> tokens, int position) {
            return answers.stream()
                    .filter(answer -> answer.size() > position && tokens.entrySet().stream()
                            .allMatch(entry -> answer.get(entry.getKey()).equals(entry.getValue())))
                    .findFirst().map(answer -> answer.get(position)).orElse(-1);
        }
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.jspecify.annotations.Nullable;

@Timeout(60)
class EngineTest {
    @TempDir
    static Path dir;

    private static Engine engine;
    private final java.util.Set<String> seen = new java.util.HashSet<>();

    @BeforeAll
    static void open() throws IOException {
        TinyModel.of("glm4_moe").withTokenizer().write(dir);
        engine = Engine.open(config());
    }

    @AfterAll
    static void close() {
        engine.close();
    }

    private static EngineConfig config() {
        return EngineConfig.of(dir).withThreads(2).withMaxBatch(4).withKvFormat(KvFormat.BF16).withKvBytes(4 << 20);
    }

    @Test
    void theCardStatesWhatIsServed() {
        ModelCard card = engine.card();
        assertThat(card.architecture()).isEqualTo("Glm4MoeForCausalLM");
        assertThat(card.modelDigest()).matches("sha256:[0-9a-f]{64}");
        assertThat(card.files()).extracting(ModelCard.FileDigest::name).contains("config.json", "model.safetensors");
        assertThat(card.tokenizerDigest()).matches("[0-9a-f]{64}");
        assertThat(card.templateDigest()).matches("[0-9a-f]{64}");
        assertThat(card.build()).matches("\\S+ sha256:[0-9a-f]{64}");
        assertThat(card.profile()).isEqualTo("cpu-strict/v3");
        assertThat(card.kvFormat()).isEqualTo("bf16");
        assertThat(card.weightFormat()).isEqualTo("bf16");
        assertThat(card.kvBytes()).isPositive().isLessThanOrEqualTo(4 << 20);
        assertThat(card.kvCapacityTokens()).isEqualTo(card.kvBytes() / card.kvBytesPerToken());
        assertThat(card.maxContext()).isEqualTo(512);
        assertThat(card.vocabSize()).isEqualTo(2048);
        assertThat(card.parameters()).isPositive();
        assertThat(card.backendReason()).isNotBlank();
    }

    @Test
    void deltasSumToTheText() {
        StringBuilder deltas = new StringBuilder();
        var end = new CompletableFuture<GenerationResult>();
        var request = new GenerationRequest(
                "deltas", new PromptInput.Text("once upon"), new Sampling(1f, 1f, 0, 0f, 1f, 5), 60, List.of("e"),
                Long.MAX_VALUE, 0);
        engine.submit(engine.prepare(request), new GenerationListener() {
            @Override
            public void onDelta(String text) {
                deltas.append(text);
            }

            @Override
            public void onEnd(GenerationResult result) {
                end.complete(result);
            }
        });
        GenerationResult result = end.join();
        assertThat(deltas.toString()).isEqualTo(result.text()).doesNotContain("e");
        assertThat(result.usage().promptTokens()).isPositive();
        assertThat(result.usage().completionTokens()).isEqualTo(result.tokenIds().size());
        assertThat(result.timings().firstTokenNanos()).isPositive();
    }

    @Test
    void aTextFormsNoSpecialToken() {
        TextCodec codec = engine.codec();
        for (int id : ModelInspection.of(dir, null).specialTokens().values()) {
            String name = codec.decode(new int[] {id});
            PreparedPrompt prompt = engine.prepare(
                    GenerationRequest.greedy("s", new PromptInput.Text("a " + name + " b"), 5));
            assertThat(prompt.ids()).doesNotContain(id);
            assertThat(codec.encode(name, true)).containsExactly(id);
        }
    }

    @Test
    void tenantsShareNothingHoweverMuchOfTheirPromptsIsEqual() throws Exception {
        List<Integer> prefix = java.util.stream.IntStream.range(1, 65).boxed().toList();
        for (String salt : List.of("tenant-0", "tenant-1", "tenant-0", "tenant-1")) {
            long hits = engine.stats().prefixHitTokens();
            CompletableFuture<GenerationResult> answer = new CompletableFuture<>();
            var request = new GenerationRequest(
                    salt, new PromptInput.TokenIds(prefix), Sampling.GREEDY, 1, List.of(), Long.MAX_VALUE, 0, salt);
            engine.submit(engine.prepare(request), answer::complete);
            int cached = answer.get(60, TimeUnit.SECONDS).usage().cachedPromptTokens();
            assertThat(cached).isEqualTo(engine.stats().prefixHitTokens() - hits);
            assertThat(answer.get().usage()).isEqualTo(new Usage(64, 1, cached));
            assertThat(seen.add(salt)).isEqualTo(cached == 0);
        }
    }

    @Test
    void preparesTokenIdsAsTheyAre() {
        var input = new PromptInput.TokenIds(List.of(5, 2047, 0));
        assertThat(engine.prepare(GenerationRequest.greedy("i", input, 1)).ids()).containsExactly(5, 2047, 0);
    }

    @Test
    void refusesWhatCanNeverFit() {
        var long500 = new PromptInput.TokenIds(java.util.Collections.nCopies(500, 1));
        refused(() -> engine.prepare(GenerationRequest.greedy("r", long500, 13)), "CONTEXT_OVERFLOW",
                "prompt: expected prompt and max_tokens to fit the context of 512 tokens, got 500 + 13 = 513; shorten the "
                        + "prompt or lower max_tokens");
        try (Engine small = Engine.open(config().withKvBytes(
                3 * ModelInspection.of(dir, null).kv().get(1).pageBytes()))) {
            refused(() -> small.prepare(GenerationRequest.greedy("r", long500, 1)), "CONTEXT_OVERFLOW",
                    "prompt: expected prompt and max_tokens to fit the KV cache of 48 tokens, got 500 + 1 = 501; shorten "
                            + "the prompt, lower max_tokens, or raise engine.kv.bytes");
        }
        refused(() -> engine.score("s", List.of(2048), false, new Silent()), "TOKEN_ID_RANGE", null);
        refused(() -> engine.score("s", List.of(), false, new Silent()), "PROMPT_EMPTY", null);
    }

    @Test
    void aDeadlineInThePastEndsAtOnce() {
        var end = new CompletableFuture<GenerationResult>();
        var request = new GenerationRequest(
                "late", new PromptInput.Text("x"), Sampling.GREEDY, 400, List.of(), 1, 0);
        engine.submit(engine.prepare(request), end::complete);
        assertThat(end.join().reason()).isEqualTo(FinishReason.DEADLINE);
        assertThat(end.join().text()).isEmpty();
    }

    @Test
    void refusesToOpenWhatIsNotPinned() {
        String wrong = "sha256:" + "0".repeat(64);
        refused(() -> Engine.open(config().withPinnedDigest(wrong)), "MODEL_DIGEST_MISMATCH", null);
        Engine.open(config().withPinnedDigest(engine.card().modelDigest())).close();
    }

    @Test
    void refusesAContextThatTheModelDoesNotHave() {
        refused(() -> Engine.open(config().withMaxContext(513)), "CONFIG_CONTEXT", "config.json: max_position_embeddings: "
                + "expected at least the configured context of 513 tokens, got 512; lower engine.max.context");
        try (Engine shorter = Engine.open(config().withMaxContext(100))) {
            assertThat(shorter.card().maxContext()).isEqualTo(100);
        }
    }

    @Test
    void refusesABudgetBelowOnePage() {
        long page = ModelInspection.of(dir, null).kv().get(1).pageBytes();
        refused(() -> Engine.open(config().withKvBytes(page - 1)), "KV_BUDGET", "engine.kv.bytes: expected at least " + page
                + ", one page, got " + (page - 1) + "; raise it, or leave it out to take what the memory budget leaves");
    }

    @Test
    void splitsOneBudgetIntoWeightsCacheAndTheRest() {
        long budget = 2L << 30;
        try (Engine planned = Engine.open(config().withKvBytes(0).withMemoryBytes(budget))) {
            MemoryPlan plan = planned.card().memory();
            assertThat(plan.budget()).isEqualTo(budget);
            assertThat(plan.weights()).isGreaterThan(2 * planned.card().parameters() * 9 / 10);
            assertThat(plan.scratch()).isPositive();
            assertThat(plan.total()).isLessThanOrEqualTo(budget);
            long pages = planned.card().kvCapacityTokens() / 16;
            assertThat(plan.kv()).isEqualTo(pages * 16 * planned.card().kvBytesPerToken());
            assertThat(pages).as("no more than the batch can fill").isEqualTo(4 * 512 / 16);
            assertThat(plan.describe(planned.card().kvCapacityTokens(), 512)).endsWith(
                    "2048 tokens fit, 4 sequences of 512");
        }
    }

    @Test
    void refusesABudgetThatTheModelExceeds() {
        refused(() -> Engine.open(config().withMemoryBytes(100_000)), "MEMORY_PLAN", null);
        refused(() -> Engine.open(config().withKvBytes(1L << 40).withMemoryBytes(2L << 30)), "MEMORY_PLAN", null);
        assertThatThrownBy(() -> Engine.open(config().withMemoryBytes(100_000)))
                .hasMessageStartingWith("engine.memory.bytes: expected enough for weights of about ")
                .hasMessageEndingWith(", got 100000; raise it, take a smaller engine.weights or engine.kv.format,"
                        + " or lower engine.prefill.chunk");
    }

    @Test
    void theBestFormatOfTheCacheIsTheDefault() {
        try (Engine chosen = Engine.open(config().withKvFormat(null))) {
            assertThat(chosen.card().kvFormat()).isEqualTo(KvFormat.auto().id());
        }
    }

    @Test
    void aFormatThatTheModelCannotHaveStopsTheStart() {
        refused(
                () -> Engine.open(config().withKvFormat(KvFormat.FP8)),
                "KV_FORMAT",
                "engine.kv.format: expected auto or one of f32, bf16, int8, int4, got \"fp8\": the model has grouped attention");
    }

    @Test
    void whatSparseModelsAndDraftLayersHaveCannotBeAskedOfOthers(@TempDir Path dense) throws IOException {
        TinyModel.of("llama").write(dense);
        refused(
                () -> Engine.open(config().withIndexFormat(KvFormat.BF16)),
                "KV_INDEX_FORMAT",
                "engine.kv.index.format: expected auto, as the model has no indexer, got \"bf16\"; leave it out");
        refused(
                () -> Engine.openForIds(config().withModel(dense).withSpeculation(Speculation.of("mtp:2"))),
                "SPECULATION_UNAVAILABLE",
                "engine.speculation: expected off or auto, as the model has no draft layer (num_nextn_predict_layers and the"
                        + " tensors behind its last layer), got mtp; use a checkpoint that ships it, or leave it out");
        EngineConfig plain = config().withModel(dense);
        try (Engine off = Engine.openForIds(plain);
                Engine without = Engine.openForIds(plain.withSpeculation(Speculation.of("auto:2")))) {
            assertThat(without.card().speculation()).isEqualTo(Speculation.OFF);
            assertThat(without.card().memory().scratch()).as("no rows for drafts").isEqualTo(off.card().memory().scratch());
        }
        try (Engine with = Engine.open(config().withSpeculation(Speculation.of("auto:2")))) {
            assertThat(with.card().speculation().id()).isEqualTo("auto:2");
        }
    }

    @Test
    void aModelWithoutATokenizerTakesTokenIdsOnly(@TempDir Path bare) throws IOException {
        TinyModel.of("llama").write(bare);
        refused(() -> Engine.open(EngineConfig.of(bare)), "TOK_MISSING", null);
        assertThat(ModelInspection.of(bare, null).tokenizer()).isEqualTo("none");
        try (Engine ids = Engine.openForIds(EngineConfig.of(bare).withKvBytes(1 << 20))) {
            refused(() -> ids.prepare(GenerationRequest.greedy("t", new PromptInput.Text("x"), 1)), "TOK_MISSING",
                    "prompt: expected token ids, as this model has no tokenizer, got text; copy the tokenizer of the same "
                            + "release into the model's directory, or send ids");
            var messages = new PromptInput.Messages(List.of(ChatMessage.of("user", "x")), ChatOptions.DEFAULT);
            refused(() -> ids.prepare(GenerationRequest.greedy("m", messages, 1)), "TPL_UNKNOWN", null);
            var end = new CompletableFuture<GenerationResult>();
            var request = GenerationRequest.greedy("i", new PromptInput.TokenIds(List.of(1, 2, 3)), 4);
            ids.submit(ids.prepare(request), end::complete);
            assertThat(end.join().tokenIds()).isNotEmpty();
            assertThat(end.join().text()).isEmpty();
        }
    }

    @Test
    void refusesABackendThatIsUnknown() {
        refused(() -> Engine.open(config().withBackend("gpu")), "BACKEND_UNKNOWN", null);
    }

    @Test
    void closesWhileWorkIsUnderWay() throws Exception {
        Engine closing = Engine.open(config());
        var end = new CompletableFuture<GenerationResult>();
        closing.submit(
                closing.prepare(GenerationRequest.greedy("c", new PromptInput.TokenIds(List.of(1, 2, 3)), 500)),
                end::complete);
        long start = System.nanoTime();
        closing.close();
        closing.close();
        assertThat(TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start)).isLessThan(10);
        assertThatThrownBy(() -> closing.submit(
                        engine.prepare(GenerationRequest.greedy("d", new PromptInput.Text("x"), 1)), result -> {}))
                .isInstanceOf(IllegalStateException.class);
    }

    @Test
    void measuresFreeMemoryOfMachineAndControlGroup(@TempDir Path system) throws IOException {
        Path meminfo = Files.writeString(
                system.resolve("meminfo"), "MemTotal: 9999 kB\nMemAvailable:    2000 kB\nSwapFree: 1 kB\n");
        assertThat(FreeMemory.bytes(meminfo, system)).isEqualTo(2000 * 1024);
        Files.writeString(system.resolve("memory.max"), "1500000\n");
        Files.writeString(system.resolve("memory.current"), "500000\n");
        assertThat(FreeMemory.bytes(meminfo, system)).isEqualTo(1_000_000);
        Files.writeString(system.resolve("memory.max"), "max\n");
        assertThat(FreeMemory.bytes(meminfo, system)).isEqualTo(2000 * 1024);
        assertThat(FreeMemory.bytes(system.resolve("none"), system)).isEqualTo(Runtime.getRuntime().maxMemory());
    }

    private static void refused(Runnable action, String code, @Nullable String message) {
        assertThatThrownBy(action::run)
                .isInstanceOf(EngineException.class)
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo(code);
        if (message != null) {
            assertThatThrownBy(action::run).hasMessage(message);
        }
    }

    private static final class Silent implements ScoreListener {
        @Override
        public void onLogits(int position, float[] logits, int offset) {}

        @Override
        public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {}
    }
}

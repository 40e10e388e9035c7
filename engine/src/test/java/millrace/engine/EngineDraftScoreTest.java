package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Logits of the draft layer through the engine's door.
final class EngineDraftScoreTest {
    private static final float TOLERANCE = 3e-5f;

    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "glm_moe_dsa"})
    void areThoseOfTheReferenceInWhateverStepsTheyCome(String name) throws Exception {
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        List<Integer> ids = Arrays.stream(TinyModel.tokens(golden.get("seq_len").intValue())).boxed().toList();
        TinyModel.of(name).write(dir);
        EngineConfig config = EngineConfig.of(dir).withThreads(2).withMaxBatch(4).withKvFormat(KvFormat.F32)
                .withKvBytes(8 << 20).withSpeculation(Speculation.of("mtp:2"));
        List<float[]> first = null;
        for (int chunk : new int[] {256, 7}) {
            try (Engine engine = Engine.openForIds(config.withPrefillChunk(chunk))) {
                // Beside others: a prompt that generates with drafts, the same again from the prefix cache, the model's own logits.
                var beside = engine.prepare(GenerationRequest.greedy("g", new PromptInput.TokenIds(ids), 8));
                CompletableFuture<GenerationResult> generated = new CompletableFuture<>();
                engine.submit(beside, generated::complete);
                Rows all = new Rows(engine.card().vocabSize());
                Rows last = new Rows(engine.card().vocabSize());
                engine.scoreDrafts("all", ids, true, all);
                engine.scoreDrafts("last", ids, false, last);
                List<float[]> rows = all.ended.get();
                assertThat(all.positions).hasSize(ids.size() - 1).isSorted().startsWith(0).endsWith(ids.size() - 2);
                assertThat(last.ended.get()).hasSize(1);
                assertThat(last.positions).containsExactly(ids.size() - 2);
                assertThat(last.ended.get().getFirst()).containsExactly(rows.getLast());
                assertThat(generated.get().reason()).isIn(FinishReason.LENGTH, FinishReason.STOP);
                for (int i = 0; i < 4; i++) {
                    assertThat(rows.getLast()[i]).isCloseTo(golden.get("mtp_first4").get(i).floatValue(), within(TOLERANCE));
                }
                JsonNode best = golden.get("mtp_top1");
                assertThat(rows.getLast()[best.get(0).intValue()]).isCloseTo(best.get(1).floatValue(), within(TOLERANCE));
                if (first == null) {
                    first = rows;
                }
                for (int i = 0; i < rows.size(); i++) {
                    assertThat(rows.get(i)).as("position %d, chunks of %d", i, chunk).containsExactly(first.get(i));
                }
            }
        }
    }

    @Test
    void needTwoTokensAndADraftLayer() throws IOException {
        TinyModel.of("glm4_moe").write(dir);
        EngineConfig config = EngineConfig.of(dir).withThreads(1).withKvBytes(4 << 20);
        try (Engine engine = Engine.openForIds(config)) {
            assertThatThrownBy(() -> engine.scoreDrafts("s", List.of(1, 2), true, new Rows(2048)))
                    .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("SPECULATION_UNAVAILABLE"));
        }
        try (Engine engine = Engine.openForIds(config.withSpeculation(Speculation.of("auto")))) {
            assertThatThrownBy(() -> engine.scoreDrafts("s", List.of(1), true, new Rows(2048)))
                    .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("PROMPT_EMPTY"))
                    .hasMessage("prompt: expected at least two tokens, got one");
        }
    }

    /// Keeps what it is given.
    private static final class Rows implements ScoreListener {
        final CompletableFuture<List<float[]>> ended = new CompletableFuture<>();
        final List<Integer> positions = new ArrayList<>();
        private final List<float[]> rows = new ArrayList<>();
        private final int vocabSize;

        Rows(int vocabSize) {
            this.vocabSize = vocabSize;
        }

        @Override
        public void onLogits(int position, float[] logits, int offset) {
            positions.add(position);
            rows.add(Arrays.copyOfRange(logits, offset, offset + vocabSize));
        }

        @Override
        public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
            if (reason == FinishReason.LENGTH) {
                ended.complete(rows);
            } else {
                ended.completeExceptionally(new IllegalStateException(reason + " " + errorCode + ": " + errorMessage));
            }
        }
    }
}

package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Predicate;
import millrace.engine.InvalidModelException;
import millrace.engine.KvFormat;
import millrace.engine.QuantizedModel;
import millrace.engine.QuantizedModel.Scheme;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Quantised checkpoints as they are published, against plain ones of the numbers that they stand for; and weights that
/// are converted while loading.
final class QuantizedCheckpointTest {
    /// What Kimi K2 Thinking leaves unquantised: all but routed experts.
    static final String[] KIMI_IGNORES = {
        "lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"
    };

    private static final int[] TOKENS =
            Arrays.stream(TinyModel.tokens(40)).map(id -> id % 1280).toArray();

    @TempDir
    Path dir;

    private Path model(TinyModel model) throws IOException {
        return model.write(Files.createDirectory(dir.resolve("source")));
    }

    static boolean expert(String name) {
        return name.contains(".mlp.experts.");
    }

    /// Every linear layer: not the vocabulary, not the routers, not the weights of index heads.
    static boolean linear(String name) {
        return name.endsWith("_proj.weight") && !name.endsWith("weights_proj.weight")
                || name.endsWith("kv_a_proj_with_mqa.weight")
                || name.endsWith("indexer.wq_b.weight")
                || name.endsWith("indexer.wk.weight");
    }

    private void logitsAreThoseOfTheNumbers(
            Path source, Predicate<String> which, Scheme scheme, ObjectNode config, double tolerance, String format)
            throws IOException {
        Path quantised = dir.resolve("quantised");
        Path plain = dir.resolve("plain");
        QuantizedModel.write(source, quantised, plain, which, scheme, config);
        float[][] expected;
        try (ModelRun run = ModelRun.open(plain, "auto", 2, KvFormat.F32)) {
            expected = run.all(TOKENS, 16);
        }
        float[][] got;
        try (ModelRun run = ModelRun.open(quantised, "auto", 2, KvFormat.F32)) {
            got = run.all(TOKENS, 16);
            assertThat(run.bytesByFormat()).containsKey(format);
        }
        for (int t = 0; t < TOKENS.length; t++) {
            assertThat(distance(got[t], expected[t])).as("position %d", t).isLessThan(tolerance);
        }
        for (String backend : new String[] {"vector", "scalar"}) {
            try (ModelRun run = ModelRun.open(quantised, backend, 1, KvFormat.F32)) {
                assertThat(run.last(TOKENS, 7)).as(backend).isEqualTo(got[TOKENS.length - 1]);
            }
        }
    }

    /// Those of the draft layer, after [#logitsAreThoseOfTheNumbers].
    private void draftsAreThoseOfTheNumbers(String format) {
        try (ModelRun plain = ModelRun.openDrafting(dir.resolve("plain"), Backend.open("auto", 2), KvFormat.F32);
                ModelRun run = ModelRun.openDrafting(dir.resolve("quantised"), Backend.open("auto", 2), KvFormat.F32)) {
            float[][] expected = plain.drafts(TOKENS, 16);
            float[][] got = run.drafts(TOKENS, 16);
            for (int t = 0; t < got.length; t++) {
                assertThat(distance(got[t], expected[t])).as("draft after position %d", t).isLessThan(3e-5);
            }
            assertThat(run.bytesByFormat()).containsKey(format);
        }
    }

    private static double distance(float[] a, float[] b) {
        double most = 0;
        for (int i = 0; i < a.length; i++) {
            most = Math.max(most, Math.abs(a[i] - (double) b[i]));
        }
        return most;
    }

    // ----------------------------------------------------------------------------------------------------- INT4

    @ParameterizedTest
    @ValueSource(ints = {64, 80, 96})
    void expertsOfKimiInInt4(int inner) throws IOException {
        // 80 and 96 columns: a row's last group is half, its last block of 64 columns is not full.
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("kimi_k2").wrapped().with("moe_intermediate_size", inner)),
                QuantizedCheckpointTest::expert,
                QuantizedModel::int4,
                QuantizedModel.int4Config(KIMI_IGNORES),
                3e-5,
                "int4");
    }

    @Test
    void everyLinearLayerInInt4() throws IOException {
        // kv_b_proj, which is cut by heads and turned, among them.
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("kimi_k2")),
                QuantizedCheckpointTest::linear,
                QuantizedModel::int4,
                QuantizedModel.int4Config("lm_head"),
                3e-5,
                "int4");
    }

    @ParameterizedTest
    @ValueSource(ints = {320, 328})
    void fusedProjectionInInt4(int inner) throws IOException {
        // 328 rows are not whole panels: the second half begins within one.
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm4").with("intermediate_size", inner)),
                QuantizedCheckpointTest::linear,
                QuantizedModel::int4,
                QuantizedModel.int4Config("lm_head"),
                3e-5,
                "int4");
    }

    // ------------------------------------------------------------------------------------------------------ FP8

    @ParameterizedTest
    @CsvSource({"kimi_k2, F32", "kimi_k2, BF16", "kimi_k2, F8_E8M0", "glm4, F32", "glm4_moe, F32", "qwen2, BF16"})
    void blocksInFp8(String family, String scales) throws IOException {
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of(family)),
                QuantizedCheckpointTest::linear,
                QuantizedModel.fp8(128, 128, "_scale_inv", scales),
                QuantizedModel.fp8Config(128, 128),
                3e-5,
                "fp8");
    }

    @Test
    void lowBlocksAndNamedExceptionsInFp8() throws IOException {
        ObjectNode config = QuantizedModel.fp8Config(16, 128);
        config.putArray("modules_to_not_convert").add("model.layers.0").add("o_proj");
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("kimi_k2").wrapped()),
                name -> linear(name) && !name.contains("layers.0.") && !name.contains("o_proj"),
                QuantizedModel.fp8(16, 128, "_scale_inv", "F32"),
                config,
                3e-5,
                "fp8");
    }

    @ParameterizedTest
    @ValueSource(strings = {"BF16", "F32"})
    void channelsInFp8(String scales) throws IOException {
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm4_moe")),
                name -> linear(name) && !name.startsWith("model.layers.4."),
                QuantizedModel.fp8(1, 1 << 20, "_scale", scales),
                QuantizedModel.fp8ChannelConfig("lm_head", "model.layers.0.mlp.gate", "re:.*layers\\.4.*"),
                3e-5,
                "fp8");
    }

    @Test
    void blocksOfCompressedTensorsInFp8() throws IOException {
        ObjectNode config = QuantizedModel.fp8ChannelConfig("lm_head");
        QuantizedModel.weights(config).put("strategy", "block").putArray("block_structure").add(128).add(128);
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm4_moe").withoutMtp()),
                QuantizedCheckpointTest::linear,
                QuantizedModel.fp8(128, 128, "_scale", "BF16"),
                config,
                3e-5,
                "fp8");
    }

    @Test
    void oneScaleForATensorInFp8() throws IOException {
        ObjectNode config = QuantizedModel.fp8ChannelConfig("lm_head");
        QuantizedModel.weights(config).put("strategy", "tensor");
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("llama")),
                QuantizedCheckpointTest::linear,
                QuantizedModel.fp8(1 << 20, 1 << 20, "_scale", "F32"),
                config,
                3e-5,
                "fp8");
    }

    // ------------------------------------------------------------------------- sparse attention, draft layers

    @Test
    void expertsOfGlm5InInt4() throws IOException {
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm_moe_dsa")),
                QuantizedCheckpointTest::expert,
                QuantizedModel::int4,
                QuantizedModel.int4Config("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                        "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.7.eh_proj"),
                3e-5,
                "int4");
        draftsAreThoseOfTheNumbers("int4");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void blocksOfGlm5InFp8WithItsListOfExceptions(boolean named) throws IOException {
        ObjectNode config = QuantizedModel.fp8Config(128, 128);
        var exempt = config.putArray("modules_to_not_convert").add("lm_head").add("model.embed_tokens").add("model.norm");
        for (int layer = 0; layer <= 7; layer++) {
            String p = "model.layers." + layer + ".";
            exempt.add(p + "input_layernorm").add(p + "mlp.gate").add(p + "mlp.gate.e_score_correction_bias");
            exempt.add(p + "self_attn.indexer.weights_proj").add(p + "self_attn.indexer.k_norm");
        }
        if (named) {
            exempt.add("model.layers.7.eh_proj");
        }
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm_moe_dsa")),
                name -> linear(name) && !(named && name.endsWith("eh_proj.weight")),
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                config,
                3e-5,
                "fp8");
        draftsAreThoseOfTheNumbers("fp8");
    }

    @Test
    void blocksOfDeepSeekInFp8WithoutAListOfExceptions() throws IOException {
        // As DeepSeek publishes: that eh_proj and the layer's own vocabulary are plain is nowhere said.
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("deepseek_v32").withOwnMtpEmbedding()),
                name -> linear(name) && !name.endsWith("eh_proj.weight"),
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                QuantizedModel.fp8Config(128, 128),
                3e-5,
                "fp8");
        draftsAreThoseOfTheNumbers("fp8");
    }

    @Test
    void channelsOfGlm5InFp8() throws IOException {
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm_moe_dsa").withOwnMtpEmbedding()),
                name -> linear(name) || name.endsWith("shared_head.head.weight"),
                QuantizedModel.fp8(1, 1 << 20, "_scale", "BF16"),
                QuantizedModel.fp8ChannelConfig("lm_head", "re:.*indexer\\.weights_proj", "re:.*mlp\\.gate$"),
                3e-5,
                "fp8");
        draftsAreThoseOfTheNumbers("fp8");
    }

    @Test
    void draftLayerThatTheQuantiserNeverSawShouldBeReadAsItIs() throws IOException {
        logitsAreThoseOfTheNumbers(
                model(TinyModel.of("glm4_moe")),
                name -> linear(name) && !name.startsWith("model.layers.4."),
                QuantizedModel.fp8(1, 1 << 20, "_scale", "F32"),
                QuantizedModel.fp8ChannelConfig("lm_head"),
                3e-5,
                "fp8");
        draftsAreThoseOfTheNumbers("fp8");
    }

    @Test
    void quantisedWeightsOfIndexHeadsShouldBeRefused() throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model(TinyModel.of("glm_moe_dsa")),
                quantised,
                dir.resolve("plain"),
                name -> linear(name) || name.endsWith("weights_proj.weight"),
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                QuantizedModel.fp8Config(128, 128));
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> ModelRun.open(quantised, "auto", 2, KvFormat.F32));
        assertThat(e.code()).isEqualTo("MODEL_QUANT_MISMATCH");
        assertThat(e).hasMessage("weights: model.layers.0.self_attn.indexer.weights_proj.weight: expected a plain tensor"
                + " by config.json, got also model.layers.0.self_attn.indexer.weights_proj.weight_scale_inv;"
                + " check that config.json belongs to these weights");
    }

    // ------------------------------------------------------------------------------------------- trained models

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void trainedModelsInInt4AndFp8(String name) throws IOException {
        Path source = Path.of("../streams/src/main/resources/models", name);
        logitsAreThoseOfTheNumbers(
                source,
                QuantizedCheckpointTest::expert,
                QuantizedModel::int4,
                QuantizedModel.int4Config(KIMI_IGNORES),
                1e-3,
                "int4");
        logitsAreThoseOfTheNumbers(
                source,
                QuantizedCheckpointTest::linear,
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                QuantizedModel.fp8Config(128, 128),
                1e-3,
                "fp8");
    }

    // ---------------------------------------------------------------------------------------------- conversions

    @ParameterizedTest
    @ValueSource(strings = {"kimi_k2", "glm_moe_dsa", "glm4", "glm4_moe", "qwen2"})
    void packedWhileLoadingShouldHaveTheBitsOfBf16(String family) throws IOException {
        Path source = model(TinyModel.of(family));
        try (ModelRun stored = ModelRun.open(source, "auto", 2, KvFormat.F32);
                ModelRun packed = ModelRun.open(source, "auto", 2, KvFormat.F32, "packed")) {
            assertThat(packed.bytesByFormat()).containsKey("packed");
            float[][] expected = stored.all(TOKENS, 16);
            float[][] got = packed.all(TOKENS, 16);
            for (int t = 0; t < TOKENS.length; t++) {
                assertThat(got[t]).as("position %d", t).isEqualTo(expected[t]);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bf16", "packed", "int8", "int4"})
    void quantisedWeightsShouldNotBeRoundedAgain(String format) throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model(TinyModel.of("kimi_k2")),
                quantised,
                dir.resolve("plain"),
                QuantizedCheckpointTest::linear,
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                QuantizedModel.fp8Config(128, 128));
        try (ModelRun stored = ModelRun.open(quantised, "auto", 2, KvFormat.F32);
                ModelRun asked = ModelRun.open(quantised, "auto", 2, KvFormat.F32, format)) {
            assertThat(asked.bytesByFormat().get("fp8")).isEqualTo(stored.bytesByFormat().get("fp8"));
            if (!format.startsWith("int")) {
                assertThat(asked.last(TOKENS, 16)).isEqualTo(stored.last(TOKENS, 16));
            }
        }
    }

    @Test
    void int4ShouldKeepVocabularyIn8BitsAndRoutersAsStored() throws IOException {
        try (ModelRun run = ModelRun.open(model(TinyModel.of("kimi_k2")), "auto", 2, KvFormat.F32, "int4")) {
            long vocabulary = 2L * 2048 / 16 * 1088 * 2;
            assertThat(run.bytesByFormat()).containsOnlyKeys("int4", "int8", "packed", "bf16");
            assertThat(run.bytesByFormat().get("int8")).isEqualTo(vocabulary);
            assertThat(run.bytesByFormat().get("bf16")).as("three routers").isEqualTo(3L * 16 * 128 * 2);
        }
    }

    @Test
    void int4ShouldKeepTheIndexerIn8BitsAndWhatWeighsItsHeadsAsStored() throws IOException {
        Path source = model(TinyModel.of("glm_moe_dsa").withOwnMtpEmbedding());
        try (ModelRun run = ModelRun.openDrafting(source, Backend.open("auto", 2), KvFormat.F32, "int4")) {
            // Two tables of the model and two of the draft layer; 5 indexers of 512 × 64 and 32 × 128.
            long vocabulary = 4L * 2048 / 16 * 1088 * 2;
            long indexers = 5L * (512 / 16 * 1088 + 32 / 16 * 1088 * 2);
            assertThat(run.bytesByFormat().get("int8")).isEqualTo(vocabulary + indexers);
            // 6 routers of 16 × 128, 5 matrices of 16 × 128 that weigh index heads.
            assertThat(run.bytesByFormat().get("bf16")).isEqualTo(11L * 16 * 128 * 2);
        }
    }
}

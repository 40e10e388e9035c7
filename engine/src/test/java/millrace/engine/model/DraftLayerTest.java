package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.InvalidModelException;
import millrace.engine.SafetensorsWriter.Tensor;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.resident.Region;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Draft layers of checkpoints: when there is one, what belongs to it, and what of its weights a step reads.
final class DraftLayerTest {
    @TempDir
    Path dir;

    private ModelConfig config(TinyModel model) throws IOException {
        model.write(dir);
        try (ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig config = ModelConfig.read(files).withDraft(files);
            TensorExpectation.check(config, files);
            return config;
        }
    }

    @ParameterizedTest
    @CsvSource({"glm4_moe, true", "glm4_moe_lite, true", "glm_moe_dsa, true", "kimi_k2, false", "deepseek_v32, false"})
    void everyFamilyOfExpertsMayHaveOne(String family, boolean carriesNormed) throws IOException {
        ModelConfig config = config(TinyModel.of(family));
        assertThat(config.draft()).isEqualTo(new DraftConfig(false, false, carriesNormed));
        assertThat(config.cachedLayers()).isEqualTo(config.numHiddenLayers() + 1);
        assertThat(config.isSparse(config.numHiddenLayers())).isTrue();
    }

    @ParameterizedTest
    @CsvSource({"true, true", "true, false", "false, true"})
    void ownEmbeddingAndHeadShouldBeFoundByTheirTensors(boolean embedding, boolean head) throws IOException {
        ModelConfig config = config(TinyModel.of("glm4_moe").withOwnMtp(embedding, head));
        assertThat(config.draft()).isEqualTo(new DraftConfig(embedding, head, true));
    }

    @Test
    void filesWithoutItsTensorsShouldBeRunWithoutOne() throws IOException {
        ModelConfig config = config(TinyModel.of("glm4_moe").withoutTensors(name -> name.startsWith("model.layers.4.")));
        assertThat(config.draft()).isNull();
        assertThat(config.cachedLayers()).isEqualTo(4);
    }

    @Test
    void tensorsThatTheConfigDoesNotTellOfShouldBeLeftAlone() throws IOException {
        TinyModel.of("kimi_k2").write(dir);
        Files.writeString(
                dir.resolve("config.json"), TinyModel.of("kimi_k2").withoutMtp().config().toString());
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(ModelConfig.read(files).withDraft(files)).isEqualTo(ModelConfig.read(files));
        }
    }

    @Test
    void configAloneShouldNotAskForOne() throws IOException {
        TinyModel.of("kimi_k2").write(dir);
        try (ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig plain = ModelConfig.read(files);
            assertThat(plain.draft()).isNull();
            assertThat(plain.withDraft(files).withDraft((DraftConfig) null)).isEqualTo(plain);
        }
    }

    @Test
    void wrapperAndShardsShouldMakeNoDifference() throws IOException {
        ModelConfig config = config(TinyModel.of("kimi_k2").wrapped().sharded().withOwnMtpEmbedding());
        assertThat(config.draft()).isEqualTo(new DraftConfig(true, true, false));
    }

    @Test
    void onlyTheFirstOfSeveralShouldBeUsed() throws IOException {
        Tensor second = new Tensor("model.layers.5.enorm.weight", "F32", new long[] {1}, new byte[4]);
        ModelConfig config = config(
                TinyModel.of("glm4_moe").with("num_nextn_predict_layers", 2).withTensor(second));
        assertThat(config.cachedLayers()).isEqualTo(5);
    }

    @ParameterizedTest
    @ValueSource(strings = {"enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight",
        "input_layernorm.weight", "self_attn.indexer.wk.weight", "self_attn.indexer.k_norm.bias", "mlp.gate.weight",
        "mlp.experts.15.down_proj.weight"})
    void aPartOfOneShouldBeRefused(String missing) {
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class,
                () -> config(TinyModel.of("glm_moe_dsa").withoutTensors(("model.layers.7." + missing)::equals)));
        assertThat(e.code()).isEqualTo("MODEL_TENSOR_MISSING");
        assertThat(e).hasMessage("weights: expected tensor model.layers.7." + missing
                + " of GlmMoeDsaForCausalLM, got weights without it; complete the checkpoint");
    }

    @Test
    void strangeTensorInOneShouldBeRefused() {
        Tensor strange = new Tensor("model.layers.4.mlp.x", "F32", new long[] {1}, new byte[4]);
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> config(TinyModel.of("glm4_moe").withTensor(strange)));
        assertThat(e.code()).isEqualTo("MODEL_TENSOR_UNEXPECTED");
    }

    @Test
    void shapesShouldBeThoseOfTheReference() {
        ModelConfig config = ModelConfigTest.read(TinyModel.of("glm_moe_dsa").config())
                .withDraft(new DraftConfig(true, true, true));
        Map<String, List<Long>> shapes = TensorExpectation.of(config).stream()
                .collect(Collectors.toMap(TensorExpectation::name, TensorExpectation::shape));
        String p = "model.layers.7.";
        assertThat(shapes.get(p + "eh_proj.weight")).containsExactly(128L, 256L);
        assertThat(shapes.get(p + "embed_tokens.weight")).containsExactly(2048L, 128L);
        assertThat(shapes.get(p + "shared_head.head.weight")).containsExactly(2048L, 128L);
        assertThat(shapes.get(p + "self_attn.indexer.wq_b.weight")).containsExactly(512L, 64L);
        assertThat(shapes.get(p + "self_attn.indexer.wk.weight")).containsExactly(32L, 128L);
        assertThat(shapes.get(p + "self_attn.indexer.k_norm.bias")).containsExactly(32L);
        assertThat(shapes.get(p + "self_attn.indexer.weights_proj.weight")).containsExactly(16L, 128L);
    }

    // -------------------------------------------------------------------------------------------------- weights

    @Test
    void everyTensorOfOneShouldBeAmongTheRegions() throws IOException {
        TinyModel.of("glm_moe_dsa").withOwnMtpEmbedding().write(dir);
        try (ModelFiles files = ModelFiles.open(dir);
                Backend backend = Backend.open("vector", 1)) {
            ModelConfig plain = ModelConfig.read(files);
            ModelConfig config = plain.withDraft(files);
            try (ModelWeights with = ModelWeights.load(config, files, backend.kernels());
                    ModelWeights without = ModelWeights.load(plain, files, backend.kernels())) {
                assertThat(sources(with, files))
                        .containsAll(TensorExpectation.of(config).stream().map(TensorExpectation::name).toList());
                assertThat(sources(without, files)).noneMatch(name -> name.startsWith("model.layers.7."));
                assertThat(without.draft()).isNull();
                assertThat(with.draft().embedding()).isNotSameAs(with.embedding());
                assertThat(with.draft().head()).isNotSameAs(with.lmHead());
                assertThat(with.draft().project().cols()).isEqualTo(256);
            }
        }
    }

    @Test
    void withoutItsOwnItShouldTakeEmbeddingAndHeadOfTheModel() throws IOException {
        TinyModel.of("glm_moe_dsa").write(dir);
        try (ModelFiles files = ModelFiles.open(dir);
                Backend backend = Backend.open("vector", 1);
                ModelWeights weights = ModelWeights.load(
                        ModelConfig.read(files).withDraft(files), files, backend.kernels())) {
            assertThat(weights.draft().embedding()).isSameAs(weights.embedding());
            assertThat(weights.draft().head()).isSameAs(weights.lmHead());
            var latent = (LayerWeights.Latent) weights.draft().layer().attention();
            assertThat(latent.indexer()).isNotNull();
            assertThat(weights.draft().layer().feedForward()).isInstanceOf(LayerWeights.Mixture.class);
        }
    }

    @Test
    void layersThatShareShouldHaveNoIndexer() throws IOException {
        TinyModel.of("glm_moe_dsa").write(dir);
        try (ModelFiles files = ModelFiles.open(dir);
                Backend backend = Backend.open("vector", 1);
                ModelWeights weights = ModelWeights.load(ModelConfig.read(files), files, backend.kernels())) {
            List<Boolean> own = IntStream.range(0, 7)
                    .mapToObj(layer -> ((LayerWeights.Latent) weights.layer(layer).attention()).indexer() != null)
                    .toList();
            assertThat(own).containsExactly(true, true, true, false, false, false, true);
            LayerWeights.Indexer indexer = ((LayerWeights.Latent) weights.layer(6).attention()).indexer();
            String p = "model.layers.6.self_attn.indexer.";
            assertThat(indexer.keyNorm()).isEqualTo(TinyModel.values(p + "k_norm.weight", new long[] {32}));
            assertThat(indexer.keyNormBias()).isEqualTo(TinyModel.values(p + "k_norm.bias", new long[] {32}));
        }
    }

    private static List<String> sources(ModelWeights weights, ModelFiles files) {
        List<Region> regions = weights.regions();
        return IntStream.range(0, regions.size())
                .mapToObj(region -> weights.tensors(region, files))
                .flatMap(List::stream)
                .toList();
    }
}

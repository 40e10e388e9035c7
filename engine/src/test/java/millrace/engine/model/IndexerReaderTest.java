package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import millrace.engine.InvalidModelException;
import millrace.engine.TinyModel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Sparse attention in config.json: the ways to say which layers have an indexer, defaults of the families, and refusals.
final class IndexerReaderTest {
    private static final List<Boolean> TINY = List.of(true, true, true, false, false, false, true);

    private static IndexerConfig indexer(TinyModel model) {
        return ModelConfigTest.read(model.config()).indexer();
    }

    private static TinyModel glm() {
        return TinyModel.of("glm_moe_dsa");
    }

    @Test
    void glmMoeDsaShouldBeRead() {
        ModelConfig config = ModelConfigTest.read(glm().config());
        assertThat(config.family()).isEqualTo(ModelFamily.GLM_MOE_DSA);
        assertThat(config.mla()).isEqualTo(new MlaConfig(64, 64, 24, 16, 48));
        assertThat(config.rope()).isEqualTo(new RopeConfig(10_000, 16, true, new RopeScaling.None()));
        assertThat(config.indexer()).isEqualTo(new IndexerConfig(8, 16, 32, true, TINY, false));
        assertThat(config.moe())
                .isEqualTo(new MoeConfig(
                        16, 4, 1, 64, 1, 1, true, 2.5f, List.of(false, false, true, true, true, true, true)));
        assertThat(config.draft()).as("nobody asked for it").isNull();
        assertThat(config.indexedLayers()).isEqualTo(4);
        assertThat(config.indexedBefore(6)).isEqualTo(3);
    }

    @Test
    void deepseekV32ShouldRotateHalfSplitWithYarn() {
        ModelConfig config = ModelConfigTest.read(TinyModel.of("deepseek_v32").config());
        assertThat(config.family()).isEqualTo(ModelFamily.DEEPSEEK_V32);
        assertThat(config.indexer().interleaved()).isFalse();
        assertThat(config.rope().interleaved()).as("that of attention").isTrue();
        assertThat(config.rope().scaling()).isEqualTo(new RopeScaling.Yarn(4, 64, 32, 1, 1.0, 1.0, null, true));
        assertThat(config.indexer().full()).containsOnly(true).hasSize(7);
    }

    @Test
    void layoutOfTheIndexerShouldBeThatOfTheFamilyUnlessTheConfigSaysAnother() {
        assertThat(indexer(glm().with("indexer_rope_interleave", null)).interleaved()).isTrue();
        assertThat(indexer(glm().with("indexer_rope_interleave", false)).interleaved()).isFalse();
        assertThat(indexer(TinyModel.of("deepseek_v32").with("indexer_rope_interleave", true)).interleaved())
                .isTrue();
    }

    @Test
    void listPatternAndFormulaShouldSayTheSame() {
        IndexerConfig listed = indexer(glm());
        assertThat(indexer(glm().withIndexersByFormula())).isEqualTo(listed);
        assertThat(indexer(glm().withIndexersByPattern())).isEqualTo(listed);
        assertThat(indexer(glm().withIndexersEverywhere()).full()).containsOnly(true).hasSize(7);
    }

    @Test
    void listShouldWinOverPatternAndPatternOverFormula() {
        TinyModel all = glm().with("index_topk_pattern", "FSSSSSS").with("index_topk_freq", 2);
        assertThat(indexer(all).full()).isEqualTo(TINY);
        assertThat(indexer(all.with("indexer_types", null)).full())
                .containsExactly(true, false, false, false, false, false, false);
        assertThat(indexer(all.with("index_topk_pattern", null)).full())
                .as("every second, with the offset of 2")
                .containsExactly(true, true, false, true, false, true, false);
    }

    @Test
    void glm52ShouldHave21IndexersIn78Layers() {
        IndexerConfig config = indexer(glm().with("num_hidden_layers", 78).withIndexersByFormula());
        assertThat(config.fullLayers()).isEqualTo(21);
        List<Integer> full = IntStream.range(0, 78).filter(config.full()::get).boxed().toList();
        assertThat(full).startsWith(0, 1, 2, 6, 10, 14).endsWith(70, 74);
    }

    @Test
    void moreThanTheContextShouldBeTheContext() {
        assertThat(indexer(glm().with("index_topk", 100_000_000)).topK()).isEqualTo(512);
    }

    @Test
    void patternMayNameTheDraftLayerToo() {
        assertThat(indexer(glm().withIndexersByPattern().with("index_topk_pattern", "FFFSSSFF")).full()).isEqualTo(TINY);
    }

    @Test
    void sharingAcrossDraftsShouldBeRead() {
        assertThat(indexer(glm().with("index_share_for_mtp_iteration", true)).shareAcrossDrafts()).isTrue();
    }

    @Test
    void expertsOfGlmShouldHaveTheDefaultsOfItsReference() {
        ModelConfig config = ModelConfigTest.read("glm_moe_dsa", c -> {
            c.remove(List.of("n_group", "topk_group", "scoring_func", "topk_method", "norm_topk_prob"));
            c.put("moe_router_dtype", "float32");
        });
        assertThat(config).isEqualTo(ModelConfigTest.read("glm_moe_dsa", c -> {}));
    }

    // ------------------------------------------------------------------------------------------------- refusals

    private static void refused(Consumer<ObjectNode> change, String code, String message) {
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> ModelConfigTest.read("glm_moe_dsa", change));
        assertThat(e).as("refusal: " + message).isNotNull();
        assertThat(e.code()).isEqualTo(code);
        assertThat(e).hasMessage("config.json: " + message);
    }

    @ParameterizedTest
    @ValueSource(strings = {"index_topk", "index_n_heads", "index_head_dim", "q_lora_rank"})
    void whatAnIndexerNeedsShouldBeThere(String key) {
        refused(c -> c.remove(key), "CONFIG_MISSING", key + ": expected a value, got none; restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "index_topk; 0; a whole number from 1 to 268435456",
        "index_n_heads; 0; a whole number from 1 to 4096",
        "index_n_heads; 4097; a whole number from 1 to 4096",
        "index_head_dim; 1; a whole number from 2 to 512",
        "index_head_dim; 513; a whole number from 2 to 512",
        "index_head_dim; 15; at least qk_rope_head_dim 16",
        "num_nextn_predict_layers; -1; a whole number from 0 to 1024"
    })
    void numberOutOfRangeShouldBeRefused(String key, int value, String expected) {
        refused(
                c -> c.put(key, value),
                "CONFIG_RANGE",
                key + ": expected " + expected + ", got " + value + "; restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "index_topk_freq; 0; a whole number from 1 to 1024",
        "index_skip_topk_offset; -1; a whole number from 0 to 1024"
    })
    void formulaOutOfRangeShouldBeRefused(String key, int value, String expected) {
        refused(
                c -> c.put(key, value).remove("indexer_types"),
                "CONFIG_RANGE",
                key + ": expected " + expected + ", got " + value + "; restore the file");
    }

    @Test
    void indexersOfTooFewLayersShouldBeRefused() {
        refused(
                c -> c.putArray("indexer_types").add("full").add("shared"),
                "CONFIG_RANGE",
                "indexer_types: expected full or shared for each of 7 layers, got 2 values [\"full\", \"shared\"];"
                        + " restore config.json");
        refused(
                c -> c.put("index_topk_pattern", "FFS").remove("indexer_types"),
                "CONFIG_RANGE",
                "index_topk_pattern: expected F or S for each of 7 layers, got 3 values [\"F\", \"S\"];"
                        + " restore config.json");
    }

    @Test
    void unknownKindOfIndexerShouldBeRefused() {
        refused(
                c -> c.withArray("/indexer_types").add("skip"),
                "CONFIG_RANGE",
                "indexer_types: expected full or shared for each of 7 layers, got 9 values"
                        + " [\"full\", \"shared\", \"skip\"]; restore config.json");
        refused(
                c -> c.put("index_topk_pattern", "FFFSSSf").remove("indexer_types"),
                "CONFIG_RANGE",
                "index_topk_pattern: expected F or S for each of 7 layers, got 7 values [\"F\", \"S\", \"f\"];"
                        + " restore config.json");
    }

    @Test
    void firstLayerWithoutAnIndexerShouldBeRefused() {
        refused(
                c -> c.withArray("/indexer_types").set(0, "shared"),
                "CONFIG_RANGE",
                "indexer_types: expected full in the first layer, got \"shared\"; restore config.json");
        refused(
                c -> c.put("index_topk_pattern", "SFFSSSF").remove("indexer_types"),
                "CONFIG_RANGE",
                "index_topk_pattern: expected F in the first layer, got \"S\"; restore config.json");
        refused(
                c -> c.put("index_topk_freq", 4).put("index_skip_topk_offset", 0).remove("indexer_types"),
                "CONFIG_RANGE",
                "index_skip_topk_offset: expected 1 or more, so that the first layer has an indexer, got 0;"
                        + " restore the file");
    }

    @Test
    void draftLayerWithoutAnIndexerShouldBeRefused() {
        refused(
                c -> c.withArray("/indexer_types").set(7, "shared"),
                "CONFIG_UNSUPPORTED",
                "indexer_types: expected full in draft layers, got \"shared\"; restore config.json");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "index_topk; 2048", "index_n_heads; 32", "index_head_dim; 128", "indexer_types; [\"full\"]",
        "index_topk_pattern; \"F\"", "index_topk_freq; 4"
    })
    void indexerInAFamilyWithoutShouldBeRefused(String key, String value) {
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class,
                () -> ModelConfigTest.read(
                        "kimi_k2", c -> c.setAll(ModelConfigTest.object("{\"" + key + "\":" + value + "}"))));
        assertThat(e.code()).isEqualTo("CONFIG_UNSUPPORTED");
        assertThat(e).hasMessage("config.json: " + key + ": expected none in a DEEPSEEK_V3 model, got one;"
                + " check that model_type and architectures are those of the model");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "indexer_types; \"full\"; a list of strings",
        "index_topk_pattern; [\"F\"]; a string",
        "indexer_rope_interleave; 1; true or false",
        "index_share_for_mtp_iteration; \"yes\"; true or false",
        "num_nextn_predict_layers; true; a whole number"
    })
    void valueOfAnotherKindShouldBeRefused(String key, String value, String expected) {
        refused(
                c -> {
                    if (key.equals("index_topk_pattern")) {
                        c.remove("indexer_types");
                    }
                    c.setAll(ModelConfigTest.object("{\"" + key + "\":" + value + "}"));
                },
                "CONFIG_TYPE",
                key + ": expected " + expected + ", got another kind of value; restore the file");
    }
}

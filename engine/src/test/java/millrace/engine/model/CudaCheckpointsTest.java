package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Predicate;
import java.util.stream.Stream;
import millrace.engine.CudaConfig;
import millrace.engine.KvFormat;
import millrace.engine.ModelPacker;
import millrace.engine.QuantizedModel;
import millrace.engine.QuantizedModel.Scheme;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/// Checkpoints whose files hold codes, on the CUDA backend: the numbers of the processor within rounding, its greedy tokens,
/// and the same bits however a prompt is cut. [QuantizedCheckpointTest] says what the processor makes of them.
final class CudaCheckpointsTest {
    private static final int[] TOKENS = Arrays.stream(TinyModel.tokens(40)).map(id -> id % 1280).toArray();

    /// Of the largest logit of a position: the row `f32` of docs/numerics.md.
    private static final double NEAR = 0x1p-15;

    private static final Path TRAINED = Path.of("../streams/src/main/resources/models");

    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    private static Backend cuda() {
        return Backend.open("cuda", 2, CudaConfig.STANDIN.withMemoryBytes(512 << 20));
    }

    /// @param format that matrices are to have in memory
    private static void shouldBeNearTheProcessors(Path model, boolean drafting, String format) {
        try (ModelRun cpu = open(model, drafting, Backend.open("auto", 2));
                ModelRun device = open(model, drafting, cuda())) {
            assertThat(device.bytesByFormat()).isEqualTo(cpu.bytesByFormat()).containsKey(format);
            float[][] got = device.all(TOKENS, 16);
            assertNear(got, cpu.all(TOKENS, 16), "position");
            for (int chunk : new int[] {7, 1}) {
                assertThat(device.last(TOKENS, chunk)).as("chunks of %d", chunk).containsExactly(got[TOKENS.length - 1]);
            }
            if (drafting) {
                assertNear(device.drafts(TOKENS, 16), cpu.drafts(TOKENS, 16), "draft after position");
            }
        }
    }

    private static ModelRun open(Path model, boolean drafting, Backend backend) {
        return drafting ? ModelRun.openDrafting(model, backend, KvFormat.F32) : ModelRun.open(model, backend, KvFormat.F32);
    }

    private static void assertNear(float[][] got, float[][] expected, String what) {
        assertThat(got.length).isEqualTo(expected.length);
        for (int t = 0; t < got.length; t++) {
            assertThat(largest(got[t])).as("greedy token, %s %d", what, t).isEqualTo(largest(expected[t]));
            double scale = 0;
            double difference = 0;
            for (int i = 0; i < got[t].length; i++) {
                scale = Math.max(scale, Math.abs(expected[t][i]));
                difference = Math.max(difference, Math.abs((double) got[t][i] - expected[t][i]));
            }
            assertThat(difference).as("%s %d", what, t).isLessThanOrEqualTo(NEAR * scale);
        }
    }

    private static int largest(float[] logits) {
        int best = 0;
        for (int i = 1; i < logits.length; i++) {
            best = logits[i] > logits[best] ? i : best;
        }
        return best;
    }

    // -------------------------------------------------------------------------------------------- as published

    private static Arguments of(
            String name, TinyModel model, Predicate<String> which, Scheme scheme, ObjectNode config, String format) {
        return Arguments.of(name, model, which, scheme, config, format);
    }

    static Stream<Arguments> published() {
        Predicate<String> linear = QuantizedCheckpointTest::linear;
        Predicate<String> experts = QuantizedCheckpointTest::expert;
        Scheme int4 = QuantizedModel::int4;
        Scheme channels = QuantizedModel.fp8(1, 1 << 20, "_scale", "BF16");
        ObjectNode compressedBlocks = QuantizedModel.fp8ChannelConfig("lm_head");
        QuantizedModel.weights(compressedBlocks).put("strategy", "block").putArray("block_structure").add(128).add(128);
        ObjectNode oneScale = QuantizedModel.fp8ChannelConfig("lm_head");
        QuantizedModel.weights(oneScale).put("strategy", "tensor");
        return Stream.of(
                of("Kimi's experts in INT4", TinyModel.of("kimi_k2").wrapped().with("moe_intermediate_size", 80), experts,
                        int4, QuantizedModel.int4Config(QuantizedCheckpointTest.KIMI_IGNORES), "int4"),
                of("everything of Kimi in INT4", TinyModel.of("kimi_k2"), linear, int4,
                        QuantizedModel.int4Config("lm_head"), "int4"),
                of("fused projections in INT4", TinyModel.of("glm4").with("intermediate_size", 328), linear, int4,
                        QuantizedModel.int4Config("lm_head"), "int4"),
                of("GLM-5's experts in INT4", TinyModel.of("glm_moe_dsa"), experts, int4,
                        QuantizedModel.int4Config("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                                "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "model.layers.7.eh_proj"), "int4"),
                blocks("kimi_k2", linear, "F8_E8M0"),
                blocks("glm4_moe", linear, "F32"),
                blocks("qwen2", linear, "BF16"),
                blocks("deepseek_v32", name -> linear.test(name) && !name.endsWith("eh_proj.weight"), "F32"),
                of("compressed blocks in FP8", TinyModel.of("glm4_moe").withoutMtp(), linear,
                        QuantizedModel.fp8(128, 128, "_scale", "BF16"), compressedBlocks, "fp8"),
                of("channels of GLM in FP8", TinyModel.of("glm4_moe"),
                        name -> linear.test(name) && !name.startsWith("model.layers.4."), channels,
                        QuantizedModel.fp8ChannelConfig("lm_head", "re:.*layers\\.4.*"), "fp8"),
                of("channels of GLM-5 in FP8", TinyModel.of("glm_moe_dsa").withOwnMtpEmbedding(),
                        name -> linear.test(name) || name.endsWith("shared_head.head.weight"), channels,
                        QuantizedModel.fp8ChannelConfig("lm_head", "re:.*indexer\\.weights_proj", "re:.*mlp\\.gate$"), "fp8"),
                of("one scale of Llama in FP8", TinyModel.of("llama"), linear,
                        QuantizedModel.fp8(1 << 20, 1 << 20, "_scale", "F32"), oneScale, "fp8"));
    }

    private static Arguments blocks(String family, Predicate<String> which, String scales) {
        return of("blocks of " + family + " in FP8, scales in " + scales, TinyModel.of(family), which,
                QuantizedModel.fp8(128, 128, "_scale_inv", scales), QuantizedModel.fp8Config(128, 128), "fp8");
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("published")
    void storedCodesShouldGiveTheProcessorsNumbers(
            String name, TinyModel model, Predicate<String> which, Scheme scheme, ObjectNode config, String format)
            throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model.write(Files.createDirectory(dir.resolve("source"))), quantised, dir.resolve("plain"), which, scheme,
                config);
        boolean drafting = model.config().path("num_nextn_predict_layers").asInt() > 0;
        shouldBeNearTheProcessors(quantised, drafting, format);
    }

    // -------------------------------------------------------------------------------------------- as packed here

    @ParameterizedTest
    @CsvSource({"kimi_k2, packed", "kimi_k2, int8", "glm4_moe, int4", "glm4, int8", "glm_moe_dsa, int4", "qwen3, packed",
        "deepseek_v32, int8", "glm4_moe_lite, int4", "llama, int4", "qwen2, int8"})
    void packedFilesShouldGiveTheProcessorsNumbers(String family, String format) throws IOException {
        TinyModel model = TinyModel.of(family).sharded().withTokenizer();
        Path packed = dir.resolve("packed");
        ModelPacker.pack(model.write(Files.createDirectory(dir.resolve("source"))), format, packed, (done, all) -> {});
        boolean drafting = model.config().path("num_nextn_predict_layers").asInt() > 0;
        shouldBeNearTheProcessors(packed, drafting, format);
    }

    // -------------------------------------------------------------------------------------------- trained models

    @ParameterizedTest
    @CsvSource({"glm-tiny, int4", "glm-tiny, int8", "kimi-tiny, packed", "kimi-tiny, int8"})
    void trainedModelsShouldGiveTheProcessorsNumbersWhenPacked(String name, String format) throws IOException {
        Path packed = dir.resolve("packed");
        ModelPacker.pack(TRAINED.resolve(name), format, packed, (done, all) -> {});
        shouldBeNearTheProcessors(packed, false, format);
    }

    @ParameterizedTest
    @CsvSource({"glm-tiny, int4", "glm-tiny, fp8", "kimi-tiny, int4", "kimi-tiny, fp8"})
    void trainedModelsShouldGiveTheProcessorsNumbersAsPublished(String name, String format) throws IOException {
        Path quantised = dir.resolve("quantised");
        boolean int4 = format.equals("int4");
        QuantizedModel.write(
                TRAINED.resolve(name), quantised, dir.resolve("plain"),
                int4 ? QuantizedCheckpointTest::expert : QuantizedCheckpointTest::linear,
                int4 ? QuantizedModel::int4 : QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                int4 ? QuantizedModel.int4Config(QuantizedCheckpointTest.KIMI_IGNORES) : QuantizedModel.fp8Config(128, 128));
        shouldBeNearTheProcessors(quantised, false, format);
    }

    /// Its own files are those of the draft layer; the others are glm-tiny's.
    @Test
    void trainedDraftLayerShouldGiveTheProcessorsNumbers() throws IOException {
        for (String from : new String[] {"glm-tiny", "glm-tiny-mtp"}) {
            try (Stream<Path> files = Files.list(TRAINED.resolve(from))) {
                for (Path file : files.toList()) {
                    Files.write(dir.resolve(file.getFileName()), Files.readAllBytes(file));
                }
            }
        }
        shouldBeNearTheProcessors(dir, true, "bf16");
    }
}

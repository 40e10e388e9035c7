package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import millrace.engine.ModelPacker.Report;
import millrace.engine.kernel.Backend;
import millrace.engine.model.ModelRun;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class ModelPackerTest {
    private static final int[] TOKENS =
            Arrays.stream(TinyModel.tokens(40)).map(id -> id % 1280).toArray();
    private static final ModelPacker.Progress SILENT = (done, total) -> {};

    @TempDir
    Path dir;

    private Path model(TinyModel model) throws IOException {
        return model.write(Files.createDirectory(dir.resolve("source")));
    }

    private static Path trained(String name) {
        return Path.of("../streams/src/main/resources/models", name);
    }

    private static float[] logits(Path model, String weights) {
        try (ModelRun run = ModelRun.open(model, "auto", 2, KvFormat.F32, weights)) {
            return run.last(TOKENS, 16);
        }
    }

    private static long weightBytes(Path model) throws IOException {
        try (Stream<Path> files = Files.list(model)) {
            return files.filter(file -> file.toString().endsWith(".safetensors"))
                    .mapToLong(file -> file.toFile().length())
                    .sum();
        }
    }

    private static void sameTensors(Path a, Path b) {
        try (ModelFiles first = ModelFiles.open(a);
                ModelFiles second = ModelFiles.open(b)) {
            assertThat(second.tensorNames()).containsExactlyInAnyOrderElementsOf(first.tensorNames());
            for (String name : first.tensorNames()) {
                assertThat(second.tensor(name).dtype()).as(name).isEqualTo(first.tensor(name).dtype());
                assertThat(second.tensor(name).shape()).as(name).isEqualTo(first.tensor(name).shape());
                assertThat(second.tensor(name).data().mismatch(first.tensor(name).data())).as(name).isEqualTo(-1);
            }
        }
    }

    // --------------------------------------------------------------------------------------------------- formats

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void trainedModelsShouldPackToAtMost77PercentWithTheSameBits(String name) throws IOException {
        Path packed = dir.resolve("packed");
        Report report = ModelPacker.pack(trained(name), "packed", packed, SILENT);
        assertThat(weightBytes(packed)).isLessThanOrEqualTo(77 * weightBytes(trained(name)) / 100);
        assertThat(report.bytes()).isEqualTo(weightBytes(packed));
        assertThat(report.bitsPerWeight()).isBetween(12.0, 12.35);
        assertThat(logits(packed, "stored")).isEqualTo(logits(trained(name), "stored"));
        Path back = dir.resolve("back");
        ModelPacker.pack(packed, "bf16", back, SILENT);
        sameTensors(trained(name), back);
        assertThat(Files.readString(back.resolve("config.json"))).doesNotContain("quantization_config");
    }

    @ParameterizedTest
    @ValueSource(strings = {"packed", "int8", "int4"})
    void packedFilesShouldBeWhatLoadingWouldMakeOfTheModel(String format) throws IOException {
        // Shards, a wrapper, a draft layer that is carried along, and projections of latents.
        Path source = model(TinyModel.of("kimi_k2").wrapped().sharded().withTokenizer());
        Path packed = dir.resolve("packed");
        Report report = ModelPacker.pack(source, format, packed, 200_000, SILENT);
        assertThat(report.files()).isGreaterThan(3);
        assertThat(packed.toFile().list())
                .contains("model.safetensors.index.json", "tokenizer.json", "chat_template.jinja")
                .noneMatch(file -> file.endsWith(".done") || file.endsWith(".partial"));
        assertThat(logits(packed, "stored")).isEqualTo(logits(source, format));
    }

    @ParameterizedTest
    @CsvSource({"glm_moe_dsa, packed", "glm_moe_dsa, int8", "glm_moe_dsa, int4", "glm_moe_dsa, bf16", "glm4_moe, packed",
        "kimi_k2, int8"})
    void draftLayersAndIndexersShouldBePackedToo(String family, String format) throws IOException {
        Path source = model(TinyModel.of(family).sharded().withOwnMtp(true, false).withTokenizer());
        Path packed = dir.resolve("packed");
        Report report = ModelPacker.pack(source, format, packed, 200_000, SILENT);
        assertThat(formatsOf(report, "eh_proj.weight")).containsExactly(format);
        if (family.equals("glm_moe_dsa")) {
            assertThat(formatsOf(report, ".weights_proj.weight"))
                    .as("kept as routers are")
                    .containsExactly(format.startsWith("int") ? "bf16" : format);
            assertThat(formatsOf(report, ".wk.weight")).containsExactly(format.equals("int4") ? "int8" : format);
        }
        assertThat(report.lossless()).isEqualTo(!format.startsWith("int"));
        try (ModelRun expected = drafting(source, format);
                ModelRun got = drafting(packed, "stored")) {
            assertThat(got.drafts(TOKENS, 16)).isDeepEqualTo(expected.drafts(TOKENS, 16));
        }
        assertThat(logits(packed, "stored")).isEqualTo(logits(source, format));
    }

    private static Set<String> formatsOf(Report report, String end) {
        return report.matrices().stream()
                .filter(matrix -> matrix.name().endsWith(end))
                .map(ModelPacker.PackedMatrix::format)
                .collect(Collectors.toSet());
    }

    private static ModelRun drafting(Path model, String weights) {
        return ModelRun.openDrafting(model, Backend.open("auto", 2), KvFormat.F32, weights);
    }

    @Test
    void quantisedDraftLayerShouldBeLaidOutAnewWithoutLoss() throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model(TinyModel.of("glm_moe_dsa")),
                quantised,
                dir.resolve("plain"),
                name -> name.matches(".*(_proj|_mqa|indexer.wq_b|indexer.wk).weight") && !name.contains("weights_proj"),
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                QuantizedModel.fp8Config(128, 128));
        Path packed = dir.resolve("packed");
        ModelPacker.pack(quantised, "packed", packed, SILENT);
        try (ModelRun expected = drafting(quantised, "stored");
                ModelRun got = drafting(packed, "stored")) {
            assertThat(got.drafts(TOKENS, 16)).isDeepEqualTo(expected.drafts(TOKENS, 16));
            assertThat(got.bytesByFormat().get("fp8")).isEqualTo(expected.bytesByFormat().get("fp8"));
        }
    }

    @Test
    void partOfADraftLayerShouldNotBePacked() throws IOException {
        Path source = model(TinyModel.of("glm4_moe").withoutTensors("model.layers.4.hnorm.weight"::equals));
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> ModelPacker.pack(source, "int8", dir.resolve("packed"), SILENT));
        assertThat(e.code()).isEqualTo("MODEL_TENSOR_MISSING");
    }

    @ParameterizedTest
    @ValueSource(strings = {"int8", "int4"})
    void bf16OfQuantisedWeightsShouldBeTheirNumbersRounded(String format) throws IOException {
        Path source = model(TinyModel.of("glm4").with("intermediate_size", 328));
        Path quantised = dir.resolve("quantised");
        Path rounded = dir.resolve("rounded");
        ModelPacker.pack(source, format, quantised, SILENT);
        ModelPacker.pack(quantised, "bf16", rounded, SILENT);
        float[] expected = logits(quantised, "stored");
        float[] got = logits(rounded, "stored");
        for (int i = 0; i < got.length; i++) {
            assertThat(Math.abs(got[i] - expected[i])).isLessThan(0.05f);
        }
    }

    @Test
    void quantisedLayersShouldBeLaidOutAnewWithoutLoss() throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model(TinyModel.of("kimi_k2")),
                quantised,
                dir.resolve("plain"),
                name -> name.contains(".mlp.experts.") && !name.startsWith("model.layers.4."),
                QuantizedModel::int4,
                QuantizedModel.int4Config("lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
                        "re:.*mlp\\.(gate|up|down)_proj"));
        Path packed = dir.resolve("packed");
        Report report = ModelPacker.pack(quantised, "packed", packed, SILENT);
        assertThat(report.matrices()).anyMatch(matrix -> matrix.format().equals("int4"));
        assertThat(logits(packed, "stored")).isEqualTo(logits(quantised, "stored"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"F16", "F32"})
    void whatWasNotPublishedInBf16ShouldKeepItsNumbers(String dtype) throws IOException {
        Path source = model(TinyModel.of("qwen2").dtype(dtype));
        Path packed = dir.resolve("packed");
        ModelPacker.pack(source, "packed", packed, SILENT);
        assertThat(logits(packed, "stored")).isEqualTo(logits(source, "stored"));
    }

    // ---------------------------------------------------------------------------------------------- inspection

    @Test
    void inspectionShouldSayWhatPackingCounted() {
        Path packed = dir.resolve("packed");
        Report report = ModelPacker.pack(trained("glm-tiny"), "packed", packed, SILENT);
        ModelInspection inspection = ModelInspection.of(packed, null);
        assertThat(inspection.parameters()).isEqualTo(ModelInspection.of(trained("glm-tiny"), null).parameters());
        assertThat(inspection.tensorsSkipped()).isZero();
        ModelInspection.WeightCost cost = inspection.weights().stream()
                .filter(one -> one.format().equals("packed"))
                .findFirst()
                .orElseThrow();
        assertThat(cost.escapes()).isEqualTo(report.matrices().stream()
                .mapToLong(ModelPacker.PackedMatrix::escapes)
                .sum());
        assertThat(inspection.weights().stream().mapToLong(ModelInspection.WeightCost::bytes).sum())
                .isEqualTo(report.matrices().stream().mapToLong(ModelPacker.PackedMatrix::bytes).sum());
        assertThat(inspection.mostEscapes()).hasSizeLessThanOrEqualTo(5);
    }

    @Test
    void inspectionShouldTakeThePartsOfAQuantisedLayerAsUsed() throws IOException {
        Path quantised = dir.resolve("quantised");
        QuantizedModel.write(
                model(TinyModel.of("llama")),
                quantised,
                dir.resolve("plain"),
                name -> name.endsWith("_proj.weight"),
                QuantizedModel::int4,
                QuantizedModel.int4Config("lm_head"));
        ModelInspection inspection = ModelInspection.of(quantised, null);
        assertThat(inspection.tensorsSkipped()).isZero();
        assertThat(inspection.weights()).extracting(ModelInspection.WeightCost::format).containsExactly("bf16", "int4");
        assertThat(inspection.weights().get(1).bitsPerWeight()).isEqualTo(4.5);
    }

    @Test
    void inspectionShouldRefuseADamagedPackedModel() throws IOException {
        Path packed = dir.resolve("packed");
        ModelPacker.pack(model(TinyModel.of("qwen3")), "packed", packed, SILENT);
        Path file = packed.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(file);
        bytes[bytes.length - 5000] ^= 4;
        Files.write(file, bytes);
        InvalidModelException e =
                catchThrowableOfType(InvalidModelException.class, () -> ModelInspection.of(packed, null));
        assertThat(e.code()).isEqualTo("BLOCK_CRC");
    }

    // ------------------------------------------------------------------------------------------ whole or nothing

    private static final class Stopped extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /// Stops when so many files are done, as a lost process would.
    private static ModelPacker.Progress stopAfter(int files) {
        int[] heard = new int[1];
        return (done, total) -> {
            if (done > 0 && ++heard[0] == files) {
                throw new Stopped();
            }
        };
    }

    @Test
    void interruptedRunShouldGoOnWithWhatIsFinished() throws IOException {
        Path source = model(TinyModel.of("llama"));
        Path whole = dir.resolve("whole");
        int files = ModelPacker.pack(source, "packed", whole, 200_000, SILENT).files();
        Path packed = dir.resolve("packed");
        assertThatThrownBy(() -> ModelPacker.pack(source, "packed", packed, 200_000, stopAfter(2)))
                .isInstanceOf(Stopped.class);
        assertThat(packed).doesNotExist();
        Report report = ModelPacker.pack(source, "packed", packed, 200_000, SILENT);
        assertThat(report.resumed()).isEqualTo(2);
        assertThat(report.files()).isEqualTo(files);
        sameTensors(whole, packed);
        assertThat(dir.resolve("packed.partial")).doesNotExist();
    }

    @Test
    void damagedOrForeignLeftoversShouldBeMadeAgain() throws IOException {
        Path source = model(TinyModel.of("llama"));
        Path packed = dir.resolve("packed");
        assertThatThrownBy(() -> ModelPacker.pack(source, "packed", packed, 200_000, stopAfter(2)))
                .isInstanceOf(Stopped.class);
        Path first;
        try (Stream<Path> left = Files.list(dir.resolve("packed.partial"))) {
            first = left.filter(file -> file.toString().endsWith(".safetensors")).sorted().findFirst().orElseThrow();
        }
        byte[] bytes = Files.readAllBytes(first);
        bytes[bytes.length / 2] ^= 1;
        Files.write(first, bytes);
        assertThatThrownBy(() -> ModelPacker.pack(source, "packed", packed, 200_000, stopAfter(2)))
                .isInstanceOf(Stopped.class);
        Files.writeString(dir.resolve("packed.partial/model-00001-of-00002.safetensors"), "of another source");
        assertThat(ModelPacker.pack(source, "int8", packed, 200_000, SILENT).resumed())
                .as("files of another format")
                .isZero();
        assertThat(logits(packed, "stored")).isEqualTo(logits(source, "int8"));
        assertThat(packed.toFile().list()).doesNotContain("model-00001-of-00002.safetensors");
    }

    @Test
    void placesInUseShouldBeRefused() throws IOException {
        Path source = model(TinyModel.of("qwen3"));
        Path used = Files.createDirectory(dir.resolve("used"));
        Files.writeString(used.resolve("x"), "x");
        for (Path target : List.of(used, used.resolve("x"))) {
            InvalidModelException e = catchThrowableOfType(
                    InvalidModelException.class, () -> ModelPacker.pack(source, "int8", target, SILENT));
            assertThat(e.code()).isEqualTo("PACK_OUTPUT");
        }
        Path empty = Files.createDirectory(dir.resolve("empty"));
        ModelPacker.pack(source, "int8", empty, SILENT);
        assertThat(empty.resolve("config.json")).exists();
    }

    @Test
    void directoriesOfOthersShouldNotBeTouched() throws IOException {
        Path source = model(TinyModel.of("qwen3"));
        Path partial = Files.createDirectory(dir.resolve("packed.partial"));
        Files.writeString(partial.resolve("mine"), "x");
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> ModelPacker.pack(source, "int8", dir.resolve("packed"), SILENT));
        assertThat(e.code()).isEqualTo("PACK_OUTPUT");
        assertThat(partial.resolve("mine")).hasContent("x");
    }

    @Test
    void twoRunsShouldNotWriteToOnePlace() throws IOException {
        Path source = model(TinyModel.of("qwen3"));
        Path target = dir.resolve("packed");
        String[] codes = new String[1];
        ModelPacker.pack(source, "int8", target, (done, total) -> {
            if (done == 0) {
                codes[0] = catchThrowableOfType(
                                InvalidModelException.class, () -> ModelPacker.pack(source, "int8", target, SILENT))
                        .code();
            }
        });
        assertThat(codes).containsExactly("PACK_OUTPUT");
        assertThat(target.toFile().list()).contains("model.safetensors").doesNotContain("millrace-pack.lock");
    }

    @Test
    void damagedPackedModelShouldBeRefusedWhenItIsLoaded() throws IOException {
        Path packed = dir.resolve("packed");
        ModelPacker.pack(model(TinyModel.of("qwen3")), "packed", packed, SILENT);
        Path file = packed.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(file);
        bytes[bytes.length - 5000] ^= 4;
        Files.write(file, bytes);
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> logits(packed, "stored"));
        assertThat(e.code()).isEqualTo("BLOCK_CRC");
    }
}

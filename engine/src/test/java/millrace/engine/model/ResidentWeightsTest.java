package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.resident.BlockTable;
import millrace.engine.resident.MatrixRegion;
import millrace.engine.resident.Region;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/// All that steps read is watched, and can be made again from the files, bit for bit.
class ResidentWeightsTest {
    @TempDir
    Path dir;

    static Stream<Arguments> models() {
        return Stream.of("glm4_moe", "glm4_moe_lite", "kimi_k2", "glm_moe_dsa", "glm4", "llama", "qwen2", "qwen3")
                .flatMap(model -> Stream.of("stored", "packed", "int8", "int4").map(to -> Arguments.of(model, to)));
    }

    @ParameterizedTest
    @MethodSource("models")
    void everyRegionIsMadeAgainBitForBit(String type, String target) throws IOException {
        TinyModel.of(type).withOwnMtp(true, false).write(dir);
        try (Backend two = Backend.open("scalar", 2);
                ModelFiles files = ModelFiles.open(dir);
                ModelWeights weights = ModelWeights.load(
                        ModelConfig.read(files).withDraft(files), files, two.kernels(), WeightTargets.of(target));
                ModelFiles later = ModelFiles.open(dir);
                Backend one = Backend.open("scalar", 1)) {
            List<Region> regions = weights.regions();
            Set<String> names = new HashSet<>();
            for (int r = 0; r < regions.size(); r++) {
                Region region = regions.get(r);
                assertThat(names.add(region.name())).as(region.name()).isTrue();
                assertThat(weights.tensors(r, later)).as(region.name()).allMatch(later::has);
                try (Arena scratch = Arena.ofShared()) {
                    Region again = weights.again(r, later, one.kernels(), scratch);
                    assertThat(again.name()).isEqualTo(region.name());
                    assertThat(again.blocks()).isEqualTo(region.blocks());
                    for (int b = 0; b < region.blocks(); b++) {
                        assertThat(again.checksum(b)).as(region.name()).isEqualTo(region.checksum(b));
                        assertThat(again.numbersChecksum(b)).isEqualTo(region.numbersChecksum(b));
                        assertThat(region.decodedChecksum(b)).isEqualTo(region.numbersChecksum(b));
                    }
                }
            }
            long matrices = regions.stream()
                    .filter(MatrixRegion.class::isInstance)
                    .mapToLong(Region::bytes)
                    .sum();
            assertThat(matrices).isEqualTo(
                    weights.bytesByFormat().values().stream().mapToLong(Long::longValue).sum());
            try (BlockTable table = BlockTable.of("", regions, one.kernels()::forEach);
                    BlockTable same = BlockTable.of("", regions, two.kernels()::forEach)) {
                assertThat(table.sha256()).isEqualTo(same.sha256());
            }
        }
    }

    /// Norms, biases and matrices of the checkpoint, those of its draft layer included: none is left out.
    @ParameterizedTest
    @MethodSource("models")
    void everyTensorOfTheConfigIsWatched(String type, String target) throws IOException {
        TinyModel.of(type).withOwnMtpEmbedding().write(dir);
        try (Backend backend = Backend.open("scalar", 1);
                ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig config = ModelConfig.read(files).withDraft(files);
            try (ModelWeights weights =
                    ModelWeights.load(config, files, backend.kernels(), WeightTargets.of(target))) {
                Set<String> sources = new HashSet<>();
                for (int r = 0; r < weights.regions().size(); r++) {
                    sources.addAll(weights.tensors(r, files));
                }
                for (TensorExpectation expected : TensorExpectation.of(config)) {
                    assertThat(sources).contains(expected.name());
                }
            }
        }
    }
}

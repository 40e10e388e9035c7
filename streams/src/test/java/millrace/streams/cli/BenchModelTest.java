package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import millrace.engine.DeveloperModels;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.streams.bench.EngineBench;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A random model that has no room is refused before it is written.
class BenchModelTest {
    private static final String NAME = "random:glm-5.2:2l";

    @TempDir
    Path dir;

    private static List<EngineBench.Variant> variants(String... weights) {
        return Stream.of(weights).map(one -> new EngineBench.Variant("native", one, "auto", List.of())).toList();
    }

    @Test
    void sizeIsThatOfTheFiles() throws IOException {
        RandomSpec spec = RandomSpec.parse("random:glm_moe_dsa:400k");
        long parameters = DeveloperModels.writeRandom(dir.resolve("model"), 1, spec);
        DeveloperModels.RandomSize size = DeveloperModels.size(spec);
        assertThat(size.parameters()).isEqualTo(parameters);
        long headers = 1 << 16;
        assertThat(Files.size(dir.resolve("model/model.safetensors"))).isBetween(size.bytes(), size.bytes() + headers);
    }

    @Test
    void weightsThatDoNotFitMemoryShouldBeRefused() {
        List<EngineBench.Variant> all = variants("bf16", "packed", "int8", "int4");
        assertThatThrownBy(() -> BenchModel.requireMemory(NAME, all, 5_900_000_000L))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("random:glm-5.2:2l: memory: expected 5.92 GB free for weights as bf16, packed, int8, int4, at least two "
                        + "of them at a time, got 5.90 GB; set fewer or smaller ones, as with --weights int4, or take a smaller model");
        assertThatCode(() -> BenchModel.requireMemory(NAME, all, 6_000_000_000L)).doesNotThrowAnyException();
        assertThatThrownBy(() -> BenchModel.requireMemory(NAME, variants("int4"), 1_000_000_000L))
                .hasMessageContaining("expected 1.04 GB free for weights as int4, got 1.00 GB");
        assertThatCode(() -> BenchModel.requireMemory("glm-tiny", all, 0)).doesNotThrowAnyException();
    }

    @Test
    void filesThatDoNotFitTheDiskShouldBeRefused() {
        RandomSpec spec = RandomSpec.parse(NAME);
        long bytes = DeveloperModels.size(spec).bytes();
        assertThatThrownBy(() -> BenchModel.requireDisk(NAME, spec, Path.of("models"), bytes - 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageMatching("random:glm-5\\.2:2l: models: expected (\\d\\.\\d\\d GB) free for its weights in BF16, got \\1; choose "
                        + "another disk, with --keep DIR or MILLRACE_JAVA_OPTS=-Djava\\.io\\.tmpdir=DIR, or take a smaller model");
        assertThatCode(() -> BenchModel.requireDisk(NAME, spec, Path.of("models"), bytes)).doesNotThrowAnyException();
    }
}

package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import millrace.engine.CudaConfig;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestReporter;
import org.junit.jupiter.api.io.TempDir;

/// What logits of the CUDA backend may differ by from the processor's, as docs/numerics.md has it under "Across profiles". The
/// measured shares are published as report entries.
final class CudaProfileTest {
    private static final int[] IDS = TinyModel.tokens(128);
    private static final List<String> FAMILIES =
            List.of("glm4_moe", "glm4", "llama", "qwen2", "qwen3", "kimi_k2", "glm4_moe_lite");
    private static final List<String> SPARSE = List.of("glm_moe_dsa", "deepseek_v32");

    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    /// The share that the page allows.
    private static double allowed(KvFormat format) {
        return switch (format) {
            case F32 -> 0x1p-15;
            case BF16 -> 0x1p-9;
            case INT8, INT4, FP8, FP8_PLAIN -> 0x1p-7;
        };
    }

    @Test
    void everyFamilyInEveryFormatShouldStayWithinTheTolerance(TestReporter reporter) throws IOException {
        Map<KvFormat, Double> most = new EnumMap<>(KvFormat.class);
        for (String family : FAMILIES) {
            Path model = TinyModel.of(family).write(Files.createDirectory(dir.resolve(family)));
            for (KvFormat format : formats(model)) {
                double share = share(model, format);
                assertThat(share).as("%s, %s", family, format).isLessThanOrEqualTo(allowed(format));
                most.merge(format, share, Math::max);
            }
        }
        assertThat(most).containsOnlyKeys(KvFormat.values());
        most.forEach((format, share) -> reporter.publishEntry(format.id(), power(share)));
    }

    @Test
    void sparseAttentionShouldStayWithinItWithoutRounding(TestReporter reporter) throws IOException {
        double most = 0;
        for (String family : SPARSE) {
            Path model = TinyModel.of(family).write(Files.createDirectory(dir.resolve(family)));
            most = Math.max(most, share(model, KvFormat.F32));
        }
        assertThat(most).isLessThanOrEqualTo(allowed(KvFormat.F32));
        reporter.publishEntry("sparse f32", power(most));
    }

    private static List<KvFormat> formats(Path model) {
        try (ModelRun run = ModelRun.open(model, "auto", 1, KvFormat.F32)) {
            return Transformer.kvFormats(run.config());
        }
    }

    /// The largest difference of a logit, as a share of the largest magnitude of its position.
    private static double share(Path model, KvFormat format) {
        CudaConfig config = CudaConfig.STANDIN.withMemoryBytes(512 << 20);
        double most = 0;
        try (ModelRun cpu = ModelRun.open(model, "auto", 1, format);
                ModelRun cuda = ModelRun.open(model, Backend.open("cuda", 2, config), format)) {
            float[][] expected = cpu.all(IDS, 32);
            float[][] got = cuda.all(IDS, 32);
            for (int t = 0; t < IDS.length; t++) {
                double scale = 0;
                double difference = 0;
                for (int i = 0; i < expected[t].length; i++) {
                    scale = Math.max(scale, Math.abs(expected[t][i]));
                    difference = Math.max(difference, Math.abs((double) got[t][i] - expected[t][i]));
                }
                most = Math.max(most, difference / scale);
            }
        }
        return most;
    }

    private static String power(double share) {
        return "2^%.1f".formatted(Math.log(share) / Math.log(2));
    }
}

package millrace.engine;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(120)
class EngineSameBitsTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({
        "glm4_moe, BF16", "kimi_k2, INT8", "glm4_moe_lite, F32", "glm4, BF16", "qwen2, INT8", "glm4_moe, INT4",
        "kimi_k2, FP8", "glm4_moe_lite, FP8_PLAIN", "glm_moe_dsa, INT8", "deepseek_v32, BF16"})
    void tokensAndLogitsDependOnModelPromptAndSamplingOnly(String family, KvFormat format) throws IOException {
        Path model = TinyModel.of(family).withTokenizer().write(dir);
        new SameBits(model, format, 2048, 17).check();
    }
}

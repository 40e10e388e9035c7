package millrace.streams.cli;

import java.nio.file.Path;
import millrace.engine.KvFormat;
import millrace.engine.SameBits;
import millrace.streams.Models;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(180)
class BundledModelsTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"glm-tiny, BF16", "kimi-tiny, INT8"})
    void tokensAndLogitsDependOnModelPromptAndSamplingOnly(String model, KvFormat format) {
        new SameBits(Models.directory(model, dir), format, 1264, 8).check();
    }
}

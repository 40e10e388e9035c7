package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.SplittableRandom;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// The bound of logits holds for every prompt and is not so wide that an exponent gone wrong would pass.
class LogitBoundTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"glm4_moe, BF16, stored", "kimi_k2, INT8, stored", "llama, BF16, int8", "qwen3, BF16, int4", "llama, F32, packed"})
    void holdsForAllTokens(String family, KvFormat format, String weights) throws IOException {
        try (ModelRun run = ModelRun.open(TinyModel.of(family).write(dir), "vector", 2, format, weights)) {
            float bound = run.transformer().logitBound();
            var random = new SplittableRandom(17);
            float largest = 0;
            for (int round = 0; round < 20; round++) {
                int[] ids = random.ints(1 + random.nextInt(60), 0, run.config().vocabSize()).toArray();
                for (float[] row : run.all(ids, 32)) {
                    for (float logit : row) {
                        largest = Math.max(largest, Math.abs(logit));
                    }
                }
            }
            assertThat(largest).isLessThan(bound).isGreaterThan(bound / 100);
        }
    }
}

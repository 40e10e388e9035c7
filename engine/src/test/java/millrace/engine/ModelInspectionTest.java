package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import millrace.engine.model.ModelConfig;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ModelInspectionTest {
    @TempDir
    Path dir;

    /// What decides before the weights are read whether a model fits: a draft layer counts only where it is loaded.
    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "glm_moe_dsa", "qwen2"})
    void storedBytesAreThoseOfWhatIsLoaded(String type) throws IOException {
        TinyModel.of(type).write(dir);
        try (ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig config = ModelConfig.read(files);
            long all = 0;
            long drafts = 0;
            for (String name : files.tensorNames()) {
                long bytes = files.tensor(name).data().byteSize();
                all += bytes;
                drafts += name.startsWith("model.layers." + config.numHiddenLayers() + ".") ? bytes : 0;
            }
            assertThat(drafts > 0).isEqualTo(!type.equals("qwen2"));
            assertThat(ModelInspection.storedBytes(config, files)).isEqualTo(all - drafts);
            assertThat(ModelInspection.storedBytes(config.withDraft(files), files)).isEqualTo(all);
        }
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import millrace.engine.DeveloperModels.LlamaShape;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.ModelFamily;
import millrace.engine.model.TensorExpectation;
import millrace.engine.tokenizer.ChatFormats;
import millrace.engine.tokenizer.Tokenizer;
import millrace.engine.tokenizer.Tokenizers;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class DeveloperModelsTest {
    private static final LlamaShape SMALL = new LlamaShape(64, 2, 4, 2, 96, 300, 128);

    @TempDir
    Path dir;

    @Test
    void checkpointShouldLoadWithItsTokenizer() throws IOException {
        DeveloperModels.writeRandomLlama(dir.resolve("m"), 7, SMALL);
        try (ModelFiles files = ModelFiles.open(dir.resolve("m"))) {
            ModelConfig config = ModelConfig.read(files);
            assertThat(config.family()).isEqualTo(ModelFamily.LLAMA);
            assertThat(config.tieWordEmbeddings()).isTrue();
            assertThat(config.eosTokenIds()).containsExactly(291, 295, 297);
            assertThat(TensorExpectation.check(config, files))
                    .isEqualTo(300 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
            JsonNode vocab = new ObjectMapper().readTree(files.read("tokenizer.json")).get("model").get("vocab");
            Set<Integer> ids = new HashSet<>();
            vocab.forEach(id -> ids.add(id.intValue()));
            assertThat(ids).hasSize(291);
            assertThat(vocab.get("a").intValue()).isEqualTo('a');
            assertThat(vocab.get("\u0120").intValue()).isEqualTo(' ');
            assertThat(vocab.get("\u0143").intValue()).isEqualTo(0xad);
            assertThat(vocab.get("\u00ff").intValue()).isEqualTo(0xff);
        }
    }

    @Test
    void anyTextShouldEncodeByteByByte() throws IOException {
        DeveloperModels.writeRandomLlama(dir.resolve("m"), 7, SMALL);
        try (ModelFiles files = ModelFiles.open(dir.resolve("m"))) {
            Tokenizer tokenizer = Tokenizers.load(files);
            int[] ids = tokenizer.encode("na\u00efve<|user|>", true);
            assertThat(ids).containsExactly('n', 'a', 0xc3, 0xaf, 'v', 'e', 295);
            assertThat(tokenizer.decode(ids)).isEqualTo("na\u00efve<|user|>");
            assertThat(tokenizer.decode(new int[] {256, 290})).isEqualTo(" w256 w290");
            assertThat(ChatFormats.detect(null, files, tokenizer).id()).startsWith("glm");
        }
    }

    @Test
    void seedShouldDecideEveryBitWhateverTheShards() throws IOException {
        DeveloperModels.writeRandomLlama(dir.resolve("a"), 7, SMALL);
        DeveloperModels.writeRandomLlama(dir.resolve("b"), 7, SMALL);
        DeveloperModels.writeRandomLlama(dir.resolve("c"), 8, SMALL);
        DeveloperModels.writeRandomLlama(dir.resolve("d"), 7, SMALL, 20_000);
        try (ModelFiles a = ModelFiles.open(dir.resolve("a"));
                ModelFiles b = ModelFiles.open(dir.resolve("b"));
                ModelFiles c = ModelFiles.open(dir.resolve("c"));
                ModelFiles d = ModelFiles.open(dir.resolve("d"))) {
            assertThat(b.modelDigest()).isEqualTo(a.modelDigest());
            assertThat(c.modelDigest()).isNotEqualTo(a.modelDigest());
            assertThat(d.digests().size()).isGreaterThan(6);
            for (String name : a.tensorNames()) {
                assertThat(MemorySegment.mismatch(
                                a.tensor(name).data(), 0, a.tensor(name).data().byteSize(),
                                d.tensor(name).data(), 0, d.tensor(name).data().byteSize()))
                        .as(name)
                        .isEqualTo(-1);
            }
        }
    }

    @Test
    void directoryWithFilesShouldBeRefused() throws IOException {
        Files.createFile(dir.resolve("precious"));
        assertThatThrownBy(() -> DeveloperModels.writeRandomLlama(dir, 7, SMALL))
                .isInstanceOf(IOException.class)
                .hasMessage(dir + ": expected an empty directory, got one with files; choose another");
    }

    @Test
    void shapeThatCannotBeShouldBeRefused() {
        Path target = dir.resolve("m");
        var tooFewWords = new LlamaShape(64, 2, 4, 2, 96, 200, 128);
        assertThatThrownBy(() -> DeveloperModels.writeRandomLlama(target, 7, tooFewWords))
                .hasMessage("vocabulary: expected at least 265, got 200");
        var unequalHeads = new LlamaShape(65, 2, 4, 2, 96, 300, 128);
        assertThatThrownBy(() -> DeveloperModels.writeRandomLlama(target, 7, unequalHeads))
                .hasMessage("hidden size: expected a multiple of the heads 4, got 65");
        assertThat(target).as("nothing is written").doesNotExist();
    }
}

package millrace.engine.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.InvalidModelException;
import millrace.engine.ModelCard;
import millrace.engine.SafetensorsWriter;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class ModelFilesTest {
    @TempDir
    Path temp;

    private Path dir;

    @BeforeEach
    void makeModel() throws IOException {
        dir = Files.createDirectory(temp.resolve("model"));
        Files.writeString(dir.resolve("config.json"), "{}");
        weights("model.safetensors", "a", "b");
    }

    private void weights(String file, String... names) throws IOException {
        SafetensorsWriter.write(
                dir.resolve(file),
                Arrays.stream(names)
                        .map(n -> {
                            byte[] initial = {(byte) n.charAt(0)};
                            return new SafetensorsWriter.Tensor(n, "U8", new long[] {1}, initial);
                        })
                        .toList());
    }

    private void index(String weightMap) throws IOException {
        String json = "{\"metadata\":{},\"weight_map\":" + weightMap + "}";
        Files.writeString(dir.resolve("model.safetensors.index.json"), json);
    }

    // ------------------------------------------------------------------------------------------------ name space

    @Test
    void singleFileShouldBeRead() {
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(files.tensorNames()).containsExactly("a", "b");
            assertThat(files.has("b")).isTrue();
            assertThat(files.tensor("b").data().get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) 'b');
            assertThatThrownBy(() -> files.tensor("c"))
                    .isInstanceOf(InvalidModelException.class)
                    .hasMessage(dir + ": expected tensor c, got weights without it; complete the checkpoint");
        }
    }

    @Test
    void indexShouldWinOverASingleFile() throws IOException {
        weights("s1.safetensors", "a");
        weights("s2.safetensors", "c", "unlisted");
        index("{\"a\":\"s1.safetensors\",\"c\":\"s2.safetensors\"}");
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(files.tensorNames()).containsExactly("a", "c");
            assertThat(files.digests()).extracting(ModelCard.FileDigest::name)
                    .containsExactly("config.json", "model.safetensors.index.json", "s1.safetensors", "s2.safetensors");
        }
    }

    @Test
    void tensorsShouldBeUnusableOnceClosed() {
        ModelFiles files = ModelFiles.open(dir);
        StoredTensor tensor = files.tensor("a");
        files.close();
        files.close();
        assertThatThrownBy(() -> tensor.data().get(ValueLayout.JAVA_BYTE, 0))
                .isInstanceOf(IllegalStateException.class);
    }

    // ----------------------------------------------------------------------------------------------------- index

    @ParameterizedTest
    @ValueSource(
            strings = {
                "../../etc/passwd",
                "/etc/passwd",
                "sub/x.safetensors",
                "..",
                ".hidden",
                "C:x",
                "a\\\\b",
                "a\\u0000",
                "a\\u202eb",
                ""
            })
    void fileNameThatIsAPathShouldBeRefused(String name) throws IOException {
        index("{\"a\":\"" + name + "\"}");
        InvalidModelException e = refusal();
        assertThat(e.code()).isEqualTo("IDX_PATH");
        assertThat(e.getMessage())
                .startsWith("model.safetensors.index.json: expected plain file names, got \"")
                .endsWith("; do not use this checkpoint")
                .matches("[ -~]+");
    }

    @Test
    void linkThatLeavesTheDirectoryShouldBeRefused() throws IOException {
        Files.move(dir.resolve("model.safetensors"), temp.resolve("outside.safetensors"));
        Files.createSymbolicLink(dir.resolve("s.safetensors"), temp.resolve("outside.safetensors"));
        index("{\"a\":\"s.safetensors\"}");
        refused(
                "IDX_PATH",
                "s.safetensors: expected a file inside the model directory, got a link that leaves it;"
                        + " copy the file into the directory");
    }

    @Test
    void linkOfASmallFileThatLeavesTheDirectoryShouldBeRefused() throws IOException {
        Files.createSymbolicLink(dir.resolve("tokenizer.json"), Path.of("/dev/zero"));
        refused(
                "MODEL_PATH",
                "tokenizer.json: expected a file inside the model directory, got a link that leaves it;"
                        + " copy the file into the directory");
    }

    @Test
    void directoryInPlaceOfAFileShouldBeRefused() throws IOException {
        Files.createDirectory(dir.resolve("tokenizer.json"));
        refused("MODEL_PATH", "tokenizer.json: expected a regular file, got something else; restore the checkpoint");
        Files.delete(dir.resolve("tokenizer.json"));
        Files.createDirectory(dir.resolve("s.safetensors"));
        index("{\"a\":\"s.safetensors\"}");
        refused("IDX_PATH", "s.safetensors: expected a regular file, got something else; restore the checkpoint");
    }

    @Test
    void linkWithinTheDirectoryShouldBeFollowed() throws IOException {
        Files.move(dir.resolve("model.safetensors"), dir.resolve("data"));
        Files.createSymbolicLink(dir.resolve("model.safetensors"), Path.of("data"));
        ModelFiles.open(dir).close();
    }

    @Test
    void incompleteOrContradictoryIndexShouldBeRefused() throws IOException {
        index("{\"a\":\"gone.safetensors\"}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected the shard gone.safetensors, got a directory without it;"
                        + " complete the download");
        index("{\"a\":\"model.safetensors\",\"c\":\"model.safetensors\"}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected tensor c in model.safetensors, got a file without it;"
                        + " restore the checkpoint");
        index("{\"a\":\"model.safetensors\",\"a\":\"model.safetensors\"}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected every name once, got \"a\" twice; restore the file");
        weights("other.safetensors", "c");
        index("{\"a\":\"other.safetensors\",\"b\":\"model.safetensors\"}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected tensor a in other.safetensors, got it in model.safetensors;"
                        + " restore the checkpoint");
        weights("other.safetensors", "c", "a");
        index("{\"a\":\"model.safetensors\",\"c\":\"other.safetensors\"}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected tensor a once, got it in model.safetensors and in"
                        + " other.safetensors; restore the checkpoint");
        index("{}");
        refused(
                "IDX_INCOMPLETE",
                "model.safetensors.index.json: expected a weight_map with tensors, got none; restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '\0', value = {
        "[]| a JSON object, got something else",
        "{\"weight_map\":[]}| weight_map to be an object, got something else",
        "{\"weight_map\":{\"a\":7}}| file names as strings, got something else",
        "{}{}| nothing after the object, got something else"
    })
    void indexOfAnotherShapeShouldBeRefused(String json, String message) throws IOException {
        Files.writeString(dir.resolve("model.safetensors.index.json"), json);
        refused("IDX_JSON", "model.safetensors.index.json: expected " + message + "; restore the file");
    }

    @Test
    void indexThatIsNoJsonShouldBeRefused() throws IOException {
        Files.writeString(dir.resolve("model.safetensors.index.json"), "{\"weight_map\":{\"a\"}");
        assertThat(refusal().code()).isEqualTo("IDX_JSON");
        Files.write(dir.resolve("model.safetensors.index.json"), new byte[] {'{', '"', (byte) 0xff, '"'});
        refused("IDX_JSON", "model.safetensors.index.json: expected UTF-8, got other bytes; restore the file");
    }

    // ------------------------------------------------------------------------------------- what is not there

    @Test
    void missingFilesShouldBeNamed() throws IOException {
        Path gone = temp.resolve("gone");
        assertThat(refusal(gone)).hasMessage(
                gone + ": expected a model directory, got nothing there; check the path");
        Path file = dir.resolve("model.safetensors");
        assertThat(refusal(file)).hasMessage(
                file + ": expected a model directory, got a file; give the directory that holds it");
        Files.delete(file);
        refused(
                "MODEL_MISSING",
                dir + ": expected model.safetensors or model.safetensors.index.json, got neither;"
                        + " complete the download");
        Files.delete(dir.resolve("config.json"));
        refused(
                "MODEL_MISSING",
                dir + ": expected config.json, got a directory without it; point to a Hugging Face checkpoint");
    }

    @ParameterizedTest
    @CsvSource({
        "model-Q4_K_M.gguf, a GGUF file",
        "pytorch_model.bin, 'a pickle, which is never opened'",
        "consolidated.00.pth, 'a pickle, which is never opened'"
    })
    void directoryOfAnotherFormatShouldBeRefusedByName(String name, String what) throws IOException {
        Files.move(dir.resolve("model.safetensors"), dir.resolve(name));
        refused(
                "MODEL_FORMAT",
                name + ": expected safetensors weights, got " + what + "; convert the checkpoint to safetensors");
    }

    @Test
    void fileOfAnotherFormatInPlaceOfADirectoryShouldBeRefusedByName() throws IOException {
        Path gguf = temp.resolve("m.gguf");
        Files.write(gguf, "GGUF\3\0\0\0".getBytes(StandardCharsets.ISO_8859_1));
        assertThat(refusal(gguf).code()).isEqualTo("MODEL_FORMAT");
        Path pickle = Files.createFile(temp.resolve("m.bin"));
        assertThat(refusal(pickle).code()).isEqualTo("MODEL_FORMAT");
    }

    @Test
    void pickleInTheIndexShouldBeRefused() throws IOException {
        Files.createFile(dir.resolve("pytorch_model.bin"));
        index("{\"a\":\"pytorch_model.bin\"}");
        refused(
                "MODEL_FORMAT",
                "pytorch_model.bin: expected a safetensors file, got a pickle, which can run code when it is opened;"
                        + " convert the checkpoint to safetensors");
    }

    // ----------------------------------------------------------------------------------------------- small files

    @Test
    void smallFilesShouldBeReadByName() throws IOException {
        Files.writeString(dir.resolve("tokenizer.json"), "x");
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(files.read("tokenizer.json")).containsExactly('x');
            assertThat(files.readIfPresent("generation_config.json")).isNull();
            assertThatThrownBy(() -> files.read("generation_config.json"))
                    .isInstanceOf(InvalidModelException.class)
                    .hasMessage(dir + ": expected generation_config.json, got a directory without it; add the file");
            assertThatThrownBy(() -> files.read("../secret")).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "config.json, 16, CONFIG_LIMIT",
        "generation_config.json, 16, CONFIG_LIMIT",
        "tokenizer.json, 64, TOK_LIMIT",
        "tokenizer_config.json, 16, TOK_LIMIT",
        "chat_template.jinja, 16, TPL_LIMIT",
        "model.safetensors.index.json, 128, IDX_LIMIT"
    })
    void fileAboveItsLimitShouldBeRefused(String name, int mebibytes, String code) throws IOException {
        try (RandomAccessFile out = new RandomAccessFile(dir.resolve(name).toFile(), "rw")) {
            out.setLength((long) mebibytes * (1 << 20) + 1);
        }
        refused(code, name + ": expected at most " + mebibytes + " MiB, got more; restore the file");
    }

    @Test
    void fileThatChangesAfterHashingShouldBeRefused() throws IOException {
        try (ModelFiles files = ModelFiles.open(dir)) {
            Files.writeString(dir.resolve("config.json"), "{ }");
            InvalidModelException e =
                    catchThrowableOfType(InvalidModelException.class, () -> files.read("config.json"));
            assertThat(e.code()).isEqualTo("MODEL_FILE_CHANGED");
            assertThat(e)
                    .hasMessageStartingWith("config.json: expected sha256 44136fa355b3678a")
                    .hasMessageEndingWith("; do not write to a model directory in use, start again");
        }
    }

    // --------------------------------------------------------------------------------------------------- digests

    @Test
    void modelDigestShouldBeThatOfTheListOfFiles() throws Exception {
        Files.writeString(dir.resolve("tokenizer.json"), "x");
        Files.writeString(dir.resolve("README.md"), "not a file of the model");
        var lines = new StringBuilder();
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            byte[] bytes = Files.readAllBytes(dir.resolve(name));
            lines.append(sha256(bytes)).append("  ").append(bytes.length).append("  ").append(name).append('\n');
        }
        String expected = "sha256:" + sha256(lines.toString().getBytes(StandardCharsets.UTF_8));
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(files.modelDigest()).isEqualTo(expected);
            files.read("tokenizer.json");
            assertThat(files.modelDigest()).isEqualTo(expected);
            files.requireDigest(expected);
            files.requireDigest(expected.substring("sha256:".length()));
        }
    }

    @Test
    void modelDigestShouldChangeWithAnyBitOfTheWeights() throws IOException {
        String before = digest();
        Path weights = dir.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(weights);
        bytes[bytes.length - 1] ^= 1;
        Files.write(weights, bytes);
        assertThat(digest()).isNotEqualTo(before);
    }

    @Test
    void modelOtherThanThePinnedOneShouldBeRefused() {
        try (ModelFiles files = ModelFiles.open(dir)) {
            InvalidModelException e =
                    catchThrowableOfType(InvalidModelException.class, () -> files.requireDigest("sha256:00"));
            assertThat(e.code()).isEqualTo("MODEL_DIGEST_MISMATCH");
            assertThat(e).hasMessage(dir + ": expected the pinned digest sha256:00, got " + files.modelDigest()
                    + "; serve the pinned model, or pin this one after checking where it came from");
        }
    }

    @Test
    void severalFilesShouldBeHashedInOrderOfName() throws IOException {
        Files.delete(dir.resolve("model.safetensors"));
        String map = IntStream.range(0, 7)
                .mapToObj(i -> "\"t" + i + "\":\"s" + i + ".safetensors\"")
                .collect(Collectors.joining(",", "{", "}"));
        for (int i = 0; i < 7; i++) {
            weights("s" + i + ".safetensors", "t" + i);
        }
        index(map);
        try (ModelFiles files = ModelFiles.open(dir)) {
            assertThat(files.digests()).hasSize(9).isSortedAccordingTo(
                    Comparator.comparing(ModelCard.FileDigest::name));
        }
    }

    // ----------------------------------------------------------------------------------------------------- tools

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private String digest() {
        try (ModelFiles files = ModelFiles.open(dir)) {
            return files.modelDigest();
        }
    }

    private InvalidModelException refusal() {
        return refusal(dir);
    }

    private static InvalidModelException refusal(Path model) {
        InvalidModelException e =
                catchThrowableOfType(InvalidModelException.class, () -> ModelFiles.open(model).close());
        assertThat(e).as("refusal").isNotNull();
        return e;
    }

    private void refused(String code, String message) {
        InvalidModelException e = refusal();
        assertThat(e.code()).isEqualTo(code);
        assertThat(e).hasMessage(message);
    }
}

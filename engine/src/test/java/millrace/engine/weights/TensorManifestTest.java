package millrace.engine.weights;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import millrace.engine.Golden;
import millrace.engine.InvalidModelException;
import millrace.engine.kernel.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class TensorManifestTest {
    private static final String SHA = "0123456789abcdef".repeat(4);
    private static final TensorManifest GOOD = TensorManifest.of(
            List.of(
                    new TensorManifest.Entry("a.weight", DType.BF16, new long[] {3, 2}, "model.safetensors", 72, 84, SHA,
                            new int[] {0x01020304}, null),
                    new TensorManifest.Entry("b.weight", DType.U8, new long[] {(1 << 20) + 1}, "model.safetensors", 84,
                            84 + (1 << 20) + 1, SHA, new int[] {-1, 2}, new TensorManifest.Decoded(2000, 960, new int[] {7, 8, 9}))),
            List.of(new Golden(List.of(1, 2, 3), 24, "cpu-strict/v2", "int8", "bf16+f32", SHA)));

    private static String text() {
        return new String(GOOD.toJson(), StandardCharsets.UTF_8);
    }

    private static TensorManifest parse(String json) {
        return TensorManifest.parse(json.getBytes(StandardCharsets.UTF_8));
    }

    /// The bytes that docs/formats.md shows.
    @Test
    void writesOneLineATensor() {
        assertThat(text()).isEqualTo("""
                {"format":"tensor-manifest/v1","block_bytes":1048576,"alg":"crc32c","tensors":[
                {"name":"a.weight","dtype":"BF16","shape":[3,2],"file":"model.safetensors","begin":72,"end":84,"sha256":"%s",\
                "blocks_crc32c":"BAMCAQ==","codec":"none"}
                ,{"name":"b.weight","dtype":"U8","shape":[1048577],"file":"model.safetensors","begin":84,"end":1048661,\
                "sha256":"%s","blocks_crc32c":"/////wIAAAA=","codec":"packed","raw_bytes":2000,"raw_block_bytes":960,\
                "raw_crc32c":"BwAAAAgAAAAJAAAA"}],"golden":[{"prompt_ids":[1,2,3],"max_tokens":24,"profile":"cpu-strict/v2",\
                "kv_format":"int8","weight_format":"bf16+f32","tokens_sha256":"%s"}]}
                """.formatted(SHA, SHA, SHA));
    }

    @Test
    void readsWhatItWrites() {
        TensorManifest read = TensorManifest.parse(GOOD.toJson());
        assertThat(read.golden()).isEqualTo(GOOD.golden());
        assertThat(read.toJson()).isEqualTo(GOOD.toJson());
        TensorManifest.Entry entry = read.tensor("b.weight");
        assertThat(entry).isNotNull();
        assertThat(entry.decoded()).isNotNull();
        assertThat(entry.blocks()).containsExactly(-1, 2);
        assertThat(read.tensor("c")).isNull();
        assertThat(parse(text().replace("{\"format\"", "{\"later\": {\"x\": []}, \"format\"")).tensors()).hasSize(2);
    }

    private static void refuse(String json, String message) {
        assertThatThrownBy(() -> parse(json)).isInstanceOf(InvalidModelException.class)
                .hasMessage("integrity/tensors.json: " + message + "; sign the model again")
                .extracting("code").isEqualTo("BT_FORMAT");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "tensor-manifest/v1 | tensor-manifest/v2 | the format tensor-manifest/v1",
        "\"block_bytes\":1048576 | \"block_bytes\":65536 | block_bytes of 1048576",
        "\"crc32c\", | \"crc32\", | the alg crc32c",
        "\"tensors\":[ | \"tensors\":{}, \"x\":[ | tensors to be an array",
        "\"golden\":[ | \"golden\":{}, \"x\":[ | golden to be an array",
        "b.weight | a.weight | every tensor once",
        "\"BF16\" | \"BF17\" | a dtype of safetensors",
        "[3,2] | 6 | shape to be an array",
        "[3,2] | [3,2.5] | shape of whole numbers",
        "\"begin\":72 | \"begin\":85 | begin up to end",
        "\"begin\":72 | \"begin\":-1 | begin of 0 or more",
        "\"begin\":72 | \"begin\":1e3 | begin of 0 or more",
        "\"end\":84 | \"end\":9223372036854775807 | blocks_crc32c of one word for each block",
        "\"end\":84 | \"end\":\"84\" | end of 0 or more",
        "BAMCAQ== | ?AMCAQ== | blocks_crc32c in base64",
        "/////wIAAAA= | /////w== | blocks_crc32c of one word for each block",
        "\"codec\":\"none\" | \"codec\":\"zip\" | codec none or packed",
        "\"raw_bytes\":2000 | \"raw_bytes\":0 | raw_bytes and raw_block_bytes above 0",
        "\"raw_block_bytes\":960 | \"raw_block_bytes\":0 | raw_bytes and raw_block_bytes above 0",
        "\"raw_bytes\":2000 | \"raw_bytes\":1000000000000 | raw_crc32c of one word for each block",
        "\"raw_block_bytes\":960 | \"raw_block_bytes\":961000 | raw_crc32c of one word for each block",
        "\"file\":\"model | \"file\":\"../model | plain file names",
        "\"sha256\":\"01 | \"sha256\":\"0G | sha256 of 64 hexadecimal digits",
        "\"prompt_ids\":[1, | \"prompt_ids\":[-1, | prompt_ids of token ids",
        "\"prompt_ids\":[1,2,3] | \"prompt_ids\":[] | prompt_ids of 1 to 4096",
        "\"max_tokens\":24 | \"max_tokens\":0 | max_tokens of 1 to 4096",
        "\"profile\":\"cpu-strict/v2\" | \"profile\":2 | profile to be a string"
    })
    void refusesWhatIsNoManifest(String from, String to, String expected) {
        assertThat(text()).contains(from);
        refuse(text().replace(from, to), "expected " + expected + ", got something else");
    }

    @Test
    void refusesOtherJson() {
        refuse("", "expected a JSON object, got something else");
        refuse("[]", "expected a JSON object, got something else");
        refuse(text() + "{}", "expected nothing after the object, got something else");
        refuse("{\"format\":\"tensor-manifest/v1\",\"block_bytes\":1048576,\"alg\":\"crc32c\",\"tensors\":[]}",
                "expected tensors, got something else");
        refuse(text().replace("\"dtype\":\"BF16\"", "\"dtype\":\"BF16\",\"dtype\":\"F16\""),
                "expected strict JSON, got: Duplicate field 'dtype' at line 2, column 42");
        assertThatThrownBy(() -> TensorManifest.parse(new byte[] {'{', '"', (byte) 0xff}))
                .hasMessage("integrity/tensors.json: expected UTF-8, got other bytes; sign the model again");
    }

    @Test
    void refusesAFileThatIsNone(@TempDir Path dir) throws Exception {
        Path model = Files.createDirectory(dir.resolve("model"));
        Files.createSymbolicLink(model.resolve("integrity"), Files.createDirectory(dir.resolve("outside")));
        Files.write(dir.resolve("outside/tensors.json"), GOOD.toJson());
        assertThatThrownBy(() -> ManifestFile.read(model.toRealPath())).isInstanceOf(InvalidModelException.class)
                .hasMessage("integrity/tensors.json: expected a regular file inside the model directory, got something else; remove it")
                .extracting("code").isEqualTo("MODEL_PATH");
        Files.delete(model.resolve("integrity"));
        Files.createDirectories(model.resolve("integrity/tensors.json"));
        assertThatThrownBy(() -> ManifestFile.read(model.toRealPath())).extracting("code").isEqualTo("MODEL_PATH");
        assertThat(ManifestFile.read(dir.toRealPath())).isNull();
    }

    /// However damaged: refused with its code, or read to what is written back to the same meaning.
    @Test
    void survivesDamage() {
        long seed = 20261130;
        Random random = new Random(seed);
        byte[] good = GOOD.toJson();
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = good.clone();
            for (int n = 1 + random.nextInt(3); n > 0; n--) {
                int at = random.nextInt(bytes.length);
                switch (random.nextInt(3)) {
                    case 0 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
                    case 1 -> bytes[at] = (byte) "{}[]\",:09-.e \\".charAt(random.nextInt(14));
                    default -> bytes = java.util.Arrays.copyOf(bytes, random.nextInt(8) == 0 ? at + 1 : bytes.length);
                }
            }
            try {
                TensorManifest read = TensorManifest.parse(bytes);
                byte[] again = read.toJson();
                assertThat(TensorManifest.parse(again).toJson()).as("seed %d, %d", seed, i).isEqualTo(again);
                for (TensorManifest.Entry entry : read.tensors()) {
                    assertThat(entry.blocks()).hasSize(Math.toIntExact((entry.end() - entry.begin() + (1 << 20) - 1) >> 20));
                    assertThat(entry.file()).doesNotContain("/", "\\");
                }
            } catch (InvalidModelException refusal) {
                assertThat(refusal.code()).as("seed %d, %d", seed, i).isEqualTo("BT_FORMAT");
                assertThat(refusal.getMessage()).doesNotContain("\n");
            }
        }
    }
}

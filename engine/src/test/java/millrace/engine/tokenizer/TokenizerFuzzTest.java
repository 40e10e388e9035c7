package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.InvalidModelException;
import org.junit.jupiter.api.Test;

/// Damaged files are read as something sound or refused, never anything else.
class TokenizerFuzzTest {
    private static final byte[][] WORDS = words(
            "\"",
            "{",
            "}",
            "[",
            "]",
            ",",
            "null",
            "-1",
            "1e9",
            "2147483648",
            "\\ud800",
            "\\u0000",
            "true",
            "\"BPE\"",
            "\"type\":",
            "\"id\":",
            "\"Regex\":",
            "(a+)+$",
            "=",
            "AA== 0\n",
            "\n",
            "\u00ff");

    private static byte[][] words(String... words) {
        byte[][] bytes = new byte[words.length][];
        for (int i = 0; i < words.length; i++) {
            bytes[i] = words[i].getBytes(StandardCharsets.ISO_8859_1);
        }
        return bytes;
    }

    @Test
    void readsOrRefusesDamagedTokenizerJson() {
        byte[] file = Samples.tokenizerJson(
                Samples.split(SplitPattern.LLAMA3),
                ",\"ab\":256",
                "\"a b\"",
                ",\"ignore_merges\":true",
                ",\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"id\":300,\"content\":\"<x>\",\"lstrip\":true}]");
        readsOrRefuses("tokenizer.json", file, Map.of(), 400);
    }

    @Test
    void readsOrRefusesDamagedTiktokenModels() {
        readsOrRefuses("tiktoken.model", Samples.required("kimi-tiny/tiktoken.model"), Map.of(), 150);
    }

    @Test
    void readsOrRefusesDamagedTokenizerConfigs() {
        byte[] model = Samples.required("kimi-tiny/tiktoken.model");
        byte[] config = Samples.required("kimi-tiny/tokenizer_config.json");
        readsOrRefuses("tokenizer_config.json", config, Map.of("tiktoken.model", model), 100);
    }

    private static void readsOrRefuses(String name, byte[] file, Map<String, byte[]> others, int times) {
        for (long seed = 0; seed < times; seed++) {
            byte[] damaged = damage(file, new SplittableRandom(seed));
            Tokenizer tokenizer;
            try {
                tokenizer = Tokenizers.load(n -> n.equals(name) ? damaged : others.get(n));
            } catch (InvalidModelException e) {
                assertThat(e.code()).as("seed " + seed).startsWith("TOK_");
                continue;
            } catch (RuntimeException e) {
                fail("seed " + seed, e);
                return;
            }
            String text = "ab <x> e\u0301 世界 12345";
            assertThat(tokenizer.decode(tokenizer.encode(text, false)))
                    .as("seed " + seed)
                    .isNotEmpty();
        }
    }

    private static byte[] damage(byte[] file, SplittableRandom random) {
        byte[] damaged = file.clone();
        int changes = 1 + random.nextInt(3);
        for (int i = 0; i < changes; i++) {
            // mostly where a tokenizer.json is not vocabulary
            int span = random.nextBoolean() ? damaged.length : Math.min(damaged.length, 700);
            int at = random.nextInt(span);
            byte[] word = WORDS[random.nextInt(WORDS.length)];
            switch (random.nextInt(3)) {
                case 0 -> damaged[at] = (byte) random.nextInt(256);
                case 1 -> damaged = splice(damaged, at, Math.min(damaged.length, at + random.nextInt(8)), word);
                default -> damaged = splice(damaged, at, at, word);
            }
        }
        return random.nextInt(10) == 0 ? Arrays.copyOf(damaged, random.nextInt(damaged.length)) : damaged;
    }

    private static byte[] splice(byte[] file, int from, int to, byte[] word) {
        byte[] result = new byte[file.length - (to - from) + word.length];
        System.arraycopy(file, 0, result, 0, from);
        System.arraycopy(word, 0, result, from, word.length);
        System.arraycopy(file, to, result, from + word.length, file.length - to);
        return result;
    }
}

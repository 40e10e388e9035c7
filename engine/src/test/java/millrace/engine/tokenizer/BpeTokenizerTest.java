package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.InvalidRequestException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class BpeTokenizerTest {
    /// Half a second on an idle machine; quadratic work would take hours.
    private static final Duration LIMIT = Duration.ofSeconds(15);

    private static final List<Tokenizer> BOTH = List.of(Samples.glm(), Samples.kimi());
    private static final String[] PIECES = {
        "a", "the ", " ", "\n", "\r\n", "\u00a0", "\u3000", "7", "12345", "é", "e\u0301", "世界", "한국어", "नमस्ते",
        "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "\u202e", "\u0000", "I'LL", "'ſ", "<|user|>", "<|im_end|>", "[gMASK]", "ﬁ",
                "\ud83d\ude00", "—", "\t"
    };

    @Test
    void decodesWhatItEncoded() {
        for (long seed = 0; seed < 200; seed++) {
            String text = randomText(new SplittableRandom(seed));
            for (Tokenizer tokenizer : BOTH) {
                for (boolean specials : new boolean[] {true, false}) {
                    assertThat(tokenizer.decode(tokenizer.encode(text, specials)))
                            .as("seed " + seed)
                            .isEqualTo(text);
                }
            }
        }
    }

    @Test
    void yieldsDeltasThatSumUpToTheWhole() {
        for (long seed = 0; seed < 300; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            for (Tokenizer tokenizer : BOTH) {
                int[] ids = seed % 2 == 0
                        ? tokenizer.encode(randomText(random), false)
                        : random.ints(40, 0, 1024).toArray();
                IncrementalDecoder decoder = new IncrementalDecoder(tokenizer);
                StringBuilder whole = new StringBuilder();
                for (int id : ids) {
                    String delta = decoder.append(id);
                    assertThat(Utf8.loneSurrogate(delta)).as("seed " + seed).isEqualTo(-1);
                    whole.append(delta);
                }
                assertThat(whole.append(decoder.flush())).as("seed " + seed).hasToString(tokenizer.decode(ids));
            }
        }
    }

    @Test
    void decodesIllFormedBytesByMaximalSubparts() {
        assertThat(decode(0xED, 0xA0, 0x80)).isEqualTo("\uFFFD\uFFFD\uFFFD");
        assertThat(decode(0xE2, 0x82)).isEqualTo("\uFFFD");
        assertThat(decode(0xF0, 0x9F, 0x8C, 'a')).isEqualTo("\uFFFDa");
        assertThat(decode(0xC0, 0xAF)).isEqualTo("\uFFFD\uFFFD");
        for (long seed = 0; seed < 2000; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            byte[] bytes = new byte[random.nextInt(12)];
            for (int i = 0; i < bytes.length; i++) {
                // mostly bytes that begin or continue a character
                bytes[i] = (byte) (random.nextInt(4) == 0 ? random.nextInt(128) : 0x80 + random.nextInt(0x80));
            }
            // Java's own decoder takes an encoded surrogate for one error, Unicode for three
            String expected =
                    new String(bytes, StandardCharsets.ISO_8859_1).replaceAll("\u00ED(?=[\u00A0-\u00BF])", "\u00FF");
            int[] values = expected.chars().toArray();
            assertThat(decode(values))
                    .as("seed " + seed)
                    .isEqualTo(new String(expected.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8));
        }
    }

    private static String decode(int... values) {
        byte[] bytes = new byte[values.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) values[i];
        }
        StringBuilder text = new StringBuilder();
        Utf8 utf8 = new Utf8();
        utf8.decode(bytes, text);
        utf8.end(text);
        return text.toString();
    }

    @Test
    void holdsBackAnIncompleteCharacter() {
        Tokenizer glm = Samples.glm();
        IncrementalDecoder decoder = new IncrementalDecoder(glm);
        assertThat(decoder.append(0xF0)).isEmpty();
        assertThat(decoder.append(0x9F)).isEmpty();
        assertThat(decoder.append(0x8C)).isEmpty();
        assertThat(decoder.append(0x8D)).isEqualTo("🌍");
        assertThat(decoder.append(0xE4)).isEmpty();
        assertThat(decoder.append('A')).isEqualTo("\uFFFDA");
        assertThat(decoder.append(0xE4)).isEmpty();
        assertThat(decoder.append(glm.special("<|user|>"))).isEmpty();
        assertThat(decoder.flush()).isEqualTo("\uFFFD");
        assertThat(decoder.flush()).isEmpty();
    }

    @Test
    void formsNoAddedTokenFromPlainText() {
        for (Tokenizer tokenizer : BOTH) {
            int firstAdded = tokenizer.addedTokens().values().stream()
                    .min(Integer::compare)
                    .orElseThrow();
            for (Map.Entry<String, Integer> added : tokenizer.addedTokens().entrySet()) {
                String text = "x" + added.getKey() + added.getKey() + " y";
                int[] ids = tokenizer.encode(text, false);
                assertThat(Arrays.stream(ids).allMatch(id -> id < firstAdded))
                        .as(added.getKey())
                        .isTrue();
                assertThat(tokenizer.decode(ids)).isEqualTo(text);
                assertThat(tokenizer.encode(text, true)).contains(added.getValue());
            }
        }
    }

    @Test
    void formsNoAddedTokenByMerging() {
        String added = ",\"added_tokens\":[{\"id\":257,\"content\":\"abc\",\"special\":false}]";
        Tokenizer tokenizer = Samples.load(Samples.tokenizerJson(
                Samples.split(SplitPattern.LLAMA3),
                ",\"ab\":256,\"abc\":257",
                "\"a b\",\"ab c\"",
                ",\"ignore_merges\":true",
                added));
        assertThat(tokenizer.encode("abc", false)).containsExactly(256, 'c');
        assertThat(tokenizer.encode("abc", true)).containsExactly(257);
        assertThat(tokenizer.isSpecial(257)).isFalse();
        assertThat(tokenizer.bytes(257)).isEqualTo("abc".getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void takesWholePiecesOnlyIfTheFileSaysSo() {
        String vocab = ",\"bc\":256,\"abc\":257";
        String split = Samples.split(SplitPattern.LLAMA3);
        byte[] merging = Samples.tokenizerJson(split, vocab, "[\"b\",\"c\"]", "", "");
        byte[] whole = Samples.tokenizerJson(split, vocab, "[\"b\",\"c\"]", ",\"ignore_merges\":true", "");
        assertThat(Samples.load(merging).encode("abc", false)).containsExactly('a', 256);
        assertThat(Samples.load(whole).encode("abc", false)).containsExactly(257);
    }

    @Test
    void normalizesToNfcWhereTheFileSaysSo() {
        byte[] file = Samples.tokenizerJson(
                Samples.split(SplitPattern.QWEN2), "", "", "", ",\"normalizer\":{\"type\":\"NFC\"}");
        Tokenizer tokenizer = Samples.load(file);
        assertThat(tokenizer.decode(tokenizer.encode("e\u0301", false))).isEqualTo("é");
        assertThat(tokenizer.decode(tokenizer.encode("e\u0301", true))).isEqualTo("é");
    }

    @Test
    void matchesTheLongestAddedTokenWithItsFlags() {
        String added = """
            ,"added_tokens":[{"id":300,"content":"<a>","special":true},{"id":301,"content":"<a><b>","special":true},
            {"id":302,"content":"word","single_word":true},{"id":303,"content":"<l>","lstrip":true,"rstrip":true}]\
            """;
        Tokenizer tokenizer =
                Samples.load(Samples.tokenizerJson(Samples.split(SplitPattern.LLAMA3), "", "", "", added));
        assertThat(tokenizer.encode("<a><b><a>", true)).containsExactly(301, 300);
        assertThat(tokenizer.encode("word", true)).containsExactly(302);
        assertThat(tokenizer.encode("aword", true)).containsExactly('a', 'w', 'o', 'r', 'd');
        assertThat(tokenizer.encode("a  <l>\nb", true)).containsExactly('a', 303, 'b');
    }

    @Test
    void refusesALoneSurrogate() {
        assertThatThrownBy(() -> Samples.glm().encode("ab\ud83d!", false))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessage("prompt: expected well-formed Unicode, got the lone surrogate U+D83D at char 2;"
                        + " send whole characters")
                .extracting(e -> ((InvalidRequestException) e).code())
                .isEqualTo("PROMPT_NOT_UTF8");
        assertThatThrownBy(() -> Samples.kimi().encode("\ude00\ud83d", true)).hasMessageContaining("U+DE00 at char 0");
    }

    @Test
    @Timeout(120)
    void staysFastOnAMegabyteOfAnything() {
        List<String> texts = new ArrayList<>();
        for (String unit : List.of("a", " ", "Aa")) {
            texts.add(unit.repeat((1 << 20) / unit.length()));
        }
        for (String unit : List.of("\n ", "1", "ab", "<|", "\u0301", "世", "the ", "!", "\r", "A")) {
            texts.add(unit.repeat((1 << 17) / unit.length()));
        }
        for (Tokenizer tokenizer : BOTH) {
            for (String text : texts) {
                long start = System.nanoTime();
                int[] ids = tokenizer.encode(text, true);
                assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LIMIT);
                assertThat(tokenizer.decode(ids)).isEqualTo(text);
            }
        }
    }

    @Test
    @Timeout(120)
    void normalizesAlternatingMarksInBoundedTime() {
        String text = "\u0301\u0316".repeat(1 << 18);
        assertThat(Nfc.normalize(text)).hasSize(1 << 19);
        assertThat(Nfc.normalize("e\u0301".repeat(2000))).isEqualTo("é".repeat(2000));
    }

    @Test
    void mergesLongPiecesAsShortOnes() {
        for (long seed = 0; seed < 100; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            MergeTable merges = new MergeTable();
            for (int id = 4; id < 64; id++) {
                merges.put(random.nextInt(id), random.nextInt(id), id, id);
            }
            int n = 97 + random.nextInt(200);
            int[] symbols = random.ints(n, 0, 4).toArray();
            Ids fast = new Ids();
            new BytePairMerger(merges).merge(symbols.clone(), n, fast);
            assertThat(fast.toArray()).as("seed " + seed).isEqualTo(naive(symbols, merges));
            int shortLength = random.nextInt(97);
            Ids scanned = new Ids();
            new BytePairMerger(merges).merge(Arrays.copyOf(symbols, shortLength), shortLength, scanned);
            assertThat(scanned.toArray())
                    .as("seed " + seed)
                    .isEqualTo(naive(Arrays.copyOf(symbols, shortLength), merges));
        }
    }

    private static int[] naive(int[] symbols, MergeTable merges) {
        List<Integer> list = new ArrayList<>(Arrays.stream(symbols).boxed().toList());
        while (true) {
            int best = -1;
            for (int i = 0; i + 1 < list.size(); i++) {
                long pair = merges.get(list.get(i), list.get(i + 1));
                if (pair != MergeTable.NONE
                        && (best < 0 || pair >>> 32 < merges.get(list.get(best), list.get(best + 1)) >>> 32)) {
                    best = i;
                }
            }
            if (best < 0) {
                return list.stream().mapToInt(Integer::intValue).toArray();
            }
            list.set(best, (int) merges.get(list.get(best), list.get(best + 1)));
            list.remove(best + 1);
        }
    }

    private static String randomText(SplittableRandom random) {
        StringBuilder text = new StringBuilder();
        int n = random.nextInt(30);
        for (int i = 0; i < n; i++) {
            if (random.nextInt(3) > 0) {
                text.append(PIECES[random.nextInt(PIECES.length)]);
                continue;
            }
            int codePoint = random.nextInt(random.nextBoolean() ? 0x3000 : 0x20000);
            text.appendCodePoint(codePoint >= 0xD800 && codePoint < 0xE000 ? 'x' : codePoint);
        }
        return text.toString();
    }
}

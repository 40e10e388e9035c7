package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import millrace.engine.EngineException;
import millrace.engine.InvalidModelException;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

/// Every refusal of a tokenizer's files, with its code and its message.
class TokenizerRefusalTest {
    private static final String SPLIT = Samples.split(SplitPattern.LLAMA3);

    private static void refused(String code, String message, ThrowingCallable action) {
        assertThatThrownBy(action)
                .isInstanceOf(InvalidModelException.class)
                .hasMessage(message)
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo(code);
    }

    private static void refusedJson(
            String code, String message, String vocab, String merges, String model, String top) {
        refused(code, message, () -> Samples.load(Samples.tokenizerJson(SPLIT, vocab, merges, model, top)));
    }

    private static void refusedPreTokenizer(String message, String preTokenizer) {
        refused("TOK_UNSUPPORTED", message, () -> Samples.load(Samples.tokenizerJson(preTokenizer, "", "", "", "")));
    }

    @Test
    void refusesACheckpointWithoutTokenizer() {
        refused(
                "TOK_MISSING",
                "tokenizer: expected tokenizer.json or tiktoken.model among the model files, got neither;"
                        + " copy the tokenizer of the same release",
                () -> Samples.load(Map.of()));
    }

    @Test
    void refusesWhatIsTooLargeOrTooDeep() {
        String deep = "[".repeat(10_000) + "]".repeat(10_000);
        refused(
                "TOK_LIMIT",
                "tokenizer.json: JSON: expected sizes within limits, got: Document nesting depth (33) exceeds the"
                        + " maximum allowed (32, from `StreamReadConstraints.getMaxNestingDepth()`)",
                () -> Samples.load(("{\"x\":" + deep + "}").getBytes(StandardCharsets.UTF_8)));
        String longText = "x".repeat((1 << 20) + 1);
        assertThatThrownBy(() -> Samples.load(("{\"x\":\"" + longText + "\"}").getBytes(StandardCharsets.UTF_8)))
                .isInstanceOf(InvalidModelException.class)
                .hasMessageStartingWith("tokenizer.json: JSON: expected sizes within limits, got: String value length")
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TOK_LIMIT");
        refused(
                "TOK_LIMIT",
                "tokenizer.json: size: expected at most 67108864 bytes, got 67108865",
                () -> Samples.load(new byte[(64 << 20) + 1]));
        refusedJson(
                "TOK_LIMIT",
                "tokenizer.json: added token 300: expected a size of at most 1024, got 1025",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":300,\"content\":\"" + "x".repeat(1025) + "\"}]");
        refused(
                "TOK_LIMIT",
                "tokenizer.json: pre_tokenizer: expected at most 8 stages, got 9",
                () -> Samples.load(Samples.tokenizerJson(
                        "{\"type\":\"Sequence\",\"pretokenizers\":["
                                + "{\"type\":\"Digits\",\"individual_digits\":true},".repeat(9)
                                + "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
                        "",
                        "",
                        "",
                        "")));
    }

    @Test
    void refusesWhatIsNotJson() {
        assertThatThrownBy(() -> Samples.load("{\"model\":".getBytes(StandardCharsets.UTF_8)))
                .isInstanceOf(InvalidModelException.class)
                .hasMessageStartingWith("tokenizer.json: JSON: expected well-formed JSON, got: Unexpected end-of-input")
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TOK_INVALID");
        refused(
                "TOK_INVALID",
                "tokenizer.json: document: expected an object, got an array",
                () -> Samples.load("[]".getBytes(StandardCharsets.UTF_8)));
        refused(
                "TOK_INVALID",
                "tokenizer.json: JSON: expected one value, got more after it",
                () -> Samples.load("{} {}".getBytes(StandardCharsets.UTF_8)));
        assertThatThrownBy(() -> Samples.load("{\"x\":1,\"x\":1}".getBytes(StandardCharsets.UTF_8)))
                .hasMessage("tokenizer.json: JSON: expected well-formed JSON, got: Duplicate field 'x'");
    }

    @Test
    void refusesABrokenVocabulary() {
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: vocabulary: expected one token per id, got two for id 97",
                ",\"zz\":97",
                "",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: token \"zz\": expected an id from 0 to 1048575, got 2147483648",
                ",\"zz\":2147483648",
                "",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: token \"zz\": expected an id from 0 to 1048575, got -1",
                ",\"zz\":-1",
                "",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: token \"zz\": expected an id from 0 to 1048575, got -1",
                ",\"zz\":99999999999999999999",
                "",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.vocab \"zz\": expected an integer, got a fraction",
                ",\"zz\":1.5",
                "",
                "",
                "");
        refused(
                "TOK_INVALID",
                "tokenizer.json: vocabulary: expected a token for every byte, got none for 0x00",
                () -> Samples.load("""
                    {"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
                    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}}\
                    """.getBytes(StandardCharsets.UTF_8)));
    }

    @Test
    void refusesALoneSurrogateInTheVocabulary() {
        byte[] file = Samples.tokenizerJson(SPLIT, ",\"PLACE\":256", "", "", "");
        byte[] encodedSurrogate = new String(file, StandardCharsets.ISO_8859_1)
                .replace("PLACE", "\u00ed\u00b0\u0080")
                .getBytes(StandardCharsets.ISO_8859_1);
        refused(
                "TOK_INVALID",
                "tokenizer.json: expected UTF-8, got other bytes; is the file complete?",
                () -> Samples.load(encodedSurrogate));
        assertThatThrownBy(() -> Samples.load(Samples.tokenizerJson(SPLIT, ",\"\\ud800\":256", "", "", "")))
                .hasMessageStartingWith("tokenizer.json: JSON: expected well-formed JSON, got: Broken surrogate pair");
    }

    @Test
    void refusesBrokenMerges() {
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.merges[0]: expected tokens of the vocabulary, got \"ab\"",
                "",
                "\"a b\"",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.merges[1]: expected tokens of the vocabulary, got \"abq\"",
                ",\"ab\":256",
                "\"a b\",\"ab q\"",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.merges[0]: expected two tokens and a space between, got \"ab\"",
                "",
                "\"ab\"",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.merges[0]: expected a string, got an integer",
                "",
                "[\"a\",1]",
                "",
                "");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: model.merges[0]: expected the end of the array, got a string",
                ",\"ab\":256",
                "[\"a\",\"b\",\"c\"]",
                "",
                "");
    }

    @Test
    void refusesBrokenAddedTokens() {
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added_tokens: expected every id once, got 300 twice",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":300,\"content\":\"x\"},{\"id\":300,\"content\":\"y\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added tokens: expected one text per id, got \"x\" with id 301 twice",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":300,\"content\":\"x\"},{\"id\":301,\"content\":\"x\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added token \"x\": expected an id of its own, got 97, which is \"a\"",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":97,\"content\":\"x\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added token 300: expected a text as content, got \"\"",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":300,\"content\":\"\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added token \"x\": expected an integer as id, got \"7\"",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":\"7\",\"content\":\"x\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added token 300: expected well-formed Unicode, got a lone surrogate",
                "",
                "",
                "",
                ",\"added_tokens\":[{\"id\":300,\"content\":\"\\ud800\"}]");
        refusedJson(
                "TOK_INVALID",
                "tokenizer.json: added_tokens: expected an array, got STRING",
                "",
                "",
                "",
                ",\"added_tokens\":\"x\"");
        Map<String, byte[]> files = new HashMap<>();
        files.put(
                "tokenizer.json",
                Samples.tokenizerJson(SPLIT, "", "", "", ",\"added_tokens\":[{\"id\":300,\"content\":\"x\"}]"));
        files.put(
                "tokenizer_config.json",
                "{\"added_tokens_decoder\":{\"300\":{\"content\":\"y\"}}}".getBytes(StandardCharsets.UTF_8));
        refused(
                "TOK_INVALID",
                "tokenizer.json: added token 300: expected \"y\" as in tokenizer_config.json, got \"x\"",
                () -> Samples.load(files));
        files.put(
                "tokenizer_config.json",
                "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}".getBytes(StandardCharsets.UTF_8));
        refused(
                "TOK_INVALID",
                "tokenizer_config.json: added_tokens_decoder: expected ids as keys, got x",
                () -> Samples.load(files));
    }

    @Test
    void refusesOtherTokenizersByName() {
        String end = "; this engine reads byte-level BPE only";
        refused(
                "TOK_UNSUPPORTED",
                "tokenizer.json: model.type: expected BPE, got \"Unigram\"" + end,
                () -> Samples.load(new String(Samples.tokenizerJson(SPLIT, "", "", "", ""), StandardCharsets.UTF_8)
                        .replace("\"BPE\"", "\"Unigram\"")
                        .getBytes(StandardCharsets.UTF_8)));
        refusedJson(
                "TOK_UNSUPPORTED",
                "tokenizer.json: model.continuing_subword_prefix: expected none, got \"##\"" + end,
                "",
                "",
                ",\"continuing_subword_prefix\":\"##\"",
                "");
        refusedJson(
                "TOK_UNSUPPORTED",
                "tokenizer.json: model.end_of_word_suffix: expected none, got \"</w>\"" + end,
                "",
                "",
                ",\"end_of_word_suffix\":\"</w>\"",
                "");
        refusedJson(
                "TOK_UNSUPPORTED",
                "tokenizer.json: model.dropout: expected none, got 0.1" + end,
                "",
                "",
                ",\"dropout\":0.1",
                "");
        refusedJson(
                "TOK_UNSUPPORTED",
                "tokenizer.json: normalizer: expected none, NFC or a Sequence of it, got \"NFKC\"" + end,
                "",
                "",
                "",
                ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer: expected Split, Digits, ByteLevel or a Sequence of them,"
                        + " got \"Metaspace\"" + end,
                "{\"type\":\"Metaspace\"}");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer: expected ByteLevel as the last one, got null" + end, "null");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer ByteLevel.add_prefix_space: expected false, got true" + end,
                "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer Split.behavior: expected one of Hugging Face's five," + " got \"Odd\""
                        + end,
                "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":\"Odd\"}");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer Split.pattern: expected a Regex or a String, got {}" + end,
                "{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}");
        refusedPreTokenizer(
                "tokenizer.json: pre_tokenizer after ByteLevel: expected none, got \"Digits\"" + end,
                "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                        + "{\"type\":\"Digits\"}]}");
        refused(
                "TOK_UNSUPPORTED",
                "tokenizer.json: decoder: expected ByteLevel, got \"Metaspace\"" + end,
                () -> Samples.load(new String(Samples.tokenizerJson(SPLIT, "", "", "", ""), StandardCharsets.UTF_8)
                        .replace("\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Metaspace\"}")
                        .getBytes(StandardCharsets.UTF_8)));
    }

    @Test
    void refusesABrokenTiktokenModel() {
        refusedTiktoken("tiktoken.model: line 1: expected a token in Base64, a space and a rank, got \"AA==\"", "AA==");
        refusedTiktoken("tiktoken.model: line 1: expected Base64, got \"?\"", "? 0");
        refusedTiktoken(
                "tiktoken.model: line 1: expected a rank from 0 to 1048575, got \"2147483648\"", "AA== 2147483648");
        refusedTiktoken("tiktoken.model: line 2: expected every token once, got \"AA== 1\"", "AA== 0\nAA== 1");
        refusedTiktoken("tiktoken.model: ranks: expected 0 to 1 without a gap, got 2", "AA== 0\nAQ== 2");
        refusedTiktoken("tiktoken.model: vocabulary: expected one token per id, got two for id 0", "AA== 0\nAQ== 0");
        refusedTiktoken("tiktoken.model: vocabulary: expected a token for every byte, got none for 0x01", "AA== 0");
        refusedTiktoken(
                "tiktoken.model: line 1: expected 1 to 1024 bytes, got \"1025 bytes\"",
                Base64.getEncoder().encodeToString(new byte[1025]) + " 0");
        refused(
                "TOK_LIMIT",
                "tiktoken.model: size: expected at most 67108864 bytes, got 67108865",
                () -> Samples.load(Map.of("tiktoken.model", new byte[(64 << 20) + 1])));
        StringBuilder bytes = new StringBuilder();
        for (int b = 0; b < 256; b++) {
            bytes.append(Base64.getEncoder().encodeToString(new byte[] {(byte) b}))
                    .append(' ')
                    .append(b)
                    .append('\n');
        }
        Map<String, byte[]> files = Map.of(
                "tiktoken.model", bytes.toString().getBytes(StandardCharsets.UTF_8),
                "tokenizer_config.json",
                        "{\"added_tokens_decoder\":{\"512\":{\"content\":\"x\"}}}".getBytes(StandardCharsets.UTF_8));
        refused(
                "TOK_INVALID",
                "tokenizer_config.json: added token \"x\": expected an id from 256 to 511,"
                        + " the 256 after the ranks of tiktoken.model, got 512",
                () -> Samples.load(files));
        Tokenizer tokenizer = Samples.load(Map.of("tiktoken.model", files.get("tiktoken.model")));
        assertThat(tokenizer.special("<|reserved_token_256|>")).isEqualTo(256);
        assertThat(tokenizer.encode("é", false)).containsExactly(0xC3, 0xA9);
    }

    private static void refusedTiktoken(String message, String file) {
        refused(
                "TOK_INVALID",
                message,
                () -> Samples.load(Map.of("tiktoken.model", file.getBytes(StandardCharsets.UTF_8))));
    }
}

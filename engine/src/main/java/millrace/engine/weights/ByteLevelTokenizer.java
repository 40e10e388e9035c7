package millrace.engine.weights;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// A tokenizer without training, for models without training: 256 byte tokens, filler words, GLM's special tokens.
///
/// Ids: 0 to 255 the bytes in order of value, then words " w256", " w257" that no text encodes to, the special tokens
/// last. Any text encodes byte by byte, any ids decode to something printable.
public final class ByteLevelTokenizer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> SPECIALS = List.of(
            "<|endoftext|>",
            "[gMASK]",
            "<sop>",
            "<|system|>",
            "<|user|>",
            "<|assistant|>",
            "<|observation|>",
            "<think>",
            "</think>");
    private static final List<String> STOPS = List.of("<|endoftext|>", "<|user|>", "<|observation|>");
    private static final String SPLIT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
            + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    private static final String TEMPLATE = """
            [gMASK]<sop>
            {%- for message in messages -%}
            {%- if message.role == 'system' -%}<|system|>{{ '\\n' + message.content }}
            {%- elif message.role == 'user' -%}<|user|>{{ '\\n' + message.content }}
            {%- elif message.role == 'assistant' -%}<|assistant|>{{ '\\n' + message.content }}
            {%- elif message.role == 'tool' -%}<|observation|>{{ '\\n' + message.content }}
            {%- endif -%}
            {%- endfor -%}
            {%- if add_generation_prompt -%}<|assistant|>{{ '\\n' }}{%- endif -%}
            """;

    private ByteLevelTokenizer() {}

    /// Refuses a vocabulary that has no room for bytes and special tokens.
    static void requireVocab(int vocab) {
        int least = 256 + SPECIALS.size();
        if (vocab < least) {
            throw new IllegalArgumentException("vocabulary: expected at least " + least + ", got " + vocab);
        }
    }

    /// Ids of the tokens that end a turn, for config.json.
    public static List<Integer> stopIds(int vocab) {
        return STOPS.stream().map(stop -> vocab - SPECIALS.size() + SPECIALS.indexOf(stop)).toList();
    }

    /// Writes tokenizer.json, tokenizer_config.json and chat_template.jinja.
    public static void write(Path dir, int vocab) throws IOException {
        requireVocab(vocab);
        Files.write(dir.resolve(ModelFiles.TOKENIZER), JSON.writeValueAsBytes(tokenizer(vocab)));
        ObjectNode config = JSON.createObjectNode();
        config.put("tokenizer_class", "PreTrainedTokenizerFast").put("eos_token", "<|endoftext|>");
        Files.write(dir.resolve(ModelFiles.TOKENIZER_CONFIG), JSON.writeValueAsBytes(config));
        Files.writeString(dir.resolve(ModelFiles.CHAT_TEMPLATE), TEMPLATE);
    }

    private static ObjectNode tokenizer(int vocab) {
        int firstSpecial = vocab - SPECIALS.size();
        ObjectNode root = JSON.createObjectNode();
        root.put("version", "1.0").putNull("truncation").putNull("padding");
        ArrayNode added = root.putArray("added_tokens");
        for (int i = 0; i < SPECIALS.size(); i++) {
            added.addObject()
                    .put("id", firstSpecial + i)
                    .put("content", SPECIALS.get(i))
                    .put("single_word", false)
                    .put("lstrip", false)
                    .put("rstrip", false)
                    .put("normalized", false)
                    .put("special", true);
        }
        root.putNull("normalizer");
        ArrayNode steps = root.putObject("pre_tokenizer").put("type", "Sequence").putArray("pretokenizers");
        ObjectNode split = steps.addObject().put("type", "Split").put("behavior", "Isolated").put("invert", false);
        split.putObject("pattern").put("Regex", SPLIT);
        byteLevel(steps.addObject());
        byteLevel(root.putObject("post_processor"));
        byteLevel(root.putObject("decoder"));
        ObjectNode model = root.putObject("model");
        model.put("type", "BPE").putNull("dropout").putNull("unk_token").putNull("continuing_subword_prefix");
        model.putNull("end_of_word_suffix").put("fuse_unk", false).put("byte_fallback", false);
        model.put("ignore_merges", false);
        ObjectNode ids = model.putObject("vocab");
        int shifted = 256;
        for (int value = 0; value < 256; value++) {
            ids.put(String.valueOf((char) (printable(value) ? value : shifted++)), value);
        }
        for (int id = 256; id < firstSpecial; id++) {
            ids.put("\u0120w" + id, id);
        }
        model.putArray("merges");
        return root;
    }

    private static void byteLevel(ObjectNode node) {
        node.put("type", "ByteLevel").put("add_prefix_space", false).put("trim_offsets", false).put("use_regex", false);
    }

    /// Bytes that the byte-level alphabet writes as the character of the same number; the others are shifted to 256
    /// and up, in order.
    private static boolean printable(int value) {
        return (value >= '!' && value <= '~') || (value >= 0xa1 && value <= 0xac) || value >= 0xae;
    }
}

package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// Reads normalizer, pre_tokenizer and decoder of tokenizer.json.
final class PreTokenizerReader {
    private static final int MAX_STAGES = 8;
    private static final String FILE = TokenizerJson.FILE;

    private PreTokenizerReader() {}

    /// Whether text is brought to NFC; no other normalisation is supported.
    static boolean nfc(@Nullable JsonNode normalizer) {
        if (normalizer == null || normalizer.isNull()) {
            return false;
        }
        String type = normalizer.path("type").asText();
        return switch (type) {
            case "NFC" -> true;
            case "Sequence" -> {
                boolean any = false;
                for (JsonNode inner : normalizer.path("normalizers")) {
                    any |= nfc(inner);
                }
                yield any;
            }
            default -> throw unsupported("normalizer", "none, NFC or a Sequence of it", normalizer.path("type"));
        };
    }

    static Splitter splitter(@Nullable JsonNode preTokenizer) {
        List<Splitter.Stage> stages = new ArrayList<>();
        if (!stages(preTokenizer, stages)) {
            throw unsupported("pre_tokenizer", "ByteLevel as the last one", preTokenizer);
        }
        if (stages.size() > MAX_STAGES) {
            throw new InvalidModelException(
                    "TOK_LIMIT",
                    "%s: pre_tokenizer: expected at most %d stages, got %d".formatted(FILE, MAX_STAGES, stages.size()));
        }
        return new Splitter(stages);
    }

    /// Adds what the node says and returns whether it ended with ByteLevel.
    private static boolean stages(@Nullable JsonNode node, List<Splitter.Stage> stages) {
        if (node == null || node.isNull()) {
            return false;
        }
        String type = node.path("type").asText();
        switch (type) {
            case "Sequence" -> {
                boolean byteLevel = false;
                for (JsonNode inner : node.path("pretokenizers")) {
                    if (byteLevel) {
                        throw unsupported("pre_tokenizer after ByteLevel", "none", inner.path("type"));
                    }
                    byteLevel = stages(inner, stages);
                }
                return byteLevel;
            }
            case "Split" ->
                stages.add(new Splitter.Stage(
                        pattern(node.path("pattern")),
                        behavior(node.path("behavior")),
                        node.path("invert").asBoolean(false)));
            case "Digits" ->
                stages.add(Splitter.Stage.isolated(
                        SplitPattern.trusted(node.path("individual_digits").asBoolean(false) ? "\\p{N}" : "\\p{N}+")));
            case "ByteLevel" -> {
                if (node.path("add_prefix_space").asBoolean(true)) {
                    throw unsupported(
                            "pre_tokenizer ByteLevel.add_prefix_space", "false", node.path("add_prefix_space"));
                }
                if (node.path("use_regex").asBoolean(true)) {
                    stages.add(Splitter.Stage.isolated(SplitPattern.trusted(SplitPattern.GPT2)));
                }
                return true;
            }
            default ->
                throw unsupported("pre_tokenizer", "Split, Digits, ByteLevel or a Sequence of them", node.path("type"));
        }
        return false;
    }

    private static SplitPattern pattern(JsonNode node) {
        if (node.path("Regex").isTextual()) {
            return SplitPattern.compile(FILE, node.path("Regex").asText());
        }
        if (node.path("String").isTextual() && !node.path("String").asText().isEmpty()) {
            return SplitPattern.literal(node.path("String").asText());
        }
        throw unsupported("pre_tokenizer Split.pattern", "a Regex or a String", node);
    }

    private static Splitter.Behavior behavior(JsonNode node) {
        return switch (node.asText()) {
            case "Isolated" -> Splitter.Behavior.ISOLATED;
            case "Removed" -> Splitter.Behavior.REMOVED;
            case "MergedWithPrevious" -> Splitter.Behavior.MERGED_WITH_PREVIOUS;
            case "MergedWithNext" -> Splitter.Behavior.MERGED_WITH_NEXT;
            case "Contiguous" -> Splitter.Behavior.CONTIGUOUS;
            default -> throw unsupported("pre_tokenizer Split.behavior", "one of Hugging Face's five", node);
        };
    }

    static void checkDecoder(@Nullable JsonNode decoder) {
        if (decoder == null || decoder.isNull()) {
            return;
        }
        String type = decoder.path("type").asText();
        boolean byteLevel = type.equals("ByteLevel");
        if (type.equals("Sequence") && decoder.path("decoders").size() == 1) {
            byteLevel = decoder.path("decoders").path(0).path("type").asText().equals("ByteLevel");
        }
        if (!byteLevel) {
            throw unsupported("decoder", "ByteLevel", decoder.path("type"));
        }
    }

    static InvalidModelException unsupported(String what, String expected, @Nullable JsonNode got) {
        String shown = got == null || got.isMissingNode() ? "none" : got.toString();
        return new InvalidModelException(
                "TOK_UNSUPPORTED",
                "%s: %s: expected %s, got %s; this engine reads byte-level BPE only"
                        .formatted(FILE, what, expected, shown.length() <= 80 ? shown : shown.substring(0, 80) + "…"));
    }
}

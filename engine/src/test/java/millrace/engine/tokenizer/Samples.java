package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The sample tokenizers among the test resources, and small ones made up on the spot.
final class Samples {
    static final JsonMapper JSON = new JsonMapper();

    private Samples() {}

    static byte @Nullable [] bytes(String name) {
        try (InputStream in = Samples.class.getResourceAsStream("/tokenizer/" + name)) {
            return in == null ? null : in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static byte[] required(String name) {
        byte[] bytes = bytes(name);
        if (bytes == null) {
            throw new IllegalArgumentException(name);
        }
        return bytes;
    }

    static String text(String name) {
        return new String(required(name), StandardCharsets.UTF_8);
    }

    static TokenizerFiles files(String model) {
        return name -> bytes(model + "/" + name);
    }

    static Tokenizer glm() {
        return Tokenizers.load(files("glm-tiny"));
    }

    static Tokenizer kimi() {
        return Tokenizers.load(files("kimi-tiny"));
    }

    static List<JsonNode> lines(String name) {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : text(name).split("\n")) {
            lines.add(json(line));
        }
        return lines;
    }

    static JsonNode json(String text) {
        try {
            return JSON.readTree(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static int[] ids(JsonNode array) {
        int[] ids = new int[array.size()];
        for (int i = 0; i < ids.length; i++) {
            ids[i] = array.get(i).intValue();
        }
        return ids;
    }

    /// A tokenizer.json with the 256 bytes as ids 0 to 255, one more token, and whatever else is given.
    static byte[] tokenizerJson(String preTokenizer, String moreVocab, String merges, String moreModel, String top) {
        StringBuilder vocab = new StringBuilder();
        int next = 0x100;
        for (int b = 0; b < 256; b++) {
            boolean printable = b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174;
            String token = String.valueOf((char) (printable ? b : next++));
            vocab.append(b == 0 ? "" : ",")
                    .append(JSON.getNodeFactory().textNode(token))
                    .append(':')
                    .append(b);
        }
        return """
            {"version":"1.0","pre_tokenizer":%s,"decoder":{"type":"ByteLevel"}%s,
            "model":{"type":"BPE"%s,"vocab":{%s%s},"merges":[%s]}}\
            """.formatted(preTokenizer, top, moreModel, vocab, moreVocab, merges)
                .getBytes(StandardCharsets.UTF_8);
    }

    static String split(String regex) {
        return """
            {"type":"Sequence","pretokenizers":[
            {"type":"Split","pattern":{"Regex":%s},"behavior":"Isolated","invert":false},
            {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}\
            """.formatted(JSON.getNodeFactory().textNode(regex));
    }

    static byte[] withPattern(String regex) {
        return tokenizerJson(split(regex), ",\"ab\":256", "\"a b\"", "", "");
    }

    static Tokenizer load(byte[] tokenizerJson) {
        return load(Map.of("tokenizer.json", tokenizerJson));
    }

    static Tokenizer load(Map<String, byte[]> files) {
        return Tokenizers.load(files::get);
    }

    /// A tokenizer that has exactly these added tokens, besides bytes; for the text side of chat formats.
    static Tokenizer withMarkers(List<String> markers) {
        Map<String, Integer> unique = new HashMap<>();
        StringBuilder added = new StringBuilder(",\"added_tokens\":[");
        for (String marker : markers) {
            if (unique.putIfAbsent(marker, 300 + unique.size()) == null) {
                added.append(unique.size() == 1 ? "" : ",")
                        .append("{\"id\":%d,\"content\":%s,\"special\":true}"
                                .formatted(
                                        unique.get(marker),
                                        JSON.getNodeFactory().textNode(marker)));
            }
        }
        return load(tokenizerJson(
                split(SplitPattern.LLAMA3), "", "", "", added.append(']').toString()));
    }
}

package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.tokenizer.Tokenizer;
import org.jspecify.annotations.Nullable;

/// All bytes, pieces of documents as a trained vocabulary has them, pieces of characters, and markers.
public final class TestVocabulary implements Tokenizer {
    public static final String END = "<end>";
    private static final List<String> MARKERS = List.of("<think>", "</think>", "<tool_call>", END);
    private static final List<String> CALL_MARKERS = List.of("</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
            "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
            "<|tool_call_end|>");
    private static final List<String> PIECES = List.of(
            "{\"", "\":", "\": ", "\":\"", "\": \"", "\",\"", "\", \"", "\"}", "\"]", "\"},", "\"},{\"", "}}", "]}", "]]", "}]",
            ",", ", ", ",\n", ",\n  ", "{\n  ", "[\n", "\n\n", "\n    ", "  ", "   ", "\t", "true", "false", "null", "tr", "ue",
            "nul", "12", "100", "00", "-1", "0.", "1.5", "e+", "E1", ":1", ": 12", "12,", "1]", "1}", "1,\"", ":{\"", ":[",
            ": [", "[[", "[[[", "{\"a\":", "\"a\":", "\"a\"", "a\":", "\"b\":1", ",\"b", "{\"a\":{\"a\":", "{\"a\":1,\"a\":",
            "\"c\": [", "\\\"", "\\n", "\\u00", "\\ud83d", "\\ude00", "abc", "ab", "bc", "red", "green", "name", "\"name\": \"",
            "é", "€", "<think>x", "</think>{\"", "</thi", "nk>\n{", "```", "\")", "=\"", "x\" y", "{}", "[]", "{ }", "\"\"", "},", "}, ");

    private final List<byte[]> tokens = new ArrayList<>();
    private final Map<String, Integer> added = new LinkedHashMap<>();

    /// @param bytes whether every byte is a token
    public TestVocabulary(boolean bytes, List<String> more) {
        Set<String> seen = new LinkedHashSet<>();
        for (int b = 0; b < 256 && bytes; b++) {
            tokens.add(new byte[] {(byte) b});
        }
        for (String piece : bytes ? PIECES : List.<String>of()) {
            if (seen.add(piece)) {
                tokens.add(piece.getBytes(StandardCharsets.UTF_8));
            }
        }
        byte[] smile = "😀".getBytes(StandardCharsets.UTF_8);
        if (bytes) {
            tokens.add(Arrays.copyOf(smile, 2));
            tokens.add(Arrays.copyOfRange(smile, 2, 4));
            tokens.add(new byte[] {'a', smile[0]});
            tokens.add(new byte[] {smile[3], '"', ','});
        }
        for (String piece : more) {
            if (!piece.isEmpty() && seen.add(piece)) {
                tokens.add(piece.getBytes(StandardCharsets.UTF_8));
            }
        }
        List<String> markers = new ArrayList<>(bytes ? CALL_MARKERS : List.of());
        markers.addAll(MARKERS);
        for (String marker : markers) {
            added.put(marker, tokens.size());
            tokens.add(marker.getBytes(StandardCharsets.UTF_8));
        }
    }

    public static TestVocabulary standard() {
        return new TestVocabulary(true, List.of());
    }

    /// The text as tokens, chosen at random among those that fit.
    List<Integer> split(String text, SplittableRandom random) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        List<Integer> ids = new ArrayList<>();
        int at = 0;
        while (at < bytes.length) {
            List<Integer> fitting = new ArrayList<>();
            for (int id = 0; id < tokens.size() - added.size(); id++) {
                byte[] token = tokens.get(id);
                if (at + token.length <= bytes.length
                        && Arrays.equals(token, 0, token.length, bytes, at, at + token.length)) {
                    fitting.add(id);
                }
            }
            // Long ones as often as single bytes.
            int id = random.nextInt(3) == 0 ? fitting.getLast() : fitting.get(random.nextInt(fitting.size()));
            ids.add(id);
            at += tokens.get(id).length;
        }
        return ids;
    }

    public byte[] token(int id) {
        return tokens.get(id);
    }

    int id(String marker) {
        return added.get(marker);
    }

    public Set<Integer> stops() {
        return Set.of(id(END));
    }

    @Override
    public int[] encode(String text, boolean specials) {
        return split(text, new SplittableRandom(1)).stream().mapToInt(Integer::intValue).toArray();
    }

    @Override
    public String decode(int[] ids) {
        var bytes = new java.io.ByteArrayOutputStream();
        for (int id : ids) {
            bytes.writeBytes(tokens.get(id));
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Override
    public byte[] bytes(int id) {
        return isSpecial(id) ? new byte[0] : tokens.get(id);
    }

    @Override
    public int vocabSize() {
        return tokens.size();
    }

    @Override
    public @Nullable Integer special(String text) {
        return added.get(text);
    }

    @Override
    public Map<String, Integer> addedTokens() {
        return added;
    }

    @Override
    public boolean isSpecial(int id) {
        return id == id(END);
    }

    @Override
    public List<Integer> eosTokenIds() {
        return List.of(id(END));
    }

    @Override
    public String digest() {
        return "0".repeat(64);
    }

    @Override
    public String kind() {
        return "test";
    }
}

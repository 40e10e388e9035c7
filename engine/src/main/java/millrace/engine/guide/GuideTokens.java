package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.engine.reply.CallSyntax;
import millrace.engine.tokenizer.Reasoning;
import millrace.engine.tokenizer.Tokenizer;
import org.jspecify.annotations.Nullable;

/// What a vocabulary's tokens are to a guided completion.
///
/// Added tokens are no text: they mark turns, tools and the like, so none may stand in a document; what they look like can still be
/// written with other tokens. Those around reasoning and calls may come where these may.
final class GuideTokens {
    private final TokenTrie trie;
    private final StringMasks strings;
    private final StringMasks keys;
    private final Map<Integer, byte[]> markers = new HashMap<>();
    private final int[] stopTokens;

    /// @param calls how the chat format writes calls of tools; null if it has none
    GuideTokens(Tokenizer tokenizer, int vocabSize, Set<Integer> stopTokens, @Nullable CallSyntax calls) {
        this.stopTokens = stopTokens.stream().filter(id -> id < vocabSize).mapToInt(Integer::intValue).sorted().toArray();
        Set<Integer> excluded = new HashSet<>(stopTokens);
        excluded.addAll(tokenizer.addedTokens().values());
        byte[][] bytes = new byte[vocabSize][];
        for (int id = 0; id < vocabSize; id++) {
            boolean text = id < tokenizer.vocabSize() && !excluded.contains(id) && !tokenizer.isSpecial(id);
            bytes[id] = text ? tokenizer.bytes(id) : new byte[0];
        }
        trie = new TokenTrie(bytes);
        strings = new StringMasks(trie, (vocabSize + 63) >>> 6, false);
        keys = new StringMasks(trie, (vocabSize + 63) >>> 6, true);
        for (String marker : List.of(Reasoning.OPENING, Reasoning.CLOSING)) {
            Integer id = tokenizer.addedTokens().get(marker);
            if (id != null && id < vocabSize && !stopTokens.contains(id)) {
                markers.put(id, marker.getBytes(StandardCharsets.UTF_8));
            }
        }
        for (String marker : calls == null ? List.<String>of() : calls.markers()) {
            Integer id = tokenizer.addedTokens().get(marker);
            byte[] text = marker.getBytes(StandardCharsets.UTF_8);
            // One that does not come into the text could not be read there.
            if (id != null && id < vocabSize && !stopTokens.contains(id) && Arrays.equals(tokenizer.bytes(id), text)) {
                markers.put(id, text);
            }
        }
    }

    TokenTrie trie() {
        return trie;
    }

    StringMasks strings() {
        return strings;
    }

    StringMasks keys() {
        return keys;
    }

    int[] stopTokens() {
        return stopTokens;
    }

    /// The added tokens around reasoning and calls, with their texts.
    Map<Integer, byte[]> markers() {
        return markers;
    }
}

package millrace.engine.tokenizer;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Finds added tokens in a text: the leftmost, the longest of those that begin there.
final class AddedTokens {
    /// A part of a text: an added token, or what lies between.
    record Part(int from, int to, @Nullable AddedToken token) {}

    private static final class Node {
        private final Map<Character, Node> children = new HashMap<>();
        private @Nullable AddedToken token;
    }

    private final Node root = new Node();

    AddedTokens(Collection<AddedToken> tokens) {
        for (AddedToken token : tokens) {
            Node node = root;
            for (int i = 0; i < token.content().length(); i++) {
                node = node.children.computeIfAbsent(token.content().charAt(i), c -> new Node());
            }
            node.token = token;
        }
    }

    List<Part> split(String text) {
        List<Part> parts = new ArrayList<>();
        int done = 0;
        int at = 0;
        while (at < text.length()) {
            AddedToken token = longestAt(text, at);
            if (token == null) {
                at++;
                continue;
            }
            int from = at;
            int to = at + token.content().length();
            at = to;
            if (token.singleWord() && (wordBefore(text, from) || wordAfter(text, to))) {
                continue;
            }
            if (token.lstrip()) {
                while (from > done && isSpace(text.charAt(from - 1))) {
                    from--;
                }
            }
            if (token.rstrip()) {
                while (to < text.length() && isSpace(text.charAt(to))) {
                    to++;
                }
                at = to;
            }
            if (done < from) {
                parts.add(new Part(done, from, null));
            }
            parts.add(new Part(from, to, token));
            done = to;
        }
        if (done < text.length()) {
            parts.add(new Part(done, text.length(), null));
        }
        return parts;
    }

    private @Nullable AddedToken longestAt(String text, int from) {
        Node node = root;
        AddedToken longest = null;
        for (int i = from; i < text.length(); i++) {
            node = node.children.get(text.charAt(i));
            if (node == null) {
                break;
            }
            if (node.token != null) {
                longest = node.token;
            }
        }
        return longest;
    }

    private static boolean wordBefore(String text, int at) {
        return at > 0 && isWord(text.codePointBefore(at));
    }

    private static boolean wordAfter(String text, int at) {
        return at < text.length() && isWord(text.codePointAt(at));
    }

    private static boolean isSpace(char c) {
        return c >= 0x09 && c <= 0x0D || c == 0x85 || Character.isSpaceChar(c);
    }

    private static boolean isWord(int c) {
        return Character.isLetterOrDigit(c) || c == '_' || Character.getType(c) == Character.NON_SPACING_MARK;
    }
}

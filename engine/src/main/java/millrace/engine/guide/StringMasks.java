package millrace.engine.guide;

import java.util.Arrays;

/// What the tokens of a vocabulary are inside a string, between two characters: how many characters each has, and where the string
/// ends in it. So one walk serves every string, however many characters it may still have.
///
/// Never changed, and made on a thread that prepares requests.
final class StringMasks {
    /// Tokens that stay in the string and begin at most so many characters.
    private final long[][] inside;

    /// Nodes at which a string ends, and the characters before.
    private final int[] ends;

    private final int[] characters;

    /// @param key whether it is a string as a key is written, see [KeyRule]
    StringMasks(TokenTrie trie, int words, boolean key) {
        inside = new long[trie.longest() + 1][];
        long[][] exactly = new long[trie.longest() + 1][];
        int[] lexer = new int[trie.longest() + 1];
        int[] begun = new int[trie.longest() + 1];
        int[] endNodes = new int[trie.nodes()];
        int[] endCharacters = new int[trie.nodes()];
        int found = 0;
        int node = 1;
        while (node < trie.nodes()) {
            int depth = trie.depth(node);
            int from = lexer[depth - 1];
            int b = trie.label(node);
            if (from == StringLexer.BODY && b == '"') {
                endNodes[found] = node;
                endCharacters[found++] = begun[depth - 1];
                node = trie.end(node);
                continue;
            }
            int next = StringLexer.step(from, b);
            boolean spelled = key && from == StringLexer.ESCAPE && KeyRule.isSpelled(b);
            if (next < 0 || spelled) {
                node = trie.end(node);
                continue;
            }
            lexer[depth] = next;
            int count = begun[depth - 1] + (from == StringLexer.BODY ? 1 : 0);
            begun[depth] = count;
            if (exactly[count] == null) {
                exactly[count] = new long[words];
            }
            trie.mark(node, exactly[count]);
            node++;
        }
        ends = Arrays.copyOf(endNodes, found);
        characters = Arrays.copyOf(endCharacters, found);
        long[] sum = new long[words];
        for (int count = 0; count < inside.length; count++) {
            if (exactly[count] != null) {
                sum = sum.clone();
                for (int i = 0; i < words; i++) {
                    sum[i] |= exactly[count][i];
                }
            }
            inside[count] = sum;
        }
    }

    /// Tokens that stay in a string that may have so many more characters.
    long[] inside(int maxLeft) {
        boolean all = maxLeft == StringRule.UNBOUNDED || maxLeft >= inside.length;
        return inside[all ? inside.length - 1 : maxLeft];
    }

    int ends() {
        return ends.length;
    }

    int endNode(int index) {
        return ends[index];
    }

    /// Whether a string that has to have `minLeft` and may have `maxLeft` more characters can end there.
    boolean endsWithin(int index, int minLeft, int maxLeft) {
        int count = characters[index];
        return count >= minLeft && (maxLeft == StringRule.UNBOUNDED || count <= maxLeft);
    }
}

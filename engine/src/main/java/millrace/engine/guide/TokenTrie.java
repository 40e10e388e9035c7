package millrace.engine.guide;

import java.util.Arrays;
import java.util.stream.IntStream;

/// The tokens of a vocabulary by their bytes, as a tree laid out in the order of a walk: who may not go into a node skips to its
/// end.
///
/// ```
///  node      0     1     2     3     4
///  label           a     b     c     x          tokens "a", "ab", "ac", "x": those of a node, then of the nodes below it
///  depth     0     1     2     2     1
///  end       5     4     3     4     5
/// ```
final class TokenTrie {
    private final byte[] label;
    private final short[] depth;
    private final int[] end;

    /// First of a node's tokens; as many entries as nodes, and one.
    private final int[] firstToken;

    private final int[] tokens;
    private final byte[][] bytes;
    private final int longest;

    /// @param bytes of each token; empty for those that are not to be found
    TokenTrie(byte[][] bytes) {
        this.bytes = bytes;
        tokens = IntStream.range(0, bytes.length)
                .filter(id -> bytes[id].length > 0)
                .boxed()
                .sorted((a, b) -> {
                    int order = Arrays.compareUnsigned(bytes[a], bytes[b]);
                    return order != 0 ? order : Integer.compare(a, b);
                })
                .mapToInt(Integer::intValue)
                .toArray();
        int nodes = 1;
        int most = 0;
        for (int i = 0; i < tokens.length; i++) {
            int length = bytes[tokens[i]].length;
            nodes = Math.addExact(nodes, length - common(i));
            most = Math.max(most, length);
        }
        longest = most;
        label = new byte[nodes];
        depth = new short[nodes];
        end = new int[nodes];
        firstToken = new int[nodes + 1];
        fill(nodes);
    }

    private int common(int i) {
        if (i == 0) {
            return 0;
        }
        int mismatch = Arrays.mismatch(bytes[tokens[i - 1]], bytes[tokens[i]]);
        return mismatch < 0 ? bytes[tokens[i]].length : mismatch;
    }

    private void fill(int nodes) {
        int[] path = new int[longest + 1];
        int node = 1;
        int at = 0;
        for (int i = 0; i < tokens.length; i++) {
            byte[] token = bytes[tokens[i]];
            int common = common(i);
            for (; at > common; at--) {
                end[path[at]] = node;
            }
            for (; at < token.length; at++) {
                label[node] = token[at];
                depth[node] = (short) (at + 1);
                firstToken[node] = i;
                path[at + 1] = node++;
            }
        }
        for (; at >= 0; at--) {
            end[path[at]] = node;
        }
        firstToken[nodes] = tokens.length;
    }

    int nodes() {
        return label.length;
    }

    /// Bytes of the longest token.
    int longest() {
        return longest;
    }

    int label(int node) {
        return label[node] & 0xFF;
    }

    int depth(int node) {
        return depth[node];
    }

    /// The first node in the order of the walk that is not below this one.
    int end(int node) {
        return end[node];
    }

    /// Marks the tokens that end at a node.
    void mark(int node, long[] bits) {
        // A node's tokens come before those of its first child, which is the next node.
        int to = node + 1 < label.length ? firstToken[node + 1] : tokens.length;
        for (int i = firstToken[node]; i < to; i++) {
            bits[tokens[i] >>> 6] |= 1L << tokens[i];
        }
    }

    /// Byte `at` of the way to a node.
    int pathByte(int node, int at) {
        return bytes[tokens[firstToken[node]]][at] & 0xFF;
    }

    byte[] bytes(int token) {
        return bytes[token];
    }
}

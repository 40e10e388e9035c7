package millrace.engine.guide;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// Byte strings by their first bytes, each with its index. A node is a number, 0 the root.
final class ByteTrie {
    static final int NONE = -1;

    private final List<int[]> children = new ArrayList<>();
    private final List<Integer> ends = new ArrayList<>();
    private final List<int[]> below = new ArrayList<>();
    private final int size;

    ByteTrie(List<byte[]> strings) {
        size = strings.size();
        add();
        for (int i = 0; i < size; i++) {
            int node = 0;
            note(node, i);
            for (byte b : strings.get(i)) {
                node = childOrNew(node, b & 0xFF);
                note(node, i);
            }
            ends.set(node, i);
        }
    }

    private int add() {
        children.add(new int[0]);
        ends.add(NONE);
        below.add(new int[0]);
        return children.size() - 1;
    }

    // Indices come in ascending order.
    private void note(int node, int index) {
        int[] old = below.get(node);
        int[] more = Arrays.copyOf(old, old.length + 1);
        more[old.length] = index;
        below.set(node, more);
    }

    private int childOrNew(int node, int b) {
        int child = child(node, b);
        if (child != NONE) {
            return child;
        }
        int made = add();
        int[] old = children.get(node);
        int[] more = Arrays.copyOf(old, old.length + 1);
        more[old.length] = made << 8 | b;
        children.set(node, more);
        return made;
    }

    int size() {
        return size;
    }

    int child(int node, int b) {
        for (int child : children.get(node)) {
            if ((child & 0xFF) == b) {
                return child >>> 8;
            }
        }
        return NONE;
    }

    boolean leaf(int node) {
        return children.get(node).length == 0;
    }

    /// Index of the string that ends here, or [#NONE].
    int end(int node) {
        return ends.get(node);
    }

    /// Indices of the strings that pass here or end here, ascending.
    int[] below(int node) {
        return below.get(node);
    }
}

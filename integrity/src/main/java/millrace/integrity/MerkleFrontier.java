package millrace.integrity;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import millrace.schemas.PruneMark;

/// An append-only RFC 6962 tree, kept as the roots of its perfect subtrees, largest first: one per set bit of the size,
/// so at most 63 hashes. Immutable.
///
/// A leaf's hash has the prefix byte 0, an inner node `SHA-256(1 || left || right)`, the empty tree's root is
/// `SHA-256("")`.
public final class MerkleFrontier {
    public static final MerkleFrontier EMPTY = new MerkleFrontier(0, new Digest[0]);
    private static final Digest EMPTY_ROOT = Digest.sha256(new byte[0]);

    private final long size;
    private final Digest[] nodes;

    private MerkleFrontier(long size, Digest[] nodes) {
        this.size = size;
        this.nodes = nodes;
    }

    /// The frontier of a tree with `size` leaves.
    ///
    /// @param nodes roots of the perfect subtrees, largest first
    /// @throws IntegrityException code `FRONTIER_INVALID` if their count is not the number of set bits of the size
    public static MerkleFrontier of(long size, List<Digest> nodes) {
        if (size < 0 || nodes.size() != Long.bitCount(size)) {
            throw new IntegrityException("FRONTIER_INVALID", "frontier: expected %d hashes for size %d, got %d"
                    .formatted(Math.max(0, Long.bitCount(size)), size, nodes.size()));
        }
        return new MerkleFrontier(size, nodes.toArray(Digest[]::new));
    }

    /// The tree that a PRUNE leaf states.
    ///
    /// @throws IntegrityException code `FRONTIER_INVALID` as [#of(long, List)]
    public static MerkleFrontier of(PruneMark mark) {
        return of(mark.getMinIndex(), mark.getRoots().stream().map(Digest::of).toList());
    }

    /// Count of leaves.
    public long size() {
        return size;
    }

    public List<Digest> nodes() {
        return List.of(nodes);
    }

    /// The tree with one more leaf.
    public MerkleFrontier append(Digest leafHash) {
        if (size == Long.MAX_VALUE) {
            throw new IllegalStateException("frontier: no room for another leaf");
        }
        MessageDigest sha = Digest.newSha256();
        int merges = Long.numberOfTrailingZeros(~size);
        Digest node = leafHash;
        for (int i = 1; i <= merges; i++) {
            node = node(sha, nodes[nodes.length - i], node);
        }
        int kept = nodes.length - merges;
        Digest[] next = new Digest[kept + 1];
        System.arraycopy(nodes, 0, next, 0, kept);
        next[kept] = node;
        return new MerkleFrontier(size + 1, next);
    }

    /// Hash of the whole tree.
    public Digest root() {
        if (size == 0) {
            return EMPTY_ROOT;
        }
        MessageDigest sha = Digest.newSha256();
        Digest root = nodes[nodes.length - 1];
        for (int i = nodes.length - 2; i >= 0; i--) {
            root = node(sha, nodes[i], root);
        }
        return root;
    }

    static Digest node(MessageDigest sha, Digest left, Digest right) {
        sha.update((byte) 1);
        left.feed(sha);
        right.feed(sha);
        return Digest.finish(sha);
    }

    /// Root of the tree over `leaves[from..to)`, computed by the definition: the split is at the largest power of two
    /// below the count.
    static Digest root(List<Digest> leaves, int from, int to) {
        int count = to - from;
        if (count == 0) {
            return EMPTY_ROOT;
        }
        if (count == 1) {
            return leaves.get(from);
        }
        int middle = from + (int) split(count);
        return node(Digest.newSha256(), root(leaves, from, middle), root(leaves, middle, to));
    }

    /// Leaves of the left part of a tree with so many, at least 2: the largest power of two below the count.
    static long split(long count) {
        return Long.highestOneBit(count - 1);
    }

    /// Root of the tree over the leaves `from` to below `to` of a log whose oldest are not at hand: this is their tree. Only
    /// ranges of RFC 6962 that reach beyond it, or are one of its perfect subtrees, have a root that can be told.
    ///
    /// @param later hashes of the leaves after them
    Digest rangeRoot(List<Digest> later, long from, long to) {
        if (from >= size) {
            return root(later, Math.toIntExact(from - size), Math.toIntExact(to - size));
        }
        long start = 0;
        for (Digest node : nodes) {
            long end = start + Long.highestOneBit(size - start);
            if (start == from && end == to) {
                return node;
            }
            start = end;
        }
        if (to <= size) {
            throw new IllegalArgumentException("frontier of %d leaves: expected one of its subtrees, got leaves %d to %d"
                    .formatted(size, from, to - 1));
        }
        long middle = from + split(to - from);
        return node(Digest.newSha256(), rangeRoot(later, from, middle), rangeRoot(later, middle, to));
    }

    /// The frontier of the given leaves.
    public static MerkleFrontier over(List<Digest> leaves) {
        return EMPTY.and(leaves);
    }

    /// The tree with these leaves too.
    public MerkleFrontier and(List<Digest> leaves) {
        MerkleFrontier tree = this;
        for (Digest leaf : leaves) {
            tree = tree.append(leaf);
        }
        return tree;
    }

    static List<Digest> read(byte[] bytes, int from, int count) {
        List<Digest> nodes = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            nodes.add(Digest.wrap(bytes, from + i * Digest.BYTES));
        }
        return nodes;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof MerkleFrontier that && size == that.size && nodes().equals(that.nodes());
    }

    @Override
    public int hashCode() {
        return Long.hashCode(size) * 31 + nodes().hashCode();
    }

    @Override
    public String toString() {
        return "MerkleFrontier[size=" + size + ", root=" + root() + "]";
    }
}

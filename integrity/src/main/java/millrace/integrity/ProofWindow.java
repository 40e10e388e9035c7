package millrace.integrity;

import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/// The newest leaves of a growing log, and of all before them only the frontier: enough to prove that one of the newest
/// stands in any tree that ends among them, in memory that does not grow with the log.
///
/// Whatever a proof needs from before the window is a whole subtree that the frontier has: a leaf's path never goes into
/// it. Not for use by two threads at once.
public final class ProofWindow {
    private final int capacity;
    private MerkleFrontier before;
    private final ArrayDeque<Digest> leaves = new ArrayDeque<>();

    /// @param before the tree of all leaves before the window
    /// @param capacity the most leaves that are kept, at least 1
    public ProofWindow(MerkleFrontier before, int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException("proof window: expected a capacity of at least 1, got " + capacity);
        }
        this.before = before;
        this.capacity = capacity;
    }

    /// Index of the oldest leaf that can be proven.
    public long from() {
        return before.size();
    }

    /// Count of leaves of the log; also the index of the next one.
    public long size() {
        return before.size() + leaves.size();
    }

    /// Takes the next leaf of the log, and gives up the oldest where there is no room.
    public void append(Digest leafHash) {
        if (leaves.size() == capacity) {
            before = before.append(leaves.removeFirst());
        }
        leaves.addLast(leafHash);
    }

    /// The proof for the leaf at `index` in the tree of the first `size` leaves; empty unless both are in the window.
    public Optional<InclusionProof> prove(long index, long size) {
        if (index < from() || index >= size || size > size()) {
            return Optional.empty();
        }
        Tree tree = new Tree(before, List.copyOf(leaves));
        List<Digest> path = new ArrayList<>();
        tree.collect(0, size, index, path);
        return Optional.of(new InclusionProof(index, size, path));
    }

    /// One look at the window.
    private static final class Tree {
        private final MessageDigest sha = Digest.newSha256();
        private final long from;
        private final List<Digest> leaves;
        /// Roots of the perfect subtrees before the window, by the index where each begins.
        private final Map<Long, Digest> subtrees = new HashMap<>();

        Tree(MerkleFrontier before, List<Digest> leaves) {
            this.from = before.size();
            this.leaves = leaves;
            long begin = 0;
            long rest = before.size();
            for (Digest node : before.nodes()) {
                subtrees.put(begin, node);
                long width = Long.highestOneBit(rest);
                begin += width;
                rest -= width;
            }
        }

        void collect(long begin, long end, long index, List<Digest> path) {
            if (end - begin == 1) {
                return;
            }
            long middle = begin + Long.highestOneBit(end - begin - 1);
            if (index < middle) {
                collect(begin, middle, index, path);
                path.add(root(middle, end));
            } else {
                collect(middle, end, index, path);
                path.add(root(begin, middle));
            }
        }

        private Digest root(long begin, long end) {
            if (end <= from) {
                return subtrees.get(begin);
            }
            if (end - begin == 1) {
                return leaves.get((int) (begin - from));
            }
            long middle = begin + Long.highestOneBit(end - begin - 1);
            return MerkleFrontier.node(sha, root(begin, middle), root(middle, end));
        }
    }
}

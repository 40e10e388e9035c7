package millrace.integrity;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;

/// Shows that a leaf stands at an index of a tree (RFC 9162, 2.1.3).
///
/// @param index of the leaf, from 0
/// @param size count of leaves of the tree
/// @param path hashes from the leaf's sibling up to the root
public record InclusionProof(long index, long size, List<Digest> path) {
    public InclusionProof {
        path = List.copyOf(path);
    }

    /// The proof for `leaves[index]` in the tree over all given leaf hashes.
    public static InclusionProof build(List<Digest> leaves, int index) {
        return build(MerkleFrontier.EMPTY, leaves, index);
    }

    /// The proof for a leaf of a log whose oldest leaves are no longer at hand.
    ///
    /// @param before the tree of the leaves that are gone
    /// @param leaves hashes of all others
    /// @param index of the leaf in the log, at least `before.size()`
    public static InclusionProof build(MerkleFrontier before, List<Digest> leaves, long index) {
        long size = before.size() + leaves.size();
        if (index < before.size() || index >= size) {
            throw new IllegalArgumentException(
                    "inclusion proof: expected an index from %d to below %d, got %d".formatted(before.size(), size, index));
        }
        List<Digest> path = new ArrayList<>();
        collect(before, leaves, 0, size, index, path);
        return new InclusionProof(index, size, path);
    }

    private static void collect(MerkleFrontier before, List<Digest> leaves, long from, long to, long index, List<Digest> path) {
        if (to - from == 1) {
            return;
        }
        long middle = from + MerkleFrontier.split(to - from);
        if (index < middle) {
            collect(before, leaves, from, middle, index, path);
            path.add(before.rangeRoot(leaves, middle, to));
        } else {
            collect(before, leaves, middle, to, index, path);
            path.add(before.rangeRoot(leaves, from, middle));
        }
    }

    /// Whether the tree with this root holds this leaf at the index; refuted with code `PROOF_INVALID`.
    public Verdict verify(Digest leafHash, Digest root) {
        if (index < 0 || index >= size) {
            return new Verdict.Refuted("PROOF_INVALID", "inclusion proof: index", "0 to below " + size, index);
        }
        MessageDigest sha = Digest.newSha256();
        long at = index;
        long last = size - 1;
        Digest node = leafHash;
        for (Digest sibling : path) {
            if (last == 0) {
                return new Verdict.Refuted("PROOF_INVALID", "inclusion proof: path", "no more hashes at the root",
                        path.size() + " hashes");
            }
            if ((at & 1) == 1 || at == last) {
                node = MerkleFrontier.node(sha, sibling, node);
                // The right edge has no sibling on levels where the subtree is not full: go up to where it has one.
                while ((at & 1) == 0 && at != 0) {
                    at >>= 1;
                    last >>= 1;
                }
            } else {
                node = MerkleFrontier.node(sha, node, sibling);
            }
            at >>= 1;
            last >>= 1;
        }
        if (last != 0) {
            return new Verdict.Refuted("PROOF_INVALID", "inclusion proof: path", "hashes up to the root",
                    path.size() + " hashes");
        }
        return node.equals(root) ? Verdict.VERIFIED
                : new Verdict.Refuted("PROOF_INVALID", "inclusion proof: root", root, node);
    }
}

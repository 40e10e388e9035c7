package millrace.integrity;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;

/// Shows that a tree is a prefix of a later one: nothing that was logged has been changed since (RFC 9162, 2.1.4).
///
/// @param from count of leaves of the older tree
/// @param to count of leaves of the newer tree
/// @param path hashes as RFC 9162 orders them
public record ConsistencyProof(long from, long to, List<Digest> path) {
    public ConsistencyProof {
        path = List.copyOf(path);
    }

    /// The proof from the tree over the first `from` leaf hashes to the tree over all of them.
    public static ConsistencyProof build(List<Digest> leaves, int from) {
        return build(MerkleFrontier.EMPTY, leaves, from);
    }

    /// The proof for a log whose oldest leaves are no longer at hand.
    ///
    /// @param before the tree of the leaves that are gone
    /// @param leaves hashes of all others
    /// @param from count of leaves of the older tree, at least `before.size()`
    public static ConsistencyProof build(MerkleFrontier before, List<Digest> leaves, long from) {
        long size = before.size() + leaves.size();
        if (from < before.size() || from > size) {
            throw new IllegalArgumentException(
                    "consistency proof: expected %d to %d leaves, got %d".formatted(before.size(), size, from));
        }
        List<Digest> path = new ArrayList<>();
        if (from > 0 && from < size) {
            collect(before, leaves, 0, size, from, true, path);
        }
        return new ConsistencyProof(from, size, path);
    }

    /// SUBPROOF of RFC 9162: `whole` says that the verifier knows the root of `leaves[start..start+count)`.
    private static void collect(
            MerkleFrontier before, List<Digest> leaves, long start, long end, long count, boolean whole, List<Digest> path) {
        if (count == end - start) {
            if (!whole) {
                path.add(before.rangeRoot(leaves, start, end));
            }
            return;
        }
        long split = MerkleFrontier.split(end - start);
        if (count <= split) {
            collect(before, leaves, start, start + split, count, whole, path);
            path.add(before.rangeRoot(leaves, start + split, end));
        } else {
            collect(before, leaves, start + split, end, count - split, false, path);
            path.add(before.rangeRoot(leaves, start, start + split));
        }
    }

    /// Whether the tree with root `toRoot` begins with the tree with root `fromRoot`; refuted with code
    /// `PROOF_INVALID`.
    public Verdict verify(Digest fromRoot, Digest toRoot) {
        if (from < 0 || from > to) {
            return refuted("sizes", "0 <= from <= to", from + " and " + to);
        }
        if (from == to || from == 0) {
            if (!path.isEmpty()) {
                return refuted("path", "no hashes", path.size() + " hashes");
            }
            if (from == 0) {
                return fromRoot.equals(MerkleFrontier.EMPTY.root()) ? Verdict.VERIFIED
                        : refuted("older root", MerkleFrontier.EMPTY.root(), fromRoot);
            }
            return fromRoot.equals(toRoot) ? Verdict.VERIFIED : refuted("roots", fromRoot, toRoot);
        }
        if (path.isEmpty()) {
            return refuted("path", "at least one hash", "none");
        }
        List<Digest> hashes = new ArrayList<>(path);
        if (Long.bitCount(from) == 1) {
            hashes.addFirst(fromRoot);
        }
        return walk(hashes, fromRoot, toRoot);
    }

    private Verdict walk(List<Digest> hashes, Digest fromRoot, Digest toRoot) {
        MessageDigest sha = Digest.newSha256();
        int shift = Long.numberOfTrailingZeros(~(from - 1));
        long at = (from - 1) >> shift;
        long last = (to - 1) >> shift;
        Digest older = hashes.getFirst();
        Digest newer = older;
        for (Digest hash : hashes.subList(1, hashes.size())) {
            if (last == 0) {
                return refuted("path", "no more hashes at the root", path.size() + " hashes");
            }
            if ((at & 1) == 1 || at == last) {
                older = MerkleFrontier.node(sha, hash, older);
                newer = MerkleFrontier.node(sha, hash, newer);
                while ((at & 1) == 0 && at != 0) {
                    at >>= 1;
                    last >>= 1;
                }
            } else {
                newer = MerkleFrontier.node(sha, newer, hash);
            }
            at >>= 1;
            last >>= 1;
        }
        if (last != 0) {
            return refuted("path", "hashes up to the root", path.size() + " hashes");
        }
        if (!older.equals(fromRoot)) {
            return refuted("older root", fromRoot, older);
        }
        return newer.equals(toRoot) ? Verdict.VERIFIED : refuted("newer root", toRoot, newer);
    }

    private static Verdict refuted(String what, Object expected, Object got) {
        return new Verdict.Refuted("PROOF_INVALID", "consistency proof: " + what, expected, got);
    }
}

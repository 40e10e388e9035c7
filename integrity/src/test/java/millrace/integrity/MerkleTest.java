package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class MerkleTest {
    private static final int MOST = 70;
    private static final List<Digest> LEAVES =
            IntStream.range(0, MOST).mapToObj(i -> leafHash(new byte[] {(byte) i})).toList();

    private static Digest leafHash(byte[] input) {
        return Digest.sha256(new byte[] {0}, input);
    }

    /// Leaves and roots of the reference implementations of RFC 6962.
    @Test
    void hasTheKnownRootsOfRfc6962() {
        String[] inputs = {"", "00", "10", "2021", "3031", "40414243", "5051525354555657",
            "606162636465666768696a6b6c6d6e6f"};
        String[] roots = {
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
        MerkleFrontier tree = MerkleFrontier.EMPTY;
        assertThat(tree.root().hex()).isEqualTo("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        for (int i = 0; i < inputs.length; i++) {
            tree = tree.append(leafHash(HexFormat.of().parseHex(inputs[i])));
            assertThat(tree.root().hex()).as("root of %d leaves", i + 1).isEqualTo(roots[i]);
        }
    }

    @Test
    void frontierHasTheRootOfTheDefinition() {
        MerkleFrontier tree = MerkleFrontier.EMPTY;
        for (int n = 0; n <= MOST; n++) {
            assertThat(tree.root()).as("size %d", n).isEqualTo(MerkleFrontier.root(LEAVES, 0, n));
            assertThat(tree.nodes()).hasSize(Integer.bitCount(n));
            if (n < MOST) {
                tree = tree.append(LEAVES.get(n));
            }
        }
    }

    @Test
    void provesEveryLeafOfEveryTree() {
        for (int n = 1; n <= MOST; n++) {
            List<Digest> leaves = LEAVES.subList(0, n);
            Digest root = MerkleFrontier.root(leaves, 0, n);
            for (int i = 0; i < n; i++) {
                InclusionProof proof = InclusionProof.build(leaves, i);
                assertThat(proof.verify(leaves.get(i), root).ok()).as("leaf %d of %d", i, n).isTrue();
                refusesEveryAlteration(proof, leaves.get(i), root);
            }
        }
    }

    /// Of a log whose oldest leaves have expired only their tree is known: the proofs are the same.
    @Test
    void provesTheSameWithoutTheOldestLeaves() {
        for (int n = 1; n <= 40; n++) {
            List<Digest> leaves = LEAVES.subList(0, n);
            for (int gone = 0; gone <= n; gone++) {
                MerkleFrontier before = MerkleFrontier.over(LEAVES.subList(0, gone));
                List<Digest> left = LEAVES.subList(gone, n);
                for (int i = gone; i <= n; i++) {
                    if (i < n) {
                        assertThat(InclusionProof.build(before, left, i)).as("%d of %d, %d gone", i, n, gone)
                                .isEqualTo(InclusionProof.build(leaves, i));
                    }
                    assertThat(ConsistencyProof.build(before, left, i)).as("%d to %d, %d gone", i, n, gone)
                            .isEqualTo(ConsistencyProof.build(leaves, i));
                }
            }
        }
        MerkleFrontier five = MerkleFrontier.over(LEAVES.subList(0, 5));
        assertThatThrownBy(() -> InclusionProof.build(five, LEAVES.subList(5, 9), 4))
                .hasMessage("inclusion proof: expected an index from 5 to below 9, got 4");
        assertThatThrownBy(() -> ConsistencyProof.build(five, LEAVES.subList(5, 9), 4))
                .hasMessage("consistency proof: expected 5 to 9 leaves, got 4");
        assertThatThrownBy(() -> five.rangeRoot(List.of(), 0, 2)).hasMessage("frontier of 5 leaves: expected one of its subtrees, got leaves 0 to 1");
    }

    private static void refusesEveryAlteration(InclusionProof proof, Digest leaf, Digest root) {
        long i = proof.index();
        long n = proof.size();
        List<Digest> path = proof.path();
        assertInvalid(new InclusionProof(n, n, path).verify(leaf, root));
        assertInvalid(new InclusionProof(-1, n, path).verify(leaf, root));
        if (n > 1) {
            assertInvalid(new InclusionProof((i + 1) % n, n, path).verify(leaf, root));
            assertInvalid(new InclusionProof(i, n, path.subList(1, path.size())).verify(leaf, root));
            assertInvalid(new InclusionProof(i, n, path.subList(0, path.size() - 1)).verify(leaf, root));
        }
        List<Digest> longer = new ArrayList<>(path);
        longer.add(root);
        assertInvalid(new InclusionProof(i, n, longer).verify(leaf, root));
        assertInvalid(proof.verify(root.equals(leaf) ? Digest.ZERO : root, root));
        assertInvalid(proof.verify(leaf, Digest.ZERO));
    }

    @Test
    void provesEveryTreeAPrefixOfEveryLaterOne() {
        Digest[] roots = new Digest[MOST + 1];
        for (int n = 0; n <= MOST; n++) {
            roots[n] = MerkleFrontier.root(LEAVES, 0, n);
        }
        for (int n = 0; n <= MOST; n++) {
            for (int m = 0; m <= n; m++) {
                ConsistencyProof proof = ConsistencyProof.build(LEAVES.subList(0, n), m);
                assertThat(proof.verify(roots[m], roots[n])).as("%d to %d", m, n).isEqualTo(Verdict.VERIFIED);
                List<Digest> path = proof.path();
                List<Digest> longer = new ArrayList<>(path);
                longer.add(Digest.ZERO);
                assertInvalid(new ConsistencyProof(m, n, longer).verify(roots[m], roots[n]));
                assertInvalid(proof.verify(Digest.ZERO, roots[n]));
                if (m > 0) {
                    assertInvalid(proof.verify(roots[m], Digest.ZERO));
                }
                if (!path.isEmpty()) {
                    assertInvalid(new ConsistencyProof(m, n, path.subList(1, path.size())).verify(roots[m], roots[n]));
                    assertInvalid(new ConsistencyProof(m, n, path.subList(0, path.size() - 1))
                            .verify(roots[m], roots[n]));
                    assertInvalid(new ConsistencyProof(m, n, List.of()).verify(roots[m], roots[n]));
                }
            }
        }
        assertInvalid(new ConsistencyProof(5, 3, List.of()).verify(roots[5], roots[3]));
    }

    /// The prefix bytes keep the two kinds of node apart: the bytes under an inner node, taken as a leaf's input, have
    /// another hash.
    @Test
    void aLeafMadeOfAnInnerNodesBytesIsNotThatNode() {
        Digest inner = MerkleFrontier.node(Digest.newSha256(), LEAVES.get(0), LEAVES.get(1));
        byte[] input = new byte[64];
        LEAVES.get(0).copyTo(input, 0);
        LEAVES.get(1).copyTo(input, 32);
        Digest forged = leafHash(input);
        assertThat(forged).isNotEqualTo(inner);
        Digest root = MerkleFrontier.root(LEAVES, 0, 4);
        InclusionProof asLeaf = new InclusionProof(0, 2, List.of(MerkleFrontier.root(LEAVES, 2, 4)));
        assertInvalid(asLeaf.verify(forged, root));
    }

    @Test
    void proofsSayWhatIsWrong() {
        InclusionProof proof = new InclusionProof(3, 3, List.of());
        assertThat(proof.verify(LEAVES.getFirst(), Digest.ZERO))
                .hasToString("PROOF_INVALID: inclusion proof: index: expected 0 to below 3, got 3");
    }

    @Test
    void refusesAFrontierOfTheWrongLength() {
        assertThatThrownBy(() -> MerkleFrontier.of(5, List.of(Digest.ZERO)))
                .isInstanceOf(IntegrityException.class)
                .hasMessage("frontier: expected 2 hashes for size 5, got 1")
                .extracting("code").isEqualTo("FRONTIER_INVALID");
    }

    private static void assertInvalid(Verdict verdict) {
        assertThat(verdict).isInstanceOfSatisfying(Verdict.Refuted.class,
                refuted -> assertThat(refuted.code()).isEqualTo("PROOF_INVALID"));
    }
}

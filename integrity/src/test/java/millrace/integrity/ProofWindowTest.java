package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProofWindowTest {
    private static final int MOST = 70;

    private static List<Digest> leaves(int count) {
        List<Digest> leaves = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            leaves.add(Digest.sha256("leaf " + i));
        }
        return leaves;
    }

    /// The same proofs as those over all leaves, wherever the window begins and whichever tree is asked for.
    @Test
    void provesWhatAllLeavesProve() {
        List<Digest> all = leaves(MOST);
        for (int begin = 0; begin < MOST; begin++) {
            ProofWindow window = new ProofWindow(MerkleFrontier.over(all.subList(0, begin)), MOST);
            all.subList(begin, MOST).forEach(window::append);
            for (int size = begin + 1; size <= MOST; size++) {
                for (int index = begin; index < size; index++) {
                    assertThat(window.prove(index, size)).as("window from %d, leaf %d of %d", begin, index, size)
                            .hasValue(InclusionProof.build(all.subList(0, size), index));
                }
            }
        }
    }

    @Test
    void forgetsTheOldestAndStillProvesTheRest() {
        List<Digest> all = leaves(MOST);
        ProofWindow window = new ProofWindow(MerkleFrontier.EMPTY, 8);
        for (int size = 1; size <= MOST; size++) {
            window.append(all.get(size - 1));
            assertThat(window.size()).isEqualTo(size);
            assertThat(window.from()).isEqualTo(Math.max(0, size - 8));
            Digest root = MerkleFrontier.over(all.subList(0, size)).root();
            for (long index = window.from(); index < size; index++) {
                assertThat(window.prove(index, size).orElseThrow().verify(all.get((int) index), root)).isEqualTo(Verdict.VERIFIED);
            }
            assertThat(window.prove(window.from() - 1, size)).as("a leaf before the window").isEmpty();
            assertThat(window.prove(size, size)).as("a leaf behind the tree").isEmpty();
            assertThat(window.prove(window.from(), size + 1)).as("a tree that is not there yet").isEmpty();
        }
    }

    @Test
    void refusesAWindowWithoutRoom() {
        assertThatThrownBy(() -> new ProofWindow(MerkleFrontier.EMPTY, 0))
                .hasMessage("proof window: expected a capacity of at least 1, got 0");
    }
}

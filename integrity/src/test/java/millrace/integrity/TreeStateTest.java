package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class TreeStateTest {
    private static final Origin ORIGIN = new Origin("example.com", "Q2x1c3Rlcg", "millrace.audit", 3, 0);

    @Test
    void comesBackFromItsBytes() {
        TreeState state = TreeState.start(ORIGIN);
        for (int i = 0; i < 40; i++) {
            assertThat(TreeState.decode(state.encode())).as("size %d", i).isEqualTo(state);
            state = state.append(Digest.sha256("leaf " + i));
            assertThat(state.size()).isEqualTo(i + 1);
        }
        assertThat(state.checkpoint().root()).isEqualTo(state.frontier().root());
    }

    @Test
    void refusesEveryFlippedByteAndEveryOtherLength() {
        byte[] bytes = TreeState.start(ORIGIN).append(Digest.sha256("a")).append(Digest.sha256("b")).encode();
        for (int i = 0; i < bytes.length; i++) {
            byte[] bad = bytes.clone();
            bad[i] ^= 0x10;
            assertRefused(bad);
            assertRefused(Arrays.copyOf(bytes, i));
        }
        assertRefused(Arrays.copyOf(bytes, bytes.length + 1));
    }

    @Test
    void saysWhatToDo() {
        byte[] bytes = TreeState.start(ORIGIN).encode();
        bytes[bytes.length - 1] ^= 1;
        assertThatThrownBy(() -> TreeState.decode(bytes)).hasMessageMatching(
                "tree state: expected CRC-32C [0-9a-f]{8}, got [0-9a-f]{8}; restore the store or start a new epoch");
    }

    @Test
    void namesItsLog() {
        assertThat(ORIGIN.text()).isEqualTo("example.com/Q2x1c3Rlcg/millrace.audit/3/0");
        assertThat(Origin.parse(ORIGIN.nextEpoch().text()).epoch()).isEqualTo(1);
        for (String bad : new String[] {"", "a/b/c/0", "a/b/c/00/0", "a/b/c/-1/0", "a/b/c/0/0/0", "a b/b/c/0/0",
            "a/b/c/0/9999999999", "a/b/c/0/0\n"}) {
            assertThatThrownBy(() -> Origin.parse(bad)).as(bad).isInstanceOf(IntegrityException.class)
                    .hasMessageStartingWith("origin: expected domain/cluster/topic/partition/epoch, got \"");
        }
    }

    private static void assertRefused(byte[] bytes) {
        assertThatThrownBy(() -> TreeState.decode(bytes)).isInstanceOf(IntegrityException.class)
                .extracting("code").isEqualTo("TREE_STATE_INVALID");
    }
}

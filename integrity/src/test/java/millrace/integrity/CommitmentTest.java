package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import millrace.integrity.Commitment.Kind;
import org.junit.jupiter.api.Test;

class CommitmentTest {
    private static final byte[] SALT = TestLog.SALT;
    private static final byte[] OTHER_SALT = new byte[32];

    @Test
    void opensForTheRightBytesAlone() {
        byte[] bytes = "text".getBytes(StandardCharsets.UTF_8);
        Digest commitment = Commitment.completion(SALT, "text");
        assertThat(Commitment.opens(commitment, Kind.COMPLETION, SALT, bytes)).isTrue();
        assertThat(Commitment.opens(commitment, Kind.PROMPT, SALT, bytes)).isFalse();
        assertThat(Commitment.opens(commitment, Kind.COMPLETION, OTHER_SALT, bytes)).isFalse();
        assertThat(Commitment.opens(commitment, Kind.COMPLETION, new byte[5], bytes)).isFalse();
        assertThat(Commitment.opens(commitment, Kind.COMPLETION, SALT, new byte[0])).isFalse();
    }

    @Test
    void differsForEveryKind() {
        Set<Digest> all = new HashSet<>();
        for (Kind kind : Kind.values()) {
            all.add(Commitment.commit(kind, SALT, new byte[] {1}));
        }
        assertThat(all).hasSize(Kind.values().length);
    }

    @Test
    void keepsListsApart() {
        assertThat(Commitment.stopList(SALT, List.of("ab", "c")))
                .isNotEqualTo(Commitment.stopList(SALT, List.of("a", "bc")));
        assertThat(Commitment.stopList(SALT, List.of())).isNotEqualTo(Commitment.stopList(SALT, List.of("")));
        assertThat(Commitment.tokenIds(SALT, new int[] {258}))
                .isEqualTo(Commitment.commit(Kind.TOKEN_IDS, SALT, new byte[] {2, 1, 0, 0}));
        assertThat(Commitment.logits(SALT, List.of(-2)))
                .isEqualTo(Commitment.commit(Kind.LOGITS, SALT, new byte[] {-2, -1, -1, -1}));
    }

    @Test
    void refusesAShortSalt() {
        assertThatThrownBy(() -> Commitment.prompt(new byte[16], "x")).hasMessage("salt: expected 32 bytes, got 16");
    }
}

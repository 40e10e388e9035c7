package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class LotteryTest {
    private static final byte[] SIGNATURE = HexFormat.of().parseHex("07".repeat(64));

    private static Lottery at(String rate) {
        return new Lottery(new BigDecimal(rate));
    }

    /// Computed by another program.
    @Test
    void drawsTheKnownLeaves() {
        assertThat(IntStream.range(0, 200).filter(seq -> at("0.05").draws(SIGNATURE, seq))).containsExactly(26, 36, 38, 41, 49, 61, 66, 79, 80, 94, 107, 121, 124, 155, 161, 177, 185, 193);
    }

    @Test
    void drawsAboutAsManyAsTheRateSays() {
        for (String rate : new String[] {"0.01", "0.5", "0.9"}) {
            long drawn = IntStream.range(0, 100_000).filter(seq -> at(rate).draws(SIGNATURE, seq)).count();
            double expected = 100_000 * Double.parseDouble(rate);
            assertThat(drawn).isBetween((long) (expected * 0.9), (long) (expected * 1.1));
        }
        assertThat(IntStream.range(0, 1000).allMatch(seq -> at("1").draws(SIGNATURE, seq))).isTrue();
        assertThat(IntStream.range(0, 1000).anyMatch(seq -> at("0.000000001").draws(SIGNATURE, seq))).isFalse();
    }

    @Test
    void takesTheSignatureWithoutTheTime() {
        SignedNote note = new Checkpoint("example.com/c/audit/0/0", 7, Digest.sha256("root")).sign(TestLog.KEY)
                .cosign(TestLog.witness("w", 9), 1);
        assertThat(Lottery.signature(note.signatures().getFirst())).hasSize(64);
        assertThat(Lottery.signature(note.signatures().getLast())).hasSize(64)
                .isEqualTo(Arrays.copyOfRange(note.signatures().getLast().signature(), 8, 72));
    }

    @Test
    void refusesOtherRates() {
        for (String rate : new String[] {"0", "-0.1", "1.1"}) {
            assertThatThrownBy(() -> at(rate)).hasMessage("--rate: expected a number above 0 and at most 1, got " + rate);
        }
    }
}

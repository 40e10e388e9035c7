package millrace.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class CounterRandomTest {
    /// `philox4x32 10` of Random123's `kat_vectors`.
    @Test
    void givesTheAuthorsKnownAnswers() {
        assertThat(block(0L, 0, 0, 0, 0)).containsExactly(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
        assertThat(block(-1L, -1, -1, -1, -1)).containsExactly(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
        assertThat(block(0x299f31d0a4093822L, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344))
                .containsExactly(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
    }

    @Test
    void mapsEveryWordStrictlyBetweenZeroAndOne() {
        assertThat(CounterRandom.unit(0)).isEqualTo(0x1p-33);
        assertThat(CounterRandom.unit(-1)).isEqualTo(1 - 0x1p-33).isLessThan(1);
        assertThat(CounterRandom.unit(Integer.MIN_VALUE)).isEqualTo(0.5 + 0x1p-33);
    }

    private static int[] block(long key, int c0, int c1, int c2, int c3) {
        int[] words = new int[4];
        CounterRandom.block(key, c0, c1, c2, c3, words);
        return words;
    }
}

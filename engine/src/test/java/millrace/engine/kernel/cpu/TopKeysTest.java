package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;

final class TopKeysTest {
    /// Any bits, so that infinities and NaN are among them; few of them, so that there are ties.
    @RepeatedTest(300)
    void theBestShouldBeThoseOfSortingInTheirOrder(RepetitionInfo repetition) {
        var random = new SplittableRandom(repetition.getCurrentRepetition());
        int[] bits = random.ints(1 + random.nextInt(40)).toArray();
        int count = 1 + random.nextInt(700);
        float[] scores = new float[count];
        for (int i = 0; i < count; i++) {
            scores[i] = Float.intBitsToFloat(bits[random.nextInt(bits.length)]) + 0f;
        }
        long[] keys = new long[count + 4];
        for (int i = 0; i < count; i++) {
            keys[i + 2] = TopKeys.key(scores[i], i);
        }
        int most = 1 + random.nextInt(count);
        int[] expected = IntStream.range(0, count).boxed()
                .sorted((a, b) -> {
                    int order = Float.compare(scores[b], scores[a]);
                    return order != 0 ? order : Integer.compare(a, b);
                })
                .limit(most).mapToInt(i -> i).sorted().toArray();
        var top = new TopKeys();
        top.reserve(count);

        long least = top.keep(keys, 2, count, most);

        long[] kept = Arrays.copyOfRange(keys, 2, 2 + most);
        assertThat(Arrays.stream(kept).mapToInt(TopKeys::position).toArray()).isEqualTo(expected);
        assertThat(least).isEqualTo(Arrays.stream(kept).min().orElseThrow());
        assertThat(keys[0]).isZero();
        assertThat(keys[count + 3]).isZero();
        for (long key : kept) {
            assertThat((Float) TopKeys.score(key)).isEqualTo((Float) scores[TopKeys.position(key)]);
        }
    }
}

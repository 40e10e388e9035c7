package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class StopStringsTest {
    @Test
    void releasesTextAtOnceWhenNothingCanStop() {
        var text = new StopStrings(List.of());
        assertThat(text.append("a")).isEqualTo("a");
        assertThat(text.append("bc")).isEqualTo("bc");
        assertThat(text.finish()).isEmpty();
        assertThat(text.text()).isEqualTo("abc");
    }

    @Test
    void holdsBackOnlyWhatMayBeginAStopString() {
        var text = new StopStrings(List.of("END"));
        assertThat(text.append("the E")).isEqualTo("the ");
        assertThat(text.append("N")).isEmpty();
        assertThat(text.append("T")).isEqualTo("ENT");
        assertThat(text.append("EN")).isEmpty();
        assertThat(text.append("D and more")).isEmpty();
        assertThat(text.stopped()).isTrue();
        assertThat(text.append("even more")).isEmpty();
        assertThat(text.finish()).isEmpty();
        assertThat(text.text()).isEqualTo("the ENT");
    }

    @Test
    void whatWasHeldBackComesOutAtTheEnd() {
        var text = new StopStrings(List.of("\n\n"));
        assertThat(text.append("line\n")).isEqualTo("line");
        assertThat(text.finish()).isEqualTo("\n");
        assertThat(text.text()).isEqualTo("line\n");
    }

    @Test
    void theStopStringThatStartsFirstCounts() {
        var text = new StopStrings(List.of("cd", "bcde", "e"));
        assertThat(text.append("abcde")).isEqualTo("a");
        assertThat(text.text()).isEqualTo("a");
    }

    @Test
    void neverSplitsASurrogatePair() {
        var text = new StopStrings(List.of("\uD83D\uDE00!"));
        assertThat(text.append("x\uD83D\uDE00")).isEqualTo("x");
        assertThat(text.append("?")).isEqualTo("\uD83D\uDE00?");
    }

    /// However the text is cut into pieces, the deltas are the text up to the first stop string.
    @Test
    void deltasSumToTheTextBeforeTheFirstStopString() {
        var random = new SplittableRandom(99);
        for (int round = 0; round < 2000; round++) {
            String whole = letters(random, 30);
            List<String> stops = List.of(letters(random, 4) + "a", letters(random, 2) + "b");
            var text = new StopStrings(stops);
            StringBuilder deltas = new StringBuilder();
            int consumed = 0;
            while (consumed < whole.length() && !text.stopped()) {
                int next = Math.min(whole.length(), consumed + 1 + random.nextInt(3));
                deltas.append(text.append(whole.substring(consumed, next)));
                consumed = next;
                assertThat(text.text()).as("round %d of seed 99", round).startsWith(deltas);
            }
            deltas.append(text.finish());
            int cut = stops.stream()
                    .mapToInt(s -> whole.substring(0, whole.length()).indexOf(s))
                    .filter(i -> i >= 0)
                    .min()
                    .orElse(-1);
            assertThat(deltas.toString()).as("round %d of seed 99", round).isEqualTo(text.text());
            assertThat(text.stopped()).as("round %d of seed 99", round).isEqualTo(cut >= 0);
            assertThat(whole).startsWith(deltas);
            assertThat(stops).noneMatch(deltas.toString()::contains);
        }
    }

    private static String letters(SplittableRandom random, int most) {
        StringBuilder text = new StringBuilder();
        for (int n = random.nextInt(most + 1); n > 0; n--) {
            text.append((char) ('a' + random.nextInt(3)));
        }
        return text.toString();
    }
}

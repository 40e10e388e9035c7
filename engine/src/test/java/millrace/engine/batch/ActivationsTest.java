package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.ActivationTop;
import millrace.engine.format.BFloat16;
import org.junit.jupiter.api.Test;

class ActivationsTest {
    private static final int WIDTH = 48;
    private static final int VOCAB = 3;

    /// A step of several rows: row `r` holds the activations of token `first + r`.
    private static final class Rows implements StepModel {
        final float[] hidden;
        int first;

        Rows(int tokens) {
            SplittableRandom random = new SplittableRandom(4);
            hidden = new float[tokens * WIDTH];
            for (int i = 0; i < hidden.length; i++) {
                // Few values, so that many are equal in magnitude.
                hidden[i] = (random.nextInt(200) - 100) / 4f;
            }
        }

        @Override
        public int forward(StepPlan plan) {
            throw new UnsupportedOperationException();
        }

        @Override
        public float[] logits() {
            throw new UnsupportedOperationException();
        }

        @Override
        public int vocabSize() {
            return VOCAB;
        }

        @Override
        public float[] hidden() {
            return Arrays.copyOfRange(hidden, first * WIDTH, hidden.length);
        }

        @Override
        public int hiddenSize() {
            return WIDTH;
        }
    }

    @Test
    void keepsTheLargestOfEachRunAndTheLowerIndexAmongEquals() {
        Rows model = new Rows(70);
        Activations activations = new Activations(model);
        for (int token = 0; token < 70; token++) {
            // Now in the first row of its step, now in the third.
            int row = token % 2 * 2;
            model.first = Math.max(0, token - row);
            activations.add((token - model.first) * VOCAB);
        }
        assertThat(flat(activations.values())).isEqualTo(flat(expected(model, 70)));
    }

    @Test
    void leavesOutARestThatIsTooShort() {
        Rows model = new Rows(34);
        Activations activations = new Activations(model);
        add(activations, 0, 34);
        assertThat(flat(activations.values())).hasSize(1).isEqualTo(flat(expected(model, 32)));
    }

    @Test
    void goesBackAsFarAsItCanTellTheRowsApart() {
        Rows model = new Rows(100);
        Activations activations = new Activations(model);
        add(activations, 0, 80);
        assertThat(activations.keep(90)).isEqualTo(90);
        assertThat(activations.keep(75)).isEqualTo(75);
        add(activations, 75, 100);
        assertThat(flat(activations.values())).isEqualTo(flat(expected(model, 100)));
        // The rows of the run before are gone: only the whole run can be kept, or nothing of it.
        assertThat(activations.keep(50)).isEqualTo(32);
        add(activations, 32, 64);
        assertThat(flat(activations.values())).isEqualTo(flat(expected(model, 64)));
        assertThat(activations.keep(0)).isZero();
        assertThat(activations.values()).isEmpty();
    }

    @Test
    void collectsNothingUnlessAsked() {
        Activations.NONE.add(7);
        assertThat(Activations.NONE.keep(3)).isEqualTo(3);
        assertThat(Activations.NONE.values()).isEmpty();
    }

    private static void add(Activations activations, int from, int to) {
        IntStream.range(from, to).forEach(token -> activations.add(token * VOCAB));
    }

    private static List<ActivationTop> expected(Rows model, int tokens) {
        List<ActivationTop> tops = new ArrayList<>();
        for (int from = 0; from < tokens; from += 32) {
            int base = from * WIDTH;
            int count = Math.min(32, tokens - from) * WIDTH;
            int[] indices = IntStream.range(0, count).boxed()
                    .sorted(Comparator.comparingDouble((Integer i) -> -Math.abs(model.hidden[base + i])))
                    .limit(128).mapToInt(i -> i).toArray();
            int[] bits = Arrays.stream(indices).map(i -> BFloat16.fromFloat(model.hidden[base + i]) & 0xFFFF).toArray();
            tops.add(new ActivationTop(indices, bits));
        }
        return tops;
    }

    private static List<String> flat(List<ActivationTop> tops) {
        return tops.stream().map(top -> Arrays.toString(top.indices()) + Arrays.toString(top.bits())).toList();
    }
}

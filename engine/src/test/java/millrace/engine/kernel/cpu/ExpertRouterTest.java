package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import millrace.engine.TinyModel;
import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;
import org.junit.jupiter.api.Test;

final class ExpertRouterTest {
    private static final JsonNode GOLDEN = TinyModel.golden("golden_units").get("router");

    private final int[] experts = new int[4];
    private final float[] weights = new float[4];

    @Test
    void groupsShouldLimitTheChoice() {
        router(4, 2, true).route(floats("logits"), 0, floats("bias"), experts, weights, 1);
        assertThat(experts).containsExactly(0, 0, 1, 7);
        assertWeights(0.9257466f, 1.35355f, 0.2207034f);
    }

    @Test
    void withoutGroupsTheLargestShouldBeChosen() {
        router(1, 1, true).route(floats("logits"), 0, floats("bias"), experts, weights, 1);
        assertThat(experts).containsExactly(0, 0, 2, 7);
        assertWeights(1.407429f, 0.7570318f, 0.3355393f);
    }

    @Test
    void excludedExpertsShouldNotWinOverNegativeScores() {
        float[] bias = floats("bias");
        for (int i = 0; i < bias.length; i++) {
            bias[i] -= 2;
        }
        router(4, 2, true).route(floats("logits"), 0, bias, experts, weights, 1);
        assertThat(experts).containsExactly(0, 0, 1, 7);
    }

    @Test
    void equalScoresShouldFavourTheLowerIndex() {
        router(1, 1, false).route(new float[8], 0, new float[8], experts, weights, 0);
        assertThat(experts).containsExactly(0, 1, 2, 0);
        assertThat(weights).containsExactly(1.25f, 1.25f, 1.25f, 0);
    }

    @Test
    void biasShouldDecideWhatBf16CouldNotTellApart() {
        float[] bias = {6.9f, 6.9001f, 6.9002f, 6.9003f, 6.9f, 6.9f, 6.9f, 6.9f};
        router(1, 1, true).route(new float[8], 0, bias, experts, weights, 0);
        assertThat(experts).startsWith(1, 2, 3);
    }

    @Test
    void notANumberShouldStillChooseExperts() {
        float[] logits = floats("logits");
        logits[3] = Float.NaN;
        router(4, 2, true).route(logits, 0, floats("bias"), experts, weights, 0);
        assertThat(experts[0]).isLessThan(experts[1]);
        assertThat(experts[1]).isLessThan(experts[2]).isLessThan(8);
    }

    @Test
    void pairsShouldBeSortedByExpertThenByRow() {
        RouterSpec spec = new RouterSpec(4, 2, 1, 1, true, 1);
        Routing routing = Routing.onHeap(5, spec);
        float[] logits = {0, 3, 2, 1, /**/ 9, 0, 0, 8, /**/ 1, 3, 2, 0};
        new ExpertRouter(spec).route(routing, new Rows(logits, 0, 4, 4), new float[4], 3);
        assertThat(routing.chosen()).startsWith(1, 2, /**/ 0, 3, /**/ 1, 2);
        assertThat(routing.firstSlot()).containsExactly(0, 1, 3, 5, 6);
        assertThat(routing.sources()).startsWith(1, /**/ 0, 2, /**/ 0, 2, /**/ 1);
        assertThat(routing.slots()).startsWith(1, 3, /**/ 0, 5, /**/ 2, 4);
        for (int row = 0; row < 3; row++) {
            assertThat(routing.weights()[2 * row] + routing.weights()[2 * row + 1]).isCloseTo(1, within(1e-6f));
        }
    }

    private static ExpertRouter router(int groups, int kept, boolean norm) {
        return new ExpertRouter(new RouterSpec(8, 3, groups, kept, norm, 2.5f));
    }

    private void assertWeights(float... expected) {
        for (int i = 0; i < expected.length; i++) {
            assertThat(weights[i + 1]).isCloseTo(expected[i], within(2e-6f));
        }
    }

    private static float[] floats(String key) {
        float[] values = new float[GOLDEN.get(key).size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = GOLDEN.get(key).get(i).floatValue();
        }
        return values;
    }
}

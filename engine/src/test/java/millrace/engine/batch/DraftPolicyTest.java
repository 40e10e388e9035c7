package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Steps by a script: what they take, and how often drafts are right.
class DraftPolicyTest {
    private static final int MOST = 3;

    private final DraftPolicy policy = new DraftPolicy(MOST, 64);
    private final SplittableRandom random = new SplittableRandom(1);
    private int last;

    private int undraftedSteps;

    /// What a step of so many sequences takes.
    private interface Machine {
        double nanos(int sequences, int depth);
    }

    /// Weights are read once whatever the rows, up to where the arithmetic takes longer.
    private static double memoryBound(int sequences, int depth) {
        return Math.max(20e6, 0.5e6 * sequences * (1 + depth)) + 0.8e6 * depth;
    }

    /// @param right how often a draft is, if all before it were
    /// @return steps of each depth
    private int[] run(int steps, int sequences, double right, Machine machine) {
        int[] depths = new int[MOST + 1];
        for (int i = 0; i < steps; i++) {
            int next = policy.depth(sequences, true);
            depths[last]++;
            for (int s = 0; s < sequences; s++) {
                boolean reached = true;
                for (int position = 0; position < last && reached; position++) {
                    reached = random.nextDouble() < right;
                    policy.judge(position, reached);
                }
            }
            if (last == next) {
                double noise = 1 + 0.03 * random.nextDouble() + (random.nextInt(50) == 0 ? 4 : 0);
                policy.took(sequences, last, (long) (machine.nanos(sequences, last) * noise), 0);
            }
            last = next;
        }
        return depths;
    }

    /// Steps that do not do what pays most are trials.
    private static void assertMostly(int[] depths, int depth, double share) {
        int all = java.util.Arrays.stream(depths).sum();
        assertThat((double) depths[depth] / all).as("of %s", java.util.Arrays.toString(depths)).isGreaterThan(share);
    }

    @Test
    void aloneItDraftsAsManyAsItMay() {
        run(200, 1, 0.8, DraftPolicyTest::memoryBound);
        assertMostly(run(5_000, 1, 0.8, DraftPolicyTest::memoryBound), MOST, 0.96);
    }

    @Test
    void inALargeBatchItDraftsNothing() {
        run(200, 48, 0.8, DraftPolicyTest::memoryBound);
        assertMostly(run(5_000, 48, 0.8, DraftPolicyTest::memoryBound), 0, 0.96);
    }

    /// Each number of sequences has its own answer, whatever others had.
    @Test
    void whatPaysDependsOnTheNumberOfSequences() {
        for (int round = 0; round < 40; round++) {
            run(50, 1, 0.8, DraftPolicyTest::memoryBound);
            run(50, 48, 0.8, DraftPolicyTest::memoryBound);
        }
        assertMostly(run(500, 1, 0.8, DraftPolicyTest::memoryBound), MOST, 0.9);
        assertMostly(run(500, 48, 0.8, DraftPolicyTest::memoryBound), 0, 0.9);
    }

    /// The second draft of two in ten is not worth its time.
    @Test
    void draftsThatAreSeldomRightAreFew() {
        Machine machine = (sequences, depth) -> 10e6 + 0.7e6 * depth;
        run(500, 4, 0.2, machine);
        assertMostly(run(5_000, 4, 0.2, machine), 1, 0.9);
        run(2_000, 4, 0.02, machine);
        assertMostly(run(5_000, 4, 0.02, machine), 0, 0.9);
    }

    /// What was right once is looked at again: a machine that has less to do, prompts that are easier.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void changesItsMind(boolean easier) {
        Machine slow = (sequences, depth) -> 10e6 * (1 + depth);
        run(2_000, 4, easier ? 0.02 : 0.7, easier ? (sequences, depth) -> 10e6 + 1e6 * depth : slow);
        assertMostly(run(1_000, 4, easier ? 0.02 : 0.7, easier ? (sequences, depth) -> 10e6 + 1e6 * depth : slow), 0, 0.9);
        run(4_000, 4, 0.7, (sequences, depth) -> 10e6 + 1e6 * depth);
        assertMostly(run(2_000, 4, 0.7, (sequences, depth) -> 10e6 + 1e6 * depth), MOST, 0.9);
    }

    /// Generations of 100 steps, one after the other, each of so many sequences; feeding the draft layer takes `fed`.
    private void generations(int count, int sequences, double right, double fed) {
        for (int generation = 0; generation < count; generation++) {
            boolean drafted = policy.drafts(sequences);
            for (int step = 0; step < 100; step++) {
                policy.step(sequences);
                if (!drafted) {
                    undraftedSteps++;
                    policy.tookUndrafted(sequences, 10_000_000);
                    continue;
                }
                int depth = policy.depth(sequences, true);
                for (int position = 0; position < depth; position++) {
                    policy.judge(position, random.nextDouble() < right);
                }
                policy.took(sequences, depth, (long) (10_000_000 + fed + 500_000 * depth), (long) fed);
            }
        }
    }

    /// A draft layer that costs an eighth of a step and is never right is not fed, but looked at every 16 generations; whoever
    /// begins when it is right again has drafts.
    @Test
    void leavesSequencesOutWhereFeedingDoesNotPay() {
        generations(100, 4, 0.01, 1.25e6);
        assertThat(undraftedSteps).isBetween(8_500, 9_500);
        undraftedSteps = 0;
        generations(100, 4, 0.9, 1.25e6);
        assertThat(undraftedSteps).isLessThan(2_000);
        undraftedSteps = 0;
        generations(100, 4, 0.9, 1.25e6);
        assertThat(undraftedSteps).isZero();
    }

    /// One layer of eighty is not worth that sequences lose their drafts for good.
    @Test
    void feedsWhatCostsNextToNothing() {
        generations(100, 4, 0.01, 0.12e6);
        assertThat(undraftedSteps).isZero();
    }

    /// A look takes until those have ended that run undrafted; the longer that is, the seldomer it is done.
    @Test
    void looksSeldomWhereLooksAreLong() {
        int looks = 0;
        for (int step = 0; step < 100_000; step++) {
            boolean drafted = policy.drafts(8);
            policy.step(8);
            if (!drafted) {
                policy.tookUndrafted(8, 10_000_000);
            } else if (looks++ % 500 >= 400) {
                int depth = policy.depth(8, true);
                policy.judge(0, false);
                policy.took(8, depth, 12_000_000 + 1_000_000L * depth, 2_000_000);
            } else {
                assertThat(policy.depth(8, false)).isBetween(0, MOST);
            }
        }
        assertThat((double) looks / 100_000).isLessThan(0.08);
    }

    /// Where every step has prompts beside, nothing can be measured: then it drafts, as prompts take the time.
    @Test
    void draftsWhereNothingCanBeMeasured() {
        int[] depths = new int[MOST + 1];
        for (int i = 0; i < 5_000; i++) {
            depths[policy.depth(8, true)]++;
        }
        assertMostly(depths, MOST, 0.85);
    }

    @Test
    void oneDraftAtMost() {
        var one = new DraftPolicy(1, 1);
        int[] depths = new int[2];
        int before = 0;
        for (int i = 0; i < 2_000; i++) {
            int depth = one.depth(1, true);
            depths[depth]++;
            if (depth == 1) {
                one.judge(0, true);
            }
            if (depth == before) {
                one.took(1, depth, 1_000_000 + 100_000L * depth, 0);
            }
            before = depth;
        }
        assertThat(depths[1]).isGreaterThan(1_900);
        assertThat(depths[0]).isGreaterThan(20);
    }
}

package millrace.streams.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// The stream layer through crashes, zombies, outages and damage. `-Dmillrace.sim.seeds=N` runs N seeds instead of
/// 1,000, `-Dmillrace.sim.seed=S` one of them.
class SimulationTest {
    private static final int SEEDS = Integer.getInteger("millrace.sim.seeds", 1_000);
    private static final Long ONE = Long.getLong("millrace.sim.seed");
    private static final int ACTIONS = 160;
    private static final int SEEDS_TO_FIND_A_BUG = 1_000;

    private final LogCapture logs = new LogCapture();
    private final Seeds seeds = new Seeds(ACTIONS);

    @AfterEach
    void giveTheConsoleBack() {
        logs.close();
    }

    @Test
    void everyInvariantHoldsForEverySeed() {
        long first = ONE == null ? 1 : ONE;
        long last = ONE == null ? SEEDS : ONE;
        for (long seed = first; seed <= last; seed++) {
            Seeds.Result result = seeds.run(seed, Bug.NONE, logs);
            if (result.violation() != null) {
                fail(result.story(), result.violation());
            }
        }
    }

    /// `-Dmillrace.sim.requests=N` takes N prompts instead of 100,000, in runs of at most 10,000 that have a seed each.
    @Test
    void longRunsWithoutFaultsRaiseNoAlarm() {
        int all = Integer.getInteger("millrace.sim.requests", 100_000);
        int taken = 0;
        for (long seed = 1; taken < all; seed++) {
            int requests = Math.min(10_000, all - taken);
            logs.take();
            Simulation calm = Simulation.soak(seed, requests);
            calm.invariants().checkAll(calm, logs.take());
            assertThat(calm.world.alarms).as("alarms of seed %d", seed).isEmpty();
            assertThat(calm.inputs).hasSize(requests);
            taken += requests;
        }
    }

    @Test
    void aSeedIsTheWholeStory() {
        Seeds.Result once = seeds.run(42, Bug.NONE, logs);
        Seeds.Result again = seeds.run(42, Bug.NONE, logs);
        assertThat(again.simulation().schedule).isEqualTo(once.simulation().schedule).isNotEmpty();
        assertThat(again.simulation().world.broker.digest()).isEqualTo(once.simulation().world.broker.digest());
        assertThat(seeds.run(43, Bug.NONE, logs).simulation().world.broker.digest())
                .isNotEqualTo(once.simulation().world.broker.digest());
    }

    /// The tester is tested: what is broken on purpose is found, and its story is told.
    @ParameterizedTest
    @EnumSource(names = "NONE", mode = EnumSource.Mode.EXCLUDE)
    void findsEachBug(Bug bug) {
        for (long seed = 1; seed <= SEEDS_TO_FIND_A_BUG; seed++) {
            Seeds.Result result = seeds.run(seed, bug, logs);
            if (result.violation() != null) {
                assertThat(seeds.run(seed, Bug.NONE, logs).violation()).as("without the bug").isNull();
                assertThat(result.story()).contains("seed " + seed + " violates I", "-Dmillrace.sim.seed=" + seed, "schedule:\n   1  ");
                return;
            }
        }
        fail("%s was not found within %d seeds", bug, SEEDS_TO_FIND_A_BUG);
    }
}

package millrace.streams.simulation;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// Runs seeds and says which of them fail.
final class Seeds {
    private final int actions;

    Seeds(int actions) {
        this.actions = actions;
    }

    /// Runs one seed and checks everything.
    ///
    /// @return the run, or with [Violation] in it what did not hold
    Result run(long seed, Bug bug, LogCapture logs) {
        Simulation simulation = new Simulation(seed, new Simulation.Options(actions, true, bug));
        try {
            logs.take();
            simulation.run();
            List<String> lines = logs.take();
            simulation.invariants().checkAll(Simulation.faultFree(seed, simulation.inputs), lines);
            return new Result(seed, simulation, null);
        } catch (Violation e) {
            return new Result(seed, simulation, e);
        } catch (RuntimeException e) {
            return new Result(seed, simulation, new Violation("I1", "the service threw " + e, e));
        }
    }

    /// @param violation null where every invariant holds
    record Result(long seed, Simulation simulation, @Nullable Violation violation) {
        /// What a person needs who looks for the reason.
        String story() {
            StringBuilder story = new StringBuilder("seed ").append(seed).append(" violates ")
                    .append(violation == null ? "nothing" : violation.getMessage())
                    .append("\nagain: -Dtest=SimulationTest -Dmillrace.sim.seed=").append(seed).append("\nschedule:\n");
            List<String> schedule = simulation.schedule;
            for (int i = 0; i < schedule.size(); i++) {
                story.append("%4d  %s%n".formatted(i + 1, schedule.get(i)));
            }
            return story.toString();
        }
    }
}

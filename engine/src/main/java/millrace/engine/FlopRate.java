package millrace.engine;

import millrace.engine.kernel.cpu.ThreadTeam;
import millrace.engine.kernel.vector.FmaLoop;

/// What a loop that only multiplies and adds reaches on this machine: the limit of everything that is bound by
/// arithmetic in F32.
///
/// Needs the module jdk.incubator.vector.
public final class FlopRate implements AutoCloseable {
    private final ThreadTeam team;

    /// @param threads 0 takes one per processor
    public FlopRate(int threads) {
        this.team = new ThreadTeam(threads == 0 ? Runtime.getRuntime().availableProcessors() : threads);
    }

    /// Computes for about so many seconds on a fast core.
    public double flopsPerSecond(double seconds) {
        int units = (int) Math.max(team.threads(), seconds * 1e11 * team.threads() / FmaLoop.flopsPerUnit());
        long start = System.nanoTime();
        float value = FmaLoop.run(team, units);
        double taken = (System.nanoTime() - start) / 1e9;
        if (!Float.isFinite(value)) {
            throw new IllegalStateException("the multiply-add loop came to " + value);
        }
        return units * FmaLoop.flopsPerUnit() / taken;
    }

    @Override
    public void close() {
        team.close();
    }
}

package millrace.engine.kernel.vector;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;
import millrace.engine.kernel.cpu.ThreadTeam;

/// Multiplies and adds in registers: what a kernel that computes as much could reach at best.
public final class FmaLoop {
    private static final VectorSpecies<Float> SPECIES = FloatVector.SPECIES_PREFERRED;
    private static final int ROUNDS = 1 << 14;
    private static final int CHAINS = 12;

    private FmaLoop() {}

    /// Floating-point operations of one unit: two for each lane of each fused multiply-add.
    public static long flopsPerUnit() {
        return 2L * SPECIES.length() * CHAINS * ROUNDS;
    }

    /// Runs so many units, shared by the team. Returns some of what it computed, so that no compiler finds the loop
    /// useless.
    public static float run(ThreadTeam team, int units) {
        float[] last = new float[team.threads()];
        team.run((unit, thread) -> last[thread] += chains(1 + unit * 1e-6f), units);
        return last[0];
    }

    /// Twelve chains hide the latency of the unit on every processor that has vectors of 256 bits or more.
    private static float chains(float start) {
        FloatVector x = FloatVector.broadcast(SPECIES, 0.999f);
        FloatVector y = FloatVector.broadcast(SPECIES, 1e-3f);
        FloatVector a = FloatVector.broadcast(SPECIES, start);
        FloatVector b = a;
        FloatVector c = a;
        FloatVector d = a;
        FloatVector e = a;
        FloatVector f = a;
        FloatVector g = a;
        FloatVector h = a;
        FloatVector i = a;
        FloatVector j = a;
        FloatVector k = a;
        FloatVector l = a;
        for (int round = 0; round < ROUNDS; round++) {
            a = a.fma(x, y);
            b = b.fma(x, y);
            c = c.fma(x, y);
            d = d.fma(x, y);
            e = e.fma(x, y);
            f = f.fma(x, y);
            g = g.fma(x, y);
            h = h.fma(x, y);
            i = i.fma(x, y);
            j = j.fma(x, y);
            k = k.fma(x, y);
            l = l.fma(x, y);
        }
        FloatVector sum = a.add(b).add(c).add(d).add(e).add(f);
        return sum.add(g).add(h).add(i).add(j).add(k).add(l).lane(0);
    }
}

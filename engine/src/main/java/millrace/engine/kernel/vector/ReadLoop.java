package millrace.engine.kernel.vector;

import java.nio.ByteOrder;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.cpu.ThreadTeam;

/// Reads memory and adds it up: what a kernel that reads as much could reach at best.
public final class ReadLoop {
    private static final VectorSpecies<Integer> SPECIES = IntVector.SPECIES_PREFERRED;
    private static final int CHUNK = 1 << 18;
    private static final int STREAM = CHUNK / 4;

    private ReadLoop() {}

    /// Reads whole chunks of 256 KiB, shared by the team as the kernels share theirs. Returns some of what it read, so
    /// that no compiler finds the loop useless.
    public static int run(ThreadTeam team, long address, long bytes) {
        int[] last = new int[team.threads()];
        team.run((unit, thread) -> last[thread] += sum(address + (long) unit * CHUNK), (int) (bytes / CHUNK));
        return last[0];
    }

    /// Four streams at once, a quarter of the chunk apart: memory answers more requests than one stream makes.
    private static int sum(long address) {
        IntVector a = IntVector.zero(SPECIES);
        IntVector b = a;
        IntVector c = a;
        IntVector d = a;
        int width = SPECIES.vectorByteSize();
        for (int i = 0; i < STREAM; i += width) {
            a = a.add(words(address + i));
            b = b.add(words(address + STREAM + i));
            c = c.add(words(address + 2 * STREAM + i));
            d = d.add(words(address + 3 * STREAM + i));
        }
        return a.add(b).add(c).add(d).lane(0);
    }

    private static IntVector words(long address) {
        return IntVector.fromMemorySegment(SPECIES, Memory.ALL, address, ByteOrder.LITTLE_ENDIAN);
    }
}

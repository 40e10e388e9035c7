package millrace.engine;

import java.lang.foreign.Arena;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.cpu.ThreadTeam;
import millrace.engine.kernel.vector.ReadLoop;

/// What a loop that only reads memory reaches on this machine: the limit of everything that is bound by memory.
///
/// Needs the module jdk.incubator.vector.
public final class ReadBandwidth implements Bandwidth {
    private final Arena arena = Arena.ofShared();
    private final ThreadTeam team;
    private final long address;
    private final long bytes;

    /// @param threads 0 takes one per processor
    /// @param bytes to read each time: far more than the caches hold
    public ReadBandwidth(int threads, long bytes) {
        this.team = new ThreadTeam(threads == 0 ? Runtime.getRuntime().availableProcessors() : threads);
        this.bytes = bytes;
        // Written once: memory that was never written is one page of zeros, read again and again from the cache.
        this.address = Memory.allocateDense(arena, bytes, "the read loop").fill((byte) 0).address();
    }

    /// Reads everything once.
    @Override
    public double bytesPerSecond() {
        long start = System.nanoTime();
        int read = ReadLoop.run(team, address, bytes);
        double seconds = (System.nanoTime() - start) / 1e9;
        if (read != 0) {
            throw new IllegalStateException("the read loop added zeros to " + read);
        }
        return bytes / seconds;
    }

    @Override
    public void close() {
        team.close();
        arena.close();
    }
}

package millrace.engine.kernel;

import java.lang.foreign.MemorySegment;

/// KV pages whose addresses are not the process's: whoever reads one crashes, whoever asks this memory does not.
public final class ApartCache implements CacheMemory {
    private static final long SHIFT = 1L << 60;

    private final HostCache host;

    public ApartCache(Algorithm algorithm, Matrix.Each team) {
        host = new HostCache(algorithm, team);
    }

    /// Where the process finds what lies at that address.
    static long inProcess(long address) {
        if (address < SHIFT) {
            throw new IllegalArgumentException("not an address of this memory: " + Long.toHexString(address));
        }
        return address - SHIFT;
    }

    @Override
    public Algorithm algorithm() {
        return host.algorithm();
    }

    @Override
    public long allocate(long bytes) {
        return SHIFT + host.allocate(bytes);
    }

    @Override
    public void digest(int count, long[] pages, int bytes, long[] tags, long[] digests) {
        long[] inProcess = new long[count];
        for (int i = 0; i < count; i++) {
            inProcess[i] = inProcess(pages[i]);
        }
        host.digest(count, inProcess, bytes, tags, digests);
    }

    @Override
    public boolean keepsBits(long page, int bytes) {
        return host.keepsBits(inProcess(page), bytes);
    }

    @Override
    public void read(long address, MemorySegment to) {
        host.read(inProcess(address), to);
    }

    @Override
    public void write(long address, MemorySegment from) {
        host.write(inProcess(address), from);
    }

    @Override
    public void close() {
        host.close();
    }
}

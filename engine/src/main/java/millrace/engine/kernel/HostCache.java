package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/// Pages in the memory of the process. Allocates nothing but with [#allocate] and the first time that a slab is
/// digested.
public final class HostCache implements CacheMemory {
    /// Parts that a batch of digests is cut into.
    private static final int LANES = 32;

    /// Fewer pages than this are not worth waking a team.
    private static final int WORTH_A_TEAM = 8;

    private final Algorithm algorithm;
    private final Matrix.Each team;
    private final Arena arena = Arena.ofShared();
    private final Lane[] lanes = new Lane[LANES];
    private final IntConsumer laneTask = this::runLane;

    /// Slabs in order of their addresses.
    private long[] starts = new long[0];
    private ByteBuffer[] slabs = new ByteBuffer[0];

    // The batch of digests at work.
    private int count;
    private int bytes;
    private long[] pages = new long[0];
    private long[] tags = new long[0];
    private long[] digests = new long[0];

    /// What one part of a batch needs for itself: a buffer has a position.
    private static final class Lane {
        final PageDigest digest = new PageDigest();
        @Nullable ByteBuffer[] slabs = new ByteBuffer[0];
    }

    /// @param team runs the digests of many pages side by side
    public HostCache(Algorithm algorithm, Matrix.Each team) {
        this.algorithm = algorithm;
        this.team = team;
        Arrays.setAll(lanes, i -> new Lane());
    }

    /// Digests by CRC-32C, on the caller's thread.
    public HostCache() {
        this(Algorithm.CRC32C, HostCache::alone);
    }

    private static void alone(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    @Override
    public Algorithm algorithm() {
        return algorithm;
    }

    @Override
    public long allocate(long size) {
        MemorySegment slab = Memory.allocateDense(arena, size, "the KV cache");
        int n = starts.length;
        int at = n;
        while (at > 0 && starts[at - 1] > slab.address()) {
            at--;
        }
        long[] newStarts = Arrays.copyOf(starts, n + 1);
        ByteBuffer[] newSlabs = Arrays.copyOf(slabs, n + 1);
        System.arraycopy(starts, at, newStarts, at + 1, n - at);
        System.arraycopy(slabs, at, newSlabs, at + 1, n - at);
        newStarts[at] = slab.address();
        newSlabs[at] = slab.asByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
        starts = newStarts;
        slabs = newSlabs;
        for (Lane lane : lanes) {
            lane.slabs = new ByteBuffer[n + 1];
        }
        return slab.address();
    }

    @Override
    public void digest(int n, long[] addresses, int pageBytes, long[] pageTags, long[] results) {
        count = n;
        bytes = pageBytes;
        pages = addresses;
        tags = pageTags;
        digests = results;
        if (n < WORTH_A_TEAM) {
            alone(Math.min(n, LANES), laneTask);
        } else {
            team.run(LANES, laneTask);
        }
    }

    private void runLane(int number) {
        Lane lane = lanes[number];
        for (int i = number; i < count; i += LANES) {
            int slab = slabOf(pages[i]);
            ByteBuffer memory = lane.slabs[slab];
            if (memory == null) {
                memory = slabs[slab].duplicate().order(ByteOrder.LITTLE_ENDIAN);
                lane.slabs[slab] = memory;
            }
            int at = Math.toIntExact(pages[i] - starts[slab]);
            digests[i] = lane.digest.of(algorithm, tags[i], memory.clear(), at, bytes);
        }
    }

    private int slabOf(long page) {
        int found = Arrays.binarySearch(starts, page);
        int slab = found >= 0 ? found : -found - 2;
        if (slab < 0 || page - starts[slab] >= slabs[slab].capacity()) {
            throw new IllegalArgumentException("KV cache: no page of this memory at " + Long.toHexString(page));
        }
        return slab;
    }

    @Override
    public boolean keepsBits(long page, int size) {
        MemorySegment memory = memory(page, size);
        return keeps(memory, PATTERN) && keeps(memory, ~PATTERN);
    }

    private static boolean keeps(MemorySegment memory, long pattern) {
        for (long at = 0; at < memory.byteSize(); at += Long.BYTES) {
            memory.set(ValueLayout.JAVA_LONG, at, pattern);
        }
        for (long at = 0; at < memory.byteSize(); at += Long.BYTES) {
            if (memory.get(ValueLayout.JAVA_LONG, at) != pattern) {
                return false;
            }
        }
        return true;
    }

    @Override
    public void read(long address, MemorySegment to) {
        to.copyFrom(memory(address, to.byteSize()));
    }

    @Override
    public void write(long address, MemorySegment from) {
        memory(address, from.byteSize()).copyFrom(from);
    }

    private MemorySegment memory(long address, long size) {
        int slab = slabOf(address);
        return MemorySegment.ofBuffer(Objects.requireNonNull(slabs[slab]).clear()).asSlice(address - starts[slab], size);
    }

    @Override
    public void close() {
        arena.close();
    }
}

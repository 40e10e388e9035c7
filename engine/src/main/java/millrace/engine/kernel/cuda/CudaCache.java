package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.PageDigest;

/// KV pages in the device's memory. Digests are W64, made where the pages lie.
final class CudaCache implements CacheMemory {
    private final Gpu gpu;
    private final CudaTags tags;
    private final CudaDigests digests;

    /// Bytes of each slab whose pages have no tags yet.
    private final NavigableMap<Long, Long> untagged = new TreeMap<>();

    /// A page full of each pattern, and its digest under tag 0; made when a page is tested first.
    private final MemorySegment[] patterns = {MemorySegment.NULL, MemorySegment.NULL};
    private final long[] patternDigests = new long[2];

    CudaCache(Gpu gpu, CudaTags tags) {
        this.gpu = gpu;
        this.tags = tags;
        digests = new CudaDigests(gpu);
    }

    @Override
    public Algorithm algorithm() {
        return Algorithm.W64;
    }

    @Override
    public long allocate(long bytes) {
        long address = gpu.allocate(bytes, "the KV cache");
        untagged.put(address, bytes);
        return address;
    }

    @Override
    public void own(long page, int bytes, int epoch) {
        Map.Entry<Long, Long> slab = untagged.isEmpty() ? null : untagged.floorEntry(page);
        if (slab != null && page < slab.getKey() + slab.getValue()) {
            untagged.remove(slab.getKey());
            tags.addSlab(slab.getKey(), (int) (slab.getValue() / bytes), bytes);
        }
        tags.set(page, epoch);
    }

    @Override
    public void digest(int count, long[] pages, int bytes, long[] tags, long[] results) {
        digests.digest(count, pages, bytes, tags, results);
    }

    /// Each pattern is copied into the page and its digest compared with what it must be: no word of 32 bits can differ
    /// without it.
    @Override
    public boolean keepsBits(long page, int bytes) {
        if (patterns[0].byteSize() != bytes) {
            for (int i = 0; i < patterns.length; i++) {
                patterns[i] = pattern(bytes, i == 0 ? PATTERN : ~PATTERN);
                ByteBuffer buffer = patterns[i].asByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
                patternDigests[i] = PageDigest.w64(0, 0, buffer, 0, bytes);
            }
        }
        for (int i = 0; i < patterns.length; i++) {
            gpu.upload(page, patterns[i]);
            if (digests.digest(page, bytes, 0) != patternDigests[i]) {
                return false;
            }
        }
        return true;
    }

    private MemorySegment pattern(int bytes, long value) {
        MemorySegment pattern = gpu.pinned(bytes);
        for (long at = 0; at < bytes; at += Long.BYTES) {
            pattern.set(ValueLayout.JAVA_LONG, at, value);
        }
        return pattern;
    }

    @Override
    public void read(long address, MemorySegment to) {
        gpu.download(to, address);
    }

    @Override
    public void write(long address, MemorySegment from) {
        gpu.upload(address, from);
    }

    /// The memory belongs to the device's arena and ends with it.
    @Override
    public void close() {
        // Nothing of its own.
    }
}

package millrace.engine.resident;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.kernel.WeightCopy;

/// A copy of another region in the memory of a backend, which steps read. It is made good from that region.
///
/// A checksum of 32 bits stands for a digest of 64: it is the digest's low half where the digest is what it must be, and
/// another number where it is not.
public final class CopyRegion implements Region {
    private final String name;
    private final WeightCopy copy;

    private CopyRegion(String original, WeightCopy copy) {
        name = original + (copy.part().isEmpty() ? "" : " " + copy.part()) + " on the device";
        this.copy = copy;
    }

    /// Regions, and behind them those of their copies.
    public static List<Region> behind(List<Region> regions, List<WeightCopy> copies) {
        Map<Object, Region> originals = new IdentityHashMap<>();
        regions.forEach(region -> originals.putIfAbsent(region.memory(), region));
        List<Region> all = new ArrayList<>(regions);
        for (WeightCopy copy : copies) {
            Region original = originals.get(copy.source());
            all.add(new CopyRegion(original == null ? "table" : original.name(), copy));
        }
        return List.copyOf(all);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String format() {
        return "copy";
    }

    @Override
    public Object memory() {
        return copy;
    }

    @Override
    public int blocks() {
        return copy.blocks();
    }

    @Override
    public long start(int block) {
        return copy.start(block);
    }

    @Override
    public long bytes(int block) {
        return copy.start(block + 1) - copy.start(block);
    }

    @Override
    public int checksum(int block) {
        long expected = copy.expected(block);
        return copy.digest(block) == expected ? (int) expected : ~(int) expected;
    }

    /// Copies all blocks again. What they are copied from must have been checked before.
    public void restore() {
        copy.restore();
    }

    @Override
    public void restore(int block, Region from) {
        throw new UnsupportedOperationException("a copy is restored as a whole, from what it is a copy of");
    }
}

package millrace.integrity;

import java.util.Map;
import java.util.TreeMap;

/// A set of offsets as ranges: small however many they are, since offsets come mostly without gaps.
public final class OffsetSet {
    private final TreeMap<Long, Long> ranges = new TreeMap<>(); // first -> last, inclusive

    /// Adds the offset; false if it was there.
    public boolean add(long offset) {
        Map.Entry<Long, Long> below = ranges.floorEntry(offset);
        if (below != null && below.getValue() >= offset) {
            return false;
        }
        long first = below != null && below.getValue() == offset - 1 ? below.getKey() : offset;
        Long above = ranges.remove(offset + 1);
        ranges.put(first, above == null ? offset : above);
        return true;
    }

    boolean contains(long offset) {
        Map.Entry<Long, Long> below = ranges.floorEntry(offset);
        return below != null && below.getValue() >= offset;
    }
}

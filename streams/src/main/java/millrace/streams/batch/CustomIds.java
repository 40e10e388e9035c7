package millrace.streams.batch;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/// Which line has which `custom_id`, as 128 bits of its SHA-256 in an open hash table: 20 bytes a line at half load.
final class CustomIds {
    private long[] high = new long[1 << 10];
    private long[] low = new long[1 << 10];
    private int[] lines = new int[1 << 10];
    private int size;
    private final MessageDigest sha256;

    CustomIds() {
        try {
            sha256 = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /// Remembers an id unless it is known.
    ///
    /// @return the line that has it already, or 0
    int add(String id, int line) {
        ByteBuffer digest = ByteBuffer.wrap(sha256.digest(id.getBytes(StandardCharsets.UTF_8)));
        if (size * 2 >= lines.length) {
            grow();
        }
        return put(digest.getLong(), digest.getLong(), line);
    }

    private int put(long h, long l, int line) {
        int mask = lines.length - 1;
        int slot = (int) h & mask;
        while (lines[slot] != 0) {
            if (high[slot] == h && low[slot] == l) {
                return lines[slot];
            }
            slot = slot + 1 & mask;
        }
        high[slot] = h;
        low[slot] = l;
        lines[slot] = line;
        size++;
        return 0;
    }

    private void grow() {
        long[] oldHigh = high;
        long[] oldLow = low;
        int[] oldLines = lines;
        high = new long[oldHigh.length * 2];
        low = new long[oldLow.length * 2];
        lines = new int[oldLines.length * 2];
        size = 0;
        for (int i = 0; i < oldLines.length; i++) {
            if (oldLines[i] != 0) {
                put(oldHigh[i], oldLow[i], oldLines[i]);
            }
        }
    }
}

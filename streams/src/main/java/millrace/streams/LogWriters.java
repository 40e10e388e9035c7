package millrace.streams;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/// Which process wrote which leaves of a log: each that took it over, with the first leaf that it wrote.
///
/// It lies beside the log's state and is rolled back with it. A process that loses a partition and gets it back learns
/// from it which of the leaves that it remembers are its own: of those that were rolled back another process has written
/// others in their place.
///
/// Bytes, big-endian: `[u8 version = 1] ([i64 writer] [i64 first seq])*`, oldest first.
///
/// @param stints in order of their first leaf; the oldest are forgotten beyond [#MOST]
record LogWriters(List<Stint> stints) {
    static final LogWriters NONE = new LogWriters(List.of());
    static final int MOST = 64;
    private static final byte VERSION = 1;

    /// @param writer names one run of a process
    record Stint(long writer, long from) {}

    LogWriters {
        stints = List.copyOf(stints);
    }

    /// From this leaf on another process writes.
    LogWriters begin(long writer, long from) {
        List<Stint> next = new ArrayList<>(stints);
        next.add(new Stint(writer, from));
        return new LogWriters(next.subList(Math.max(0, next.size() - MOST), next.size()));
    }

    /// Whether this process wrote the leaf, or nobody knows who did.
    boolean mayHaveWritten(long writer, long seq) {
        for (int i = stints.size() - 1; i >= 0; i--) {
            if (stints.get(i).from() <= seq) {
                return stints.get(i).writer() == writer;
            }
        }
        return true;
    }

    byte[] encode() {
        ByteBuffer out = ByteBuffer.allocate(1 + stints.size() * 2 * Long.BYTES).put(VERSION);
        stints.forEach(stint -> out.putLong(stint.writer()).putLong(stint.from()));
        return out.array();
    }

    static LogWriters decode(byte[] bytes) {
        if (bytes.length % (2 * Long.BYTES) != 1 || bytes[0] != VERSION) {
            throw new IllegalStateException("tlog store: expected writers of version " + VERSION + " in 1 + 16 n bytes, got "
                    + bytes.length + " bytes; it was written by another release, or is damaged: restore the store");
        }
        ByteBuffer in = ByteBuffer.wrap(bytes, 1, bytes.length - 1);
        List<Stint> stints = new ArrayList<>();
        while (in.hasRemaining()) {
            stints.add(new Stint(in.getLong(), in.getLong()));
        }
        return new LogWriters(stints);
    }
}

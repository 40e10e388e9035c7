package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import millrace.engine.kernel.cpu.ThreadTeam;

/// The two sides of a matrix of activations that is sent or fetched, and the pinned memory between them: the heap may move
/// while the device copies.
final class HostSide {
    /// Floats that a thread copies at a time: logits of a large batch are tens of megabytes.
    private static final int SHARE = 1 << 16;

    private final float[] values;
    private final MemorySegment pinned;
    private final long address;
    private final Copy copy;
    private final ThreadTeam team;
    private final ThreadTeam.Task takeShare = this::takeShare;
    private final int width;
    private final Copy[] fromRow;
    private int start;
    private int arrived;

    /// @param team takes what has arrived
    /// @param values the side on the heap, of rows of `width`
    HostSide(Gpu gpu, ThreadTeam team, float[] values, int width) {
        this.team = team;
        this.values = values;
        this.width = width;
        long bytes = (long) Float.BYTES * values.length;
        pinned = gpu.pinned(bytes);
        address = gpu.allocate(bytes, "activations");
        copy = gpu.copy(pinned, address);
        fromRow = new Copy[values.length / width];
        for (int row = 0; row < fromRow.length; row++) {
            long at = (long) Float.BYTES * width * row;
            fromRow[row] = gpu.copy(pinned.asSlice(at), address + at);
        }
    }

    /// Absolute address of the device's side.
    long address() {
        return address;
    }

    /// Queues the copy of the first floats to the device; pinned memory must not be in use by a copy before.
    void send(int floats) {
        MemorySegment.copy(values, 0, pinned, ValueLayout.JAVA_FLOAT, 0, floats);
        copy.send((long) Float.BYTES * floats);
    }

    /// Queues the copy of the first floats to pinned memory.
    void queueFetch(int floats) {
        copy.fetch((long) Float.BYTES * floats);
    }

    /// Queues the copy of some of the rows there.
    void queueFetchRows(int first, int count) {
        fromRow[first].fetch((long) Float.BYTES * width * count);
    }

    /// Takes what has arrived there.
    void take(int floats) {
        take(0, floats);
    }

    void takeRows(int first, int count) {
        take(first * width, count * width);
    }

    private void take(int from, int floats) {
        start = from;
        arrived = floats;
        team.run(takeShare, Math.ceilDiv(floats, SHARE));
    }

    private void takeShare(int share, int thread) {
        int from = start + share * SHARE;
        int n = Math.min(SHARE, start + arrived - from);
        MemorySegment.copy(pinned, ValueLayout.JAVA_FLOAT, (long) Float.BYTES * from, values, from, n);
    }
}

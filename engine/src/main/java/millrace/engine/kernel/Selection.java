package millrace.engine.kernel;

/// Which positions the rows of a step attend to: written by [Kernels#select], read by attention, of the layer itself and of
/// those that share its choice.
///
/// | part      | shape          |                                                                              |
/// |-----------|----------------|------------------------------------------------------------------------------|
/// | counts    | `[rows]`       | positions of a row, at most `most`; [#ALL] for every position up to its own  |
/// | positions | `[rows][most]` | the chosen, ascending; those of a row that attends to all are undefined      |
///
/// On the heap the parts are the arrays of this object. In a backend's memory they stand behind one another, positions from a
/// multiple of 256 bytes on, and the arrays are empty.
public final class Selection {
    /// The count of a row that attends to every position up to its own.
    public static final int ALL = -1;

    private static final long PART_ALIGNMENT = 256;

    private final int maxRows;
    private final int most;
    private final long address;
    private final int[] counts;
    private final int[] positions;

    private Selection(int maxRows, int most, long address, int rowsOnHeap) {
        if (maxRows < 1 || most < 1) {
            throw new IllegalArgumentException("selection: " + maxRows + " rows of " + most);
        }
        this.maxRows = maxRows;
        this.most = most;
        this.address = address;
        counts = new int[rowsOnHeap];
        positions = new int[Math.multiplyExact(rowsOnHeap, most)];
    }

    /// On the heap.
    ///
    /// @param maxRows the most rows of a step
    /// @param most the most positions of a row
    public static Selection onHeap(int maxRows, int most) {
        return new Selection(maxRows, most, 0, maxRows);
    }

    /// In a backend's memory.
    ///
    /// @param address of [#bytes] bytes, a multiple of 256
    public static Selection device(int maxRows, int most, long address) {
        if (address == 0 || address % PART_ALIGNMENT != 0) {
            throw new IllegalArgumentException("selection: address " + address);
        }
        return new Selection(maxRows, most, address, 0);
    }

    /// Bytes that a selection takes in a backend's memory.
    public static long bytes(int maxRows, int most) {
        return aligned(maxRows) + aligned((long) maxRows * most);
    }

    private static long aligned(long words) {
        return (Integer.BYTES * words + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    }

    public int maxRows() {
        return maxRows;
    }

    /// The most positions of a row.
    public int most() {
        return most;
    }

    public int[] counts() {
        return counts;
    }

    public int[] positions() {
        return positions;
    }

    // Addresses of the same in a backend's memory.

    public long countsAddress() {
        return address;
    }

    public long positionsAddress() {
        return address + aligned(maxRows);
    }
}

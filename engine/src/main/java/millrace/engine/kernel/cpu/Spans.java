package millrace.engine.kernel.cpu;

import java.util.Arrays;

/// Consecutive rows of a segment that read the same pages, each a position further than the row before it, and the units of
/// work that belong to them.
final class Spans {
    /// In place of a slot: the rows read the pages of their sequence.
    static final int PAGES = -1;
    /// In place of a slot: the row reads chosen tokens, which its unit gathers itself.
    static final int OWN = -2;

    private int count;
    private int units;
    private int[] firstUnits = new int[1];
    private int[] segments = new int[1];
    private int[] firstRows = new int[1];
    private int[] rows = new int[1];
    private int[] starts = new int[1];
    private int[] slots = new int[1];

    void clear() {
        count = 0;
        units = 0;
    }

    /// @param segment of the batch
    /// @param firstRow of the step
    /// @param rowCount how many rows
    /// @param start how many tokens the first row sees before its last one
    /// @param slot where chosen tokens are gathered, or one of the above
    /// @param unitCount at least 1
    void add(int segment, int firstRow, int rowCount, int start, int slot, int unitCount) {
        if (count == firstUnits.length) {
            int size = 2 * count;
            firstUnits = Arrays.copyOf(firstUnits, size);
            segments = Arrays.copyOf(segments, size);
            firstRows = Arrays.copyOf(firstRows, size);
            rows = Arrays.copyOf(rows, size);
            starts = Arrays.copyOf(starts, size);
            slots = Arrays.copyOf(slots, size);
        }
        firstUnits[count] = units;
        segments[count] = segment;
        firstRows[count] = firstRow;
        rows[count] = rowCount;
        starts[count] = start;
        slots[count++] = slot;
        units = Math.addExact(units, unitCount);
    }

    int count() {
        return count;
    }

    int units() {
        return units;
    }

    /// The span that a unit belongs to.
    int of(int unit) {
        int found = Arrays.binarySearch(firstUnits, 0, count, unit);
        return found >= 0 ? found : -found - 2;
    }

    int firstUnit(int span) {
        return firstUnits[span];
    }

    int segment(int span) {
        return segments[span];
    }

    int firstRow(int span) {
        return firstRows[span];
    }

    int rows(int span) {
        return rows[span];
    }

    int start(int span) {
        return starts[span];
    }

    int slot(int span) {
        return slots[span];
    }
}

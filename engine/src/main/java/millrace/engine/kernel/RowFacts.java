package millrace.engine.kernel;

/// What a backend found out about rows of numbers where they lie, so that nobody need read them again: written by
/// [Kernels#inspect], brought to the host by [Kernels#fetch(RowFacts, int)].
public final class RowFacts {
    private final int width;
    private final int[] largest;
    private final int[] differing;
    private final int[] best;
    private final int[] bestBits;
    private final int[] checksums;
    private final Draws draws;

    /// @param maxRows the most rows of a step
    /// @param width numbers of a row
    public RowFacts(int maxRows, int width) {
        this.width = width;
        largest = new int[maxRows];
        differing = new int[maxRows];
        best = new int[maxRows];
        bestBits = new int[maxRows];
        checksums = new int[maxRows];
        draws = new Draws(maxRows);
    }

    /// Numbers of a row.
    public int width() {
        return width;
    }

    public int maxRows() {
        return largest.length;
    }

    /// The largest bits of an absolute value: without their sign, floats are in the order of their bits, with infinity and
    /// then NaN above all numbers.
    public int largest(int row) {
        return largest[row];
    }

    /// Bits in which some number differs from the row's first; 0 if all are the same.
    public int differing(int row) {
        return differing[row];
    }

    /// Index of the largest number, the lowest of several; not defined for a row with a NaN.
    public int best(int row) {
        return best[row];
    }

    /// Bits of the largest number.
    public int bestBits(int row) {
        return bestBits[row];
    }

    /// CRC-32C of the row, its numbers as binary32, little-endian.
    public int checksum(int row) {
        return checksums[row];
    }

    /// Says the checksum of a whole row.
    public void checksum(int row, int value) {
        checksums[row] = value;
    }

    /// What is drawn from the rows.
    public Draws draws() {
        return draws;
    }

    /// Forgets what is known of a row, before its parts are added.
    public void clear(int row) {
        largest[row] = 0;
        differing[row] = 0;
        best[row] = -1;
        bestBits[row] = 0;
    }

    /// Adds what is known of a part of a row, the parts in ascending order.
    public void add(int row, int partLargest, int partDiffering, int partBest, int partBestBits) {
        largest[row] = Math.max(largest[row], partLargest);
        differing[row] |= partDiffering;
        if (best[row] < 0 || Float.intBitsToFloat(partBestBits) > Float.intBitsToFloat(bestBits[row])) {
            best[row] = partBest;
            bestBits[row] = partBestBits;
        }
    }
}

package millrace.engine.kernel;

/// Which experts the rows of a step go to, and in which order: written by [Kernels#route], read by what follows it.
///
/// Each pair of a row and an expert has a slot, ascending by expert, then by row, so that an expert's rows stand
/// together. All parts are `int`, the weights `float`:
///
/// | part      | shape            |                                                                                   |
/// |-----------|------------------|-----------------------------------------------------------------------------------|
/// | chosen    | `[rows][perRow]` | experts of a row, ascending                                                       |
/// | weights   | `[rows][perRow]` | what their outputs are multiplied by                                              |
/// | slots     | `[rows][perRow]` | slots of its pairs                                                                |
/// | sources   | `[rows · perRow]`| row of each slot                                                                  |
/// | firstSlot | `[experts + 1]`  | first slot of each expert, then the number of all pairs                           |
///
/// On the heap the parts are the arrays of this object. In a backend's memory they stand behind one another, each from a
/// multiple of 256 bytes on, and the arrays are empty.
public final class Routing {
    private static final long PART_ALIGNMENT = 256;

    private final RouterSpec spec;
    private final int maxRows;
    private final long address;
    private final int[] chosen;
    private final float[] weights;
    private final int[] slots;
    private final int[] sources;
    private final int[] firstSlot;

    private Routing(int maxRows, RouterSpec spec, long address, int pairs, int experts) {
        this.maxRows = maxRows;
        this.spec = spec;
        this.address = address;
        chosen = new int[pairs];
        weights = new float[pairs];
        slots = new int[pairs];
        sources = new int[pairs];
        firstSlot = new int[experts];
    }

    /// On the heap.
    ///
    /// @param maxRows the most rows of a step
    public static Routing onHeap(int maxRows, RouterSpec spec) {
        return new Routing(maxRows, spec, 0, Math.multiplyExact(maxRows, spec.perRow()), spec.experts() + 1);
    }

    /// In a backend's memory.
    ///
    /// @param address of [#bytes] bytes, a multiple of 256
    public static Routing device(int maxRows, RouterSpec spec, long address) {
        if (address == 0 || address % PART_ALIGNMENT != 0) {
            throw new IllegalArgumentException("routing: address " + address);
        }
        return new Routing(maxRows, spec, address, 0, 0);
    }

    /// Bytes that a routing takes in a backend's memory.
    public static long bytes(int maxRows, RouterSpec spec) {
        return 4 * pairPart(maxRows, spec) + aligned(spec.experts() + 1);
    }

    private static long pairPart(int maxRows, RouterSpec spec) {
        return aligned(Math.multiplyExact(maxRows, spec.perRow()));
    }

    private static long aligned(int words) {
        return ((long) Integer.BYTES * words + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    }

    public RouterSpec spec() {
        return spec;
    }

    public int maxRows() {
        return maxRows;
    }

    /// Whether the parts are the arrays of this object, so that a list of products can be made from them.
    public boolean isOnHeap() {
        return address == 0;
    }

    public int[] chosen() {
        return chosen;
    }

    public float[] weights() {
        return weights;
    }

    public int[] slots() {
        return slots;
    }

    public int[] sources() {
        return sources;
    }

    public int[] firstSlot() {
        return firstSlot;
    }

    // Addresses of the same in a backend's memory.

    public long chosenAddress() {
        return address;
    }

    public long weightsAddress() {
        return address + pairPart(maxRows, spec);
    }

    public long slotsAddress() {
        return address + 2 * pairPart(maxRows, spec);
    }

    public long sourcesAddress() {
        return address + 3 * pairPart(maxRows, spec);
    }

    public long firstSlotAddress() {
        return address + 4 * pairPart(maxRows, spec);
    }

    /// Of the number of all pairs, which is the last entry of `firstSlot`: what runs over slots may read how many count.
    public long pairsAddress() {
        return firstSlotAddress() + (long) Integer.BYTES * spec.experts();
    }
}

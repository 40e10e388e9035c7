package millrace.engine.kernel;

/// Activations: a view of `width` columns of a row-major F32 matrix, row `r` at `offset + r · stride`.
///
/// The matrix lies on the heap, in a backend's own memory, or in both, see [Kernels#rows] and [Kernels#hostRows]: then
/// [Kernels#send] and [Kernels#fetch] make one side like the other. Operations work on the backend's side.
///
/// @param values the matrix on the heap, shared by its views; empty if it lies in a backend's memory only
/// @param address absolute address of the matrix in a backend's memory; 0 if it lies on the heap only
/// @param length floats of the matrix
/// @param offset floats before the view's first
/// @param stride floats from one row to the next
/// @param width columns of the view
public record Rows(float[] values, long address, int length, int offset, int stride, int width) {
    public Rows {
        if (offset < 0 || width < 1 || stride < offset + width) {
            throw new IllegalArgumentException("rows: offset " + offset + ", width " + width + ", stride " + stride);
        }
        if (length < 0 || length != values.length && (address == 0 || values.length != 0)) {
            throw new IllegalArgumentException(
                    "rows: " + length + " floats, " + values.length + " on the heap, address " + address);
        }
    }

    /// A view of a matrix on the heap.
    public Rows(float[] values, int offset, int stride, int width) {
        this(values, 0, values.length, offset, stride, width);
    }

    /// A new matrix of zeros on the heap.
    public static Rows allocate(int rows, int width) {
        return new Rows(new float[Math.multiplyExact(rows, width)], 0, width, width);
    }

    /// A matrix in a backend's memory.
    ///
    /// @param values its side on the heap, empty for none
    /// @param address of its first float
    public static Rows device(float[] values, long address, int rows, int width) {
        return new Rows(values, address, Math.multiplyExact(rows, width), 0, width, width);
    }

    /// The columns `[from, from + count)` of this view.
    public Rows columns(int from, int count) {
        if (from < 0 || count < 1 || from + count > width) {
            throw new IllegalArgumentException("rows: columns " + from + " to " + (from + count) + " of " + width);
        }
        return new Rows(values, address, length, offset + from, stride, count);
    }

    /// Index of the first value of a row.
    public int at(int row) {
        return offset + row * stride;
    }

    /// Absolute address of the first value of a row in a backend's memory.
    public long addressAt(int row) {
        return address + (long) Float.BYTES * at(row);
    }

    /// Rows that the matrix has room for.
    public int capacity() {
        return length / stride;
    }
}

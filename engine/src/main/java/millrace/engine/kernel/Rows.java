package millrace.engine.kernel;

/// Activations: a view of `width` columns of a row-major F32 matrix, row `r` at `offset + r · stride`.
///
/// @param values the matrix that is viewed, shared by its views
public record Rows(float[] values, int offset, int stride, int width) {
    public Rows {
        if (offset < 0 || width < 1 || stride < offset + width) {
            throw new IllegalArgumentException("rows: offset " + offset + ", width " + width + ", stride " + stride);
        }
    }

    /// A new matrix of zeros.
    public static Rows allocate(int rows, int width) {
        return new Rows(new float[Math.multiplyExact(rows, width)], 0, width, width);
    }

    /// The columns `[from, from + count)` of this view.
    public Rows columns(int from, int count) {
        if (from < 0 || count < 1 || from + count > width) {
            throw new IllegalArgumentException("rows: columns " + from + " to " + (from + count) + " of " + width);
        }
        return new Rows(values, offset + from, stride, count);
    }

    /// Index of the first value of a row.
    public int at(int row) {
        return offset + row * stride;
    }

    /// Rows that the matrix has room for.
    public int capacity() {
        return values.length / stride;
    }
}

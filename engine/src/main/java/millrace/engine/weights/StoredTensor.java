package millrace.engine.weights;

import java.lang.foreign.MemorySegment;
import millrace.engine.kernel.DType;

/// One tensor as it lies in its file: row-major, little-endian, at any alignment.
///
/// @param shape dimensions, outermost first; empty for a scalar
/// @param data exactly the tensor's bytes, read-only, valid until the [ModelFiles] are closed
public record StoredTensor(String name, DType dtype, long[] shape, MemorySegment data) {
    public StoredTensor {
        shape = shape.clone();
    }

    @Override
    public long[] shape() {
        return shape.clone();
    }

    /// Number of elements; the product was checked against overflow when the header was read.
    public long elements() {
        return data.byteSize() * 8 / dtype.bits();
    }
}

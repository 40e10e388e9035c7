package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Objects;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Matrix;

/// Which matrices, arrays and tables of experts lie where on the device. Each is known by its identity on the host; to look
/// one up allocates nothing.
final class CudaTensors {
    /// Brings bytes to the device, to where they were brought before if they were.
    @FunctionalInterface
    interface Uploader {
        /// @param source what they belong to, by identity
        /// @param part which part of it; empty for all of it
        /// @param bytes outside the heap, whole words of 32 bits; not used any more when this returns
        /// @param again brings them once more
        /// @return their address on the device
        long upload(Object source, String part, MemorySegment bytes, Runnable again);
    }

    private final Uploader uploader;
    private final Matrix.Each team;
    private final Map<Matrix, CudaMatrix> matrices = new IdentityHashMap<>();
    private final Map<Object, Long> arrays = new IdentityHashMap<>();

    /// @param team makes device forms on several threads
    CudaTensors(Uploader uploader, Matrix.Each team) {
        this.uploader = uploader;
        this.team = team;
    }

    /// As [millrace.engine.kernel.Kernels#adopt(Matrix)].
    void adopt(Matrix matrix) {
        try (Arena arena = Arena.ofShared()) {
            MemorySegment bytes = CudaMatrix.bytes(arena, matrix, team);
            long address = uploader.upload(matrix, "", bytes, () -> adopt(matrix));
            matrices.put(matrix, new CudaMatrix(matrix, address));
        }
    }

    /// As [millrace.engine.kernel.Kernels#adopt(float\[\])].
    void adopt(float[] values) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocateFrom(ValueLayout.JAVA_FLOAT, values);
            arrays.put(values, uploader.upload(values, "", bytes, () -> adopt(values)));
        }
    }

    /// As [millrace.engine.kernel.Kernels#adopt(Experts)]: the addresses of their matrices, 8 bytes each.
    ///
    /// @throws IllegalArgumentException if they differ in format
    void adopt(Experts experts) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG, experts.count());
            for (int e = 0; e < experts.count(); e++) {
                if (experts.get(e).format() != experts.get(0).format()) {
                    throw new IllegalArgumentException("experts: expected matrices of one format, got " + experts.get(0)
                            + " and " + experts.get(e));
                }
                bytes.setAtIndex(ValueLayout.JAVA_LONG, e, matrix(experts.get(e)).address());
            }
            arrays.put(experts, uploader.upload(experts, "", bytes, () -> adopt(experts)));
        }
    }

    /// A matrix that was adopted.
    CudaMatrix matrix(Matrix matrix) {
        CudaMatrix known = matrices.get(matrix);
        if (known == null) {
            throw new IllegalStateException("weights: expected " + matrix + " on the device, got one that was not adopted");
        }
        return known;
    }

    /// Where an array lies that was adopted.
    long address(float[] values) {
        return Objects.requireNonNull(arrays.get(values), "weights: an array that was not adopted");
    }

    /// Where the table of experts lies that was adopted.
    long address(Experts experts) {
        return Objects.requireNonNull(arrays.get(experts), "weights: experts that were not adopted");
    }
}

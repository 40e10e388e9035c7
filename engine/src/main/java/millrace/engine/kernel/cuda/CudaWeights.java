package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.BackendException;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.PageDigest;
import millrace.engine.kernel.WeightCopy;
import org.jspecify.annotations.Nullable;

/// The weights that were copied to the device: where they lie, and the digests that they must have there.
///
/// Digests are those of the bytes on the host, taken before they are copied. A copy is checked against them at once, and
/// later by whoever asks [#copies]. A block's digest is bound to which copy it belongs to and where in it.
final class CudaWeights {
    /// Bytes of a block: the device digests it in about 10 µs, so that a check never delays a step for long.
    static final long BLOCK_BYTES = 16 << 20;

    private final Gpu gpu;
    private final Matrix.Each team;
    private final CudaDigests digests;
    private final List<Copied> copies = new ArrayList<>();
    private final Map<Object, List<Copied>> bySource = new IdentityHashMap<>();

    /// @param team computes digests on the host, on several threads
    CudaWeights(Gpu gpu, Matrix.Each team) {
        this.gpu = gpu;
        this.team = team;
        digests = new CudaDigests(gpu);
    }

    /// One piece of device memory.
    private final class Copied implements WeightCopy {
        private final Object source;
        private final String part;
        private final long address;
        private final long bytes;
        private final long firstTag;
        private final long[] expected;
        private final Runnable again;

        Copied(Object source, String part, long address, long bytes, int number, Runnable again) {
            this.source = source;
            this.part = part;
            this.address = address;
            this.bytes = bytes;
            firstTag = (long) number << Integer.SIZE;
            expected = new long[(int) Math.max(1, Math.ceilDiv(bytes, BLOCK_BYTES))];
            this.again = again;
        }

        private long tag(int block) {
            return firstTag + start(block) / Integer.BYTES;
        }

        void expect(MemorySegment host) {
            team.run(expected.length, block -> {
                MemorySegment slice = host.asSlice(start(block), start(block + 1) - start(block));
                expected[block] = PageDigest.w64(
                        tag(block), 0, slice.asByteBuffer().order(ByteOrder.LITTLE_ENDIAN), 0, (int) slice.byteSize());
            });
        }

        @Override
        public Object source() {
            return source;
        }

        @Override
        public String part() {
            return part;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public long bytes() {
            return bytes;
        }

        @Override
        public int blocks() {
            return expected.length;
        }

        @Override
        public long start(int block) {
            return Math.min(bytes, block * BLOCK_BYTES);
        }

        @Override
        public long expected(int block) {
            return expected[block];
        }

        @Override
        public long digest(int block) {
            synchronized (digests) {
                return digests.digest(address + start(block), start(block + 1) - start(block), tag(block));
            }
        }

        @Override
        public void restore() {
            again.run();
        }
    }

    /// Copies bytes to the device, to where they were copied before if they were, and checks that they have arrived.
    ///
    /// @param source what is adopted, by identity
    /// @param part which part of it this is; empty for all of it
    /// @param bytes whole words of 32 bits, outside the heap
    /// @param again adopts the source once more, so that it ends here with the same bytes
    /// @return their address
    /// @throws BackendException `CUDA_MEMORY` if there is no room, `CUDA_COPY` if other bytes have arrived
    long upload(Object source, String part, MemorySegment bytes, Runnable again) {
        Copied copied = find(source, part);
        if (copied == null) {
            long address = gpu.allocate(bytes.byteSize(), "the weights");
            copied = new Copied(source, part, address, bytes.byteSize(), copies.size(), again);
            copies.add(copied);
            bySource.computeIfAbsent(source, s -> new ArrayList<>(1)).add(copied);
        }
        if (copied.bytes != bytes.byteSize() || bytes.byteSize() % Integer.BYTES != 0) {
            throw new IllegalArgumentException(
                    "weights: expected " + copied.bytes + " bytes in whole words, got " + bytes.byteSize());
        }
        copied.expect(bytes);
        gpu.upload(copied.address, bytes);
        for (int block = 0; block < copied.blocks(); block++) {
            long got = copied.digest(block);
            if (got != copied.expected[block]) {
                throw new BackendException(
                        "CUDA_COPY",
                        ("%s: weights copied to the device: expected bytes of the digest %016x, got %016x; start again, and"
                                        + " replace this machine if it returns")
                                .formatted(gpu.name(), copied.expected[block], got));
            }
        }
        return copied.address;
    }

    private @Nullable Copied find(Object source, String part) {
        for (Copied copied : bySource.getOrDefault(source, List.of())) {
            if (copied.part.equals(part)) {
                return copied;
            }
        }
        return null;
    }

    /// All that was copied, in order.
    List<WeightCopy> copies() {
        return Collections.unmodifiableList(copies);
    }
}

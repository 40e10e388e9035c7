package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// What changes from one step to the next, as one piece of pinned memory and one of the device with the same layout.
///
/// The piece is made of parts that never move, so that recorded launches find them. Of each part a beginning is used, as
/// much as the step needs; what is used is copied, in as few copies as the gaps between allow.
final class StepBlock {
    /// A gap below this is copied rather than skipped: a copy of its own takes longer.
    private static final long GAP = 4096;

    private final List<Part> parts = new ArrayList<>();
    private long bytes;

    /// A part of the block.
    static final class Part {
        private final long offset;
        private final long bytes;
        private MemorySegment host = MemorySegment.NULL;
        private long address;
        private @Nullable Copy copy;
        private long used;

        private Part(long offset, long bytes) {
            this.offset = offset;
            this.bytes = bytes;
        }

        /// Copies from here to `end`, perhaps beyond this part.
        private void send(long end) {
            Objects.requireNonNull(copy, "allocate comes first").send(end - offset);
        }

        /// The host's side, to be written before each [StepBlock#send].
        MemorySegment host() {
            return host;
        }

        /// Absolute address of the device's side.
        long address() {
            return address;
        }

        /// Says how many bytes from the beginning are to be sent.
        void use(long count) {
            if (count < 0 || count > bytes) {
                throw new IllegalArgumentException("step block: expected at most " + bytes + " bytes, got " + count);
            }
            used = count;
        }
    }

    /// Adds a part; all before [#allocate].
    Part part(long size) {
        Part part = new Part(bytes, size);
        parts.add(part);
        bytes += (size + DeviceMemory.ALIGNMENT - 1) & -DeviceMemory.ALIGNMENT;
        return part;
    }

    /// Takes the memory.
    void allocate(Gpu gpu) {
        MemorySegment host = gpu.pinned(bytes);
        long address = gpu.allocate(bytes, "the inputs of a step");
        for (Part part : parts) {
            part.host = host.asSlice(part.offset, part.bytes);
            part.address = address + part.offset;
            part.copy = gpu.copy(host.asSlice(part.offset), part.address);
        }
    }

    /// Queues the copies of what is used. The host's side must not change until they have ended.
    void send() {
        @Nullable Part first = null;
        long end = 0;
        for (Part part : parts) {
            if (part.used == 0) {
                continue;
            }
            if (first == null || part.offset - end > GAP) {
                if (first != null) {
                    first.send(end);
                }
                first = part;
            }
            end = part.offset + part.used;
        }
        if (first != null) {
            first.send(end);
        }
    }
}

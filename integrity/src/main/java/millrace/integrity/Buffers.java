package millrace.integrity;

import java.nio.ByteBuffer;

/// Bytes fields of Avro records.
public final class Buffers {
    private Buffers() {}

    /// A copy of what remains; the buffer's position stays.
    public static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}

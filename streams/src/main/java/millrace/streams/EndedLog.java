package millrace.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/// The log that an operator's order has ended, as the log after it remembers it: where it ended, and who wrote its leaves. A
/// process that lost the partition before that learns from it which of the leaves that it remembers are its own.
///
/// Bytes, big-endian: `[u8 version = 1] [i64 size] [u16 n, n bytes of origin] [the bytes of LogWriters]`.
///
/// @param origin its name
/// @param size its leaves
record EndedLog(String origin, long size, LogWriters writers) {
    private static final byte VERSION = 1;

    byte[] encode() {
        byte[] name = origin.getBytes(StandardCharsets.UTF_8);
        byte[] stints = writers.encode();
        return ByteBuffer.allocate(1 + Long.BYTES + Short.BYTES + name.length + stints.length)
                .put(VERSION).putLong(size).putShort((short) name.length).put(name).put(stints).array();
    }

    static EndedLog decode(byte[] bytes) {
        int head = 1 + Long.BYTES + Short.BYTES;
        ByteBuffer in = ByteBuffer.wrap(bytes);
        if (bytes.length < head || bytes[0] != VERSION || in.getShort(head - Short.BYTES) < 0
                || bytes.length < head + in.getShort(head - Short.BYTES)) {
            throw new IllegalStateException("tlog store: expected an ended log of version " + VERSION + ", got " + bytes.length
                    + " other bytes; it was written by another release, or is damaged: restore the store");
        }
        in.position(1);
        long size = in.getLong();
        byte[] name = new byte[in.getShort()];
        in.get(name);
        byte[] stints = new byte[in.remaining()];
        in.get(stints);
        return new EndedLog(new String(name, StandardCharsets.UTF_8), size, LogWriters.decode(stints));
    }
}

package millrace.streams;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;

/// An accepted prompt as the pending store keeps it until its completion and attestation are forwarded.
///
/// Bytes, big-endian: `[u8 version = 1] [u8 admitted] [i64 timestampMs] [i32 n, n bytes key or n = -1] [i32 n, n bytes value]
/// [i32 headers] ([i32 n, n bytes name] [i32 n, n bytes value or n = -1])*`. The store's key is the record's offset,
/// 8 bytes big-endian, so that iteration is in order of arrival.
///
/// @param admitted false while its schema is not known: it has not been checked against earlier prompts yet
/// @param timestampMs the record's own timestamp, milliseconds since the epoch
/// @param value the record's value as it came, schema id included
record PendingPrompt(boolean admitted, long timestampMs, byte @Nullable [] key, byte[] value, Headers headers) {
    private static final byte VERSION = 1;
    private static final byte[] NOTHING = {};

    static byte[] storeKey(long offset) {
        return ByteBuffer.allocate(Long.BYTES).putLong(offset).array();
    }

    static long offset(byte[] storeKey) {
        return ByteBuffer.wrap(storeKey).getLong();
    }

    byte[] encode() {
        int size = 2 + Long.BYTES + Integer.BYTES + length(key) + Integer.BYTES + value.length + Integer.BYTES;
        for (Header header : headers) {
            size += Integer.BYTES + header.key().getBytes(StandardCharsets.UTF_8).length + Integer.BYTES + length(header.value());
        }
        ByteBuffer out = ByteBuffer.allocate(size).put(VERSION).put((byte) (admitted ? 1 : 0)).putLong(timestampMs);
        put(out, key);
        put(out, value);
        Header[] all = headers.toArray();
        out.putInt(all.length);
        for (Header header : all) {
            put(out, header.key().getBytes(StandardCharsets.UTF_8));
            put(out, header.value());
        }
        return out.array();
    }

    /// @throws IllegalStateException if the bytes are not those of [#encode()]
    static PendingPrompt decode(byte[] bytes) {
        if (bytes.length > 0 && bytes[0] != VERSION) {
            throw new IllegalStateException("pending store: expected entry version " + VERSION + ", got " + bytes[0]
                    + "; it was written by another release: finish its prompts with that release first");
        }
        ByteBuffer in = ByteBuffer.wrap(bytes);
        try {
            in.get();
            boolean admitted = in.get() != 0;
            long timestampMs = in.getLong();
            byte[] key = take(in);
            byte[] value = take(in);
            int count = in.getInt();
            RecordHeaders headers = new RecordHeaders();
            for (int i = 0; i < count; i++) {
                byte[] name = take(in);
                headers.add(new String(name == null ? NOTHING : name, StandardCharsets.UTF_8), take(in));
            }
            if (count >= 0 && !in.hasRemaining()) {
                return new PendingPrompt(admitted, timestampMs, key, value == null ? NOTHING : value, headers);
            }
        } catch (BufferUnderflowException e) {
            // Refused below.
        }
        throw new IllegalStateException("pending store: expected an entry whose lengths agree with its " + bytes.length
                + " bytes, got others; it is damaged: restore the store");
    }

    private static int length(byte @Nullable [] bytes) {
        return bytes == null ? 0 : bytes.length;
    }

    private static void put(ByteBuffer out, byte @Nullable [] bytes) {
        if (bytes == null) {
            out.putInt(-1);
        } else {
            out.putInt(bytes.length).put(bytes);
        }
    }

    private static byte @Nullable [] take(ByteBuffer in) {
        int length = in.getInt();
        if (length < 0) {
            return null;
        }
        if (length > in.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }
}

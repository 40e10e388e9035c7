package millrace.streams.registry;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import millrace.streams.registry.server.SchemaTexts;
import org.apache.avro.io.Decoder;
import org.apache.avro.util.Utf8;
import org.jspecify.annotations.Nullable;

/// Avro's binary form read from an array of bytes that nobody vouches for.
///
/// No length is believed: a string, a byte field or a block of items that is longer than the bytes that are left is
/// refused before anything is allocated for it. Items are taken to need at least one byte each, which holds for every
/// schema that `SchemaTexts.whyForeign` lets through. Strings must be UTF-8.
final class BoundedDecoder extends Decoder {
    private final byte[] bytes;
    private final int limit;
    private int position;

    BoundedDecoder(byte[] bytes, int offset, int length) {
        this.bytes = bytes;
        this.position = offset;
        this.limit = offset + length;
    }

    boolean isEnd() {
        return position == limit;
    }

    @Override
    public int remainingBytes() {
        return limit - position;
    }

    @Override
    public void readNull() {}

    @Override
    public boolean readBoolean() throws IOException {
        int b = next();
        if (b > 1) {
            throw new IOException("boolean: expected 0 or 1, got " + b);
        }
        return b == 1;
    }

    @Override
    public int readInt() throws IOException {
        long value = readLong();
        if (value != (int) value) {
            throw new IOException("int: out of range");
        }
        return (int) value;
    }

    @Override
    public long readLong() throws IOException {
        long zigzag = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            int b = next();
            if (shift == 63 && b > 1) {
                break;
            }
            zigzag |= (long) (b & 0x7f) << shift;
            if (b < 0x80) {
                return (zigzag >>> 1) ^ -(zigzag & 1);
            }
        }
        throw new IOException("varint: longer than 64 bits");
    }

    @Override
    public float readFloat() throws IOException {
        int at = take(4, "float");
        return Float.intBitsToFloat(littleEndian(at));
    }

    @Override
    public double readDouble() throws IOException {
        int at = take(8, "double");
        return Double.longBitsToDouble(littleEndian(at) & 0xffff_ffffL | (long) littleEndian(at + 4) << 32);
    }

    @Override
    public Utf8 readString(@Nullable Utf8 old) throws IOException {
        return new Utf8(readString());
    }

    @Override
    public String readString() throws IOException {
        int length = length("string");
        int at = take(length, "string");
        String text = new String(bytes, at, length, StandardCharsets.UTF_8);
        // The constructor puts U+FFFD for what is malformed; only then is the strict decoder asked.
        return text.indexOf('\uFFFD') < 0 ? text : strictly(at, length);
    }

    private String strictly(int at, int length) throws IOException {
        try {
            CharBuffer text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, at, length));
            return text.toString();
        } catch (CharacterCodingException e) {
            throw new IOException("string: not UTF-8", e);
        }
    }

    @Override
    public void skipString() throws IOException {
        take(length("string"), "string");
    }

    @Override
    public ByteBuffer readBytes(@Nullable ByteBuffer old) throws IOException {
        int length = length("bytes");
        byte[] copy = new byte[length];
        System.arraycopy(bytes, take(length, "bytes"), copy, 0, length);
        return ByteBuffer.wrap(copy);
    }

    @Override
    public void skipBytes() throws IOException {
        take(length("bytes"), "bytes");
    }

    @Override
    public void readFixed(byte[] target, int start, int length) throws IOException {
        System.arraycopy(bytes, take(length, "fixed"), target, start, length);
    }

    @Override
    public void skipFixed(int length) throws IOException {
        take(length, "fixed");
    }

    @Override
    public int readEnum() throws IOException {
        return readInt();
    }

    @Override
    public int readIndex() throws IOException {
        return readInt();
    }

    @Override
    public long readArrayStart() throws IOException {
        return itemCount();
    }

    @Override
    public long arrayNext() throws IOException {
        return itemCount();
    }

    @Override
    public long skipArray() throws IOException {
        return skipBlocks();
    }

    @Override
    public long readMapStart() throws IOException {
        return itemCount();
    }

    @Override
    public long mapNext() throws IOException {
        return itemCount();
    }

    @Override
    public long skipMap() throws IOException {
        return skipBlocks();
    }

    /* A negative count is followed by the block's length in bytes, for who wants to skip it. */
    private long itemCount() throws IOException {
        long count = readLong();
        if (count < 0) {
            count = count == Long.MIN_VALUE ? Long.MAX_VALUE : -count;
            length("block");
        }
        if (count > remainingBytes()) {
            throw new IOException("block: %d items in %d bytes".formatted(count, remainingBytes()));
        }
        return count;
    }

    /* Skips blocks of known length; returns the item count of the first that must be skipped item by item, or 0. */
    private long skipBlocks() throws IOException {
        for (long count = readLong(); count != 0; count = readLong()) {
            if (count > 0) {
                if (count > remainingBytes()) {
                    throw new IOException("block: %d items in %d bytes".formatted(count, remainingBytes()));
                }
                return count;
            }
            take(length("block"), "block");
        }
        return 0;
    }

    private int length(String what) throws IOException {
        long length = readLong();
        if (length < 0 || length > remainingBytes()) {
            throw new IOException("%s: length %d with %d bytes left".formatted(what, length, remainingBytes()));
        }
        return (int) length;
    }

    private int take(int length, String what) throws IOException {
        if (length > remainingBytes()) {
            throw new EOFException("%s: %d bytes needed, %d left".formatted(what, length, remainingBytes()));
        }
        int at = position;
        position += length;
        return at;
    }

    private int next() throws IOException {
        if (position == limit) {
            throw new EOFException("the bytes end within the record");
        }
        return bytes[position++] & 0xff;
    }

    private int littleEndian(int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8 | (bytes[at + 2] & 0xff) << 16 | bytes[at + 3] << 24;
    }
}

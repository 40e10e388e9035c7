package millrace.streams;

import java.nio.ByteBuffer;
import java.util.UUID;
import millrace.integrity.Digest;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.jspecify.annotations.Nullable;

/// Where a prompt record came from.
///
/// @param timestampMs the record's own timestamp, milliseconds since the epoch
/// @param value the record's value as it came; null and empty values are undecodable, not absent
record Source(
        String topic,
        int partition,
        long offset,
        long timestampMs,
        byte @Nullable [] key,
        byte @Nullable [] value,
        Headers headers) {

    /// Bytes of key, value and headers together: what a copy of the record takes.
    int bytes() {
        return (key == null ? 0 : key.length) + (value == null ? 0 : value.length) + headerBytes();
    }

    int headerBytes() {
        int sum = 0;
        for (Header header : headers) {
            sum += header.key().length() + (header.value() == null ? 0 : header.value().length) + 2 * Integer.BYTES;
        }
        return sum;
    }

    /// Names the record on the cluster; equal for every attempt to answer it.
    String position() {
        return topic + "/" + partition + "/" + offset;
    }

    /// Id of the answer's event: a version 5 UUID of the position, so that an answer made again has the same id.
    UUID eventId() {
        byte[] hash = Digest.sha256(position()).bytes();
        hash[6] = (byte) (hash[6] & 0x0f | 0x50);
        hash[8] = (byte) (hash[8] & 0x3f | 0x80);
        ByteBuffer bytes = ByteBuffer.wrap(hash);
        return new UUID(bytes.getLong(), bytes.getLong());
    }

    /// Seed of a prompt that brings none: a function of the position, so that a resumed prompt draws the same tokens.
    long seed() {
        return ByteBuffer.wrap(Digest.sha256("seed/v1 " + position()).bytes()).getLong();
    }
}

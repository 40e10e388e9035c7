package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.zip.CRC32C;

/// What the one writer of a log keeps between leaves: name, frontier and last leaf. Immutable; a few hundred bytes.
///
/// Bytes, big-endian: `"MRT1"`, u16 length of the origin, the origin in US-ASCII, i64 size, one 32-byte hash per set
/// bit of the size, the last leaf's 32 bytes, u32 CRC-32C of everything before it.
///
/// @param lastLeaf hash of the newest leaf; [Digest#ZERO] in an empty log
public record TreeState(Origin origin, MerkleFrontier frontier, Digest lastLeaf) {
    private static final int MAGIC = 0x4D525431;

    public TreeState {
        if (frontier.size() == 0 && !lastLeaf.isZero()) {
            throw new IntegrityException("TREE_STATE_INVALID", "tree state: %s: expected no last leaf in an empty log"
                    .formatted(origin));
        }
    }

    /// An empty log.
    public static TreeState start(Origin origin) {
        return new TreeState(origin, MerkleFrontier.EMPTY, Digest.ZERO);
    }

    /// Count of leaves; also the `seq` of the next one.
    public long size() {
        return frontier.size();
    }

    public int epoch() {
        return origin.epoch();
    }

    /// The state after one more leaf.
    public TreeState append(Digest leafHash) {
        return new TreeState(origin, frontier.append(leafHash), leafHash);
    }

    public Checkpoint checkpoint() {
        return new Checkpoint(origin.text(), size(), frontier.root());
    }

    public byte[] encode() {
        byte[] name = origin.text().getBytes(StandardCharsets.US_ASCII);
        int hashes = frontier.nodes().size() + 1;
        ByteBuffer out = ByteBuffer.allocate(4 + 2 + name.length + 8 + Digest.BYTES * hashes + 4);
        out.putInt(MAGIC).putShort((short) name.length).put(name).putLong(size());
        frontier.nodes().forEach(node -> out.put(node.bytes()));
        out.put(lastLeaf.bytes());
        out.putInt(crc(out.array(), out.position()));
        return out.array();
    }

    /// @throws IntegrityException code `TREE_STATE_INVALID` if the bytes are not those of [#encode()]
    public static TreeState decode(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        require(bytes.length >= 4 + 2 + 8 + Digest.BYTES + 4, "at least 50 bytes", bytes.length + " bytes");
        int crc = crc(bytes, bytes.length - 4);
        int stored = in.getInt(bytes.length - 4);
        require(crc == stored, "CRC-32C %08x".formatted(crc), "%08x".formatted(stored));
        int magic = in.getInt();
        require(magic == MAGIC, "\"MRT1\"", "%08x".formatted(magic));
        int nameLength = in.getShort() & 0xFFFF;
        require(in.remaining() >= nameLength + 8 + Digest.BYTES + 4, "an origin of fewer bytes", nameLength + " bytes");
        byte[] name = new byte[nameLength];
        in.get(name);
        long size = in.getLong();
        require(size >= 0, "a size of at least 0", Long.toString(size));
        int count = Long.bitCount(size);
        int expected = Digest.BYTES * (count + 1) + 4;
        require(in.remaining() == expected, expected + " bytes after the size", in.remaining() + " bytes");
        int at = in.position();
        return new TreeState(Origin.parse(new String(name, StandardCharsets.US_ASCII)),
                MerkleFrontier.of(size, MerkleFrontier.read(bytes, at, count)),
                Digest.of(Arrays.copyOfRange(bytes, at + Digest.BYTES * count, at + Digest.BYTES * (count + 1))));
    }

    private static int crc(byte[] bytes, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, length);
        return (int) crc.getValue();
    }

    private static void require(boolean condition, String expected, String got) {
        if (!condition) {
            throw new IntegrityException("TREE_STATE_INVALID",
                    "tree state: expected %s, got %s; restore the store or start a new epoch".formatted(expected, got));
        }
    }
}

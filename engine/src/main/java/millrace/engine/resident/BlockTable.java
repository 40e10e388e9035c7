package millrace.engine.resident;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.function.IntFunction;
import java.util.zip.CRC32C;
import millrace.engine.format.Words;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import org.jspecify.annotations.Nullable;

/// The checksums of all blocks of the resident weights, apart from these, in two copies.
///
/// ```
///   0   4  "MRB1"
///   4   4  regions r
///   8   4  blocks n
///  12   4  bytes of all names
///  16  32  SHA-256 of what the weights are: the model's digest, the format asked for
///  48 16 r for each region: bytes of its name, its blocks (words), its bytes (8)
///          names in UTF-8, one after another
///     12 n for each block: its bytes, CRC-32C of these, checksum of what a compressed block decodes to, else 0
///       4  CRC-32C of everything above
/// ```
///
/// Numbers are little-endian. Both copies are the same bytes; [#sha256] is over one of them. Safe for any thread, as long
/// as nobody repairs.
public final class BlockTable implements AutoCloseable {
    private static final int MAGIC = 'M' | 'R' << 8 | 'B' << 16 | '1' << 24;
    private static final int HEADER = 48;
    private static final int IDENTITY = 16;
    private static final int REGION = 16;
    private static final int BLOCK = 12;
    private static final int COPIES = 2;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment[] copies = new MemorySegment[COPIES];
    private final byte[] identity;
    private final String sha256;
    private final int blocks;
    private final long firstBlock;

    private BlockTable(byte[] identity, byte[] bytes, int blocks) {
        this.identity = identity;
        this.blocks = blocks;
        firstBlock = bytes.length - Integer.BYTES - (long) BLOCK * blocks;
        sha256 = HexFormat.of().formatHex(sha256(bytes));
        try {
            for (int i = 0; i < COPIES; i++) {
                copies[i] = Memory.allocate(arena, bytes.length, "the checksums of the weights");
                write(i, bytes);
            }
        } catch (RuntimeException e) {
            arena.close();
            throw e;
        }
    }

    /// Why a copy must not be used.
    ///
    /// @param code `BT_DAMAGED`, or `BT_FOREIGN` for a sound table of other weights
    public record Problem(String code, String message) {}

    /// Sums up what the regions hold now.
    ///
    /// @param weights what they are: the model's digest, the format asked for
    /// @param each runs the parts, perhaps at once
    public static BlockTable of(String weights, List<? extends Region> regions, Matrix.Each each) {
        byte[] identity = sha256(weights.getBytes(StandardCharsets.UTF_8));
        return new BlockTable(identity, bytes(identity, regions, regions::get, each), count(regions));
    }

    /// Blocks of all regions.
    public static int count(List<? extends Region> regions) {
        return Math.toIntExact(regions.stream().mapToLong(Region::blocks).sum());
    }

    /// @param contents gives each region whose bytes are summed up, one after another
    private static byte[] bytes(
            byte[] identity, List<? extends Region> regions, IntFunction<Region> contents, Matrix.Each each) {
        List<byte[]> names = new ArrayList<>();
        int nameBytes = 0;
        for (Region region : regions) {
            byte[] name = region.name().getBytes(StandardCharsets.UTF_8);
            names.add(name);
            nameBytes += name.length;
        }
        int blocks = count(regions);
        long size = HEADER + (long) REGION * regions.size() + nameBytes + (long) BLOCK * blocks + Integer.BYTES;
        byte[] bytes = new byte[Math.toIntExact(size)];
        MemorySegment out = MemorySegment.ofArray(bytes);
        Words.word(out, 0, MAGIC);
        Words.word(out, 4, regions.size());
        Words.word(out, 8, blocks);
        Words.word(out, 12, nameBytes);
        System.arraycopy(identity, 0, bytes, IDENTITY, identity.length);
        int at = HEADER;
        int nameAt = HEADER + REGION * regions.size();
        long blockAt = nameAt + nameBytes;
        for (int r = 0; r < regions.size(); r++) {
            Region region = regions.get(r);
            Words.word(out, at, names.get(r).length);
            Words.word(out, at + 4, region.blocks());
            Words.twice(out, at + 8, region.bytes());
            at += REGION;
            System.arraycopy(names.get(r), 0, bytes, nameAt, names.get(r).length);
            nameAt += names.get(r).length;
            long first = blockAt;
            Region content = contents.apply(r);
            each.run(Math.min(region.blocks(), content.blocks()), b -> {
                Words.word(out, first + (long) BLOCK * b, (int) content.bytes(b));
                Words.word(out, first + (long) BLOCK * b + 4, content.checksum(b));
                Words.word(out, first + (long) BLOCK * b + 8, content.numbersChecksum(b));
            });
            blockAt += (long) BLOCK * region.blocks();
        }
        Words.word(out, size - Integer.BYTES, crc(out, size - Integer.BYTES));
        return bytes;
    }

    private static int crc(MemorySegment copy, long bytes) {
        CRC32C crc = new CRC32C();
        crc.update(copy.asSlice(0, bytes).asByteBuffer());
        return (int) crc.getValue();
    }

    private static byte[] sha256(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /// SHA-256 of a copy as it was built, hexadecimal.
    public String sha256() {
        return sha256;
    }

    public int blocks() {
        return blocks;
    }

    /// Bytes of both copies.
    public long bytes() {
        return COPIES * copies[0].byteSize();
    }

    /// The memory of a copy, 0 or 1.
    public MemorySegment copy(int copy) {
        return copies[copy];
    }

    /// CRC-32C that the bytes of a block had.
    public int checksum(int block) {
        return Words.word(copies[0], firstBlock + (long) BLOCK * block + 4);
    }

    /// Checksum of what a compressed block held, 0 for others.
    public int numbersChecksum(int block) {
        return Words.word(copies[0], firstBlock + (long) BLOCK * block + 8);
    }

    /// What is wrong with a copy, or null.
    public @Nullable Problem problem(int copy) {
        MemorySegment bytes = copies[copy];
        long end = bytes.byteSize() - Integer.BYTES;
        int expected = Words.word(bytes, end);
        int got = crc(bytes, end);
        if (got != expected || Words.word(bytes, 0) != MAGIC) {
            return new Problem("BT_DAMAGED", "block table, copy %d: expected the checksum %08x, got %08x"
                    .formatted(copy + 1, expected, got));
        }
        byte[] whose = bytes.asSlice(IDENTITY, identity.length).toArray(ValueLayout.JAVA_BYTE);
        if (!MessageDigest.isEqual(whose, identity) || Words.word(bytes, 8) != blocks) {
            return new Problem("BT_FOREIGN", "block table, copy %d: expected that of the weights %s, got that of %s"
                    .formatted(copy + 1, HexFormat.of().formatHex(identity), HexFormat.of().formatHex(whose)));
        }
        return null;
    }

    /// Overwrites a copy with the other.
    public void restore(int copy) {
        MemorySegment.copy(copies[1 - copy], 0, copies[copy], 0, copies[copy].byteSize());
    }

    /// Overwrites both copies with what the contents of the regions give, if that is the table as it was built.
    ///
    /// @param contents gives each region, in order: as it lies in memory, or made again
    /// @return whether it was
    public boolean rebuild(List<? extends Region> regions, IntFunction<Region> contents, Matrix.Each each) {
        byte[] bytes = bytes(identity, regions, contents, each);
        if (bytes.length != copies[0].byteSize() || !HexFormat.of().formatHex(sha256(bytes)).equals(sha256)) {
            return false;
        }
        for (int i = 0; i < COPIES; i++) {
            write(i, bytes);
        }
        return true;
    }

    private void write(int copy, byte[] bytes) {
        MemorySegment.copy(bytes, 0, copies[copy], ValueLayout.JAVA_BYTE, 0, bytes.length);
    }

    @Override
    public void close() {
        arena.close();
    }
}

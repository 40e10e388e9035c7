package millrace.integrity;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Writes one log as the files of c2sp.org/tlog-tiles: hashes in `tile/L/N`, entries in `tile/entries/N`, and the signed
/// checkpoint. A tile has 256 hashes of 32 bytes; what is left over at the end is a partial tile, `N.p/W`. An entry is what
/// a leaf hash covers after its first byte, behind its length (2 bytes big-endian).
public final class TileWriter {
    private static final int WIDTH = 256;
    private static final int MAX_ENTRY = 65_535;

    private final Path directory;
    private final List<List<Digest>> levels = new ArrayList<>();
    private final List<Long> fullTiles = new ArrayList<>();
    private final ByteArrayOutputStream bundle = new ByteArrayOutputStream();
    private long size;
    private long files;

    /// @param directory of this log alone
    public TileWriter(Path directory) {
        this.directory = directory;
        level(0);
    }

    private List<Digest> level(int number) {
        while (levels.size() <= number) {
            levels.add(new ArrayList<>());
            fullTiles.add(0L);
        }
        return levels.get(number);
    }

    /// Leaves that were added.
    public long size() {
        return size;
    }

    /// Files that were written.
    public long files() {
        return files;
    }

    /// Adds the next leaf.
    ///
    /// @param fingerprint of the schema that the value was written under
    /// @param value the record's value as it stands in the topic
    /// @throws IntegrityException code `EXPORT_ENTRY` if the entry is longer than a bundle allows
    public void add(Digest fingerprint, byte[] value) throws IOException {
        byte[] entry = Leaf.entry(fingerprint, value);
        if (entry.length > MAX_ENTRY) {
            throw new IntegrityException("EXPORT_ENTRY", "leaf %d: expected an entry of at most %d bytes, got %d"
                    .formatted(size, MAX_ENTRY, entry.length));
        }
        bundle.write(entry.length >> 8);
        bundle.write(entry.length);
        bundle.writeBytes(entry);
        size++;
        if (size % WIDTH == 0) {
            write("entries", size / WIDTH - 1, WIDTH, bundle.toByteArray());
            bundle.reset();
        }
        push(0, Leaf.hashOfWire(fingerprint, value));
    }

    private void push(int number, Digest hash) throws IOException {
        List<Digest> level = level(number);
        level.add(hash);
        if (level.size() == WIDTH) {
            long tile = fullTiles.get(number);
            write(Integer.toString(number), tile, WIDTH, bytes(level));
            fullTiles.set(number, tile + 1);
            Digest root = MerkleFrontier.root(level, 0, WIDTH);
            level.clear();
            push(number + 1, root);
        }
    }

    private static byte[] bytes(List<Digest> hashes) {
        byte[] bytes = new byte[hashes.size() * Digest.BYTES];
        for (int i = 0; i < hashes.size(); i++) {
            hashes.get(i).copyTo(bytes, i * Digest.BYTES);
        }
        return bytes;
    }

    /// Writes what is left over as partial tiles, and the checkpoint last, so that whoever sees it finds all it covers.
    ///
    /// @param note a checkpoint of exactly the leaves that were added
    public void finish(SignedNote note) throws IOException {
        for (int number = 0; number < levels.size(); number++) {
            List<Digest> level = levels.get(number);
            if (!level.isEmpty()) {
                write(Integer.toString(number), fullTiles.get(number), level.size(), bytes(level));
            }
        }
        if (bundle.size() > 0) {
            write("entries", size / WIDTH, (int) (size % WIDTH), bundle.toByteArray());
        }
        Files.createDirectories(directory);
        Files.writeString(directory.resolve("checkpoint"), note.encode(), StandardCharsets.UTF_8);
        files++;
    }

    private void write(String level, long index, int width, byte[] bytes) throws IOException {
        Path file = directory.resolve("tile/%s/%s%s".formatted(level, path(index), width == WIDTH ? "" : ".p/" + width));
        Files.createDirectories(file.resolveSibling(""));
        Files.write(file, bytes);
        files++;
    }

    /// `067`, `x001/067`, `x001/x234/067`: groups of three digits, all but the last marked.
    static String path(long index) {
        StringBuilder path = new StringBuilder("%03d".formatted(index % 1000));
        for (long rest = index / 1000; rest > 0; rest /= 1000) {
            path.insert(0, "x%03d/".formatted(rest % 1000));
        }
        return path.toString();
    }
}

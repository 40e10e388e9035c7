package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TileWriterTest {
    private static final Digest FINGERPRINT = Digest.sha256("a schema");

    @TempDir
    private Path directory;

    private static byte[] value(int index) {
        return ByteBuffer.allocate(9).put((byte) 0).putInt(11).putInt(index).array();
    }

    private MerkleFrontier write(int size) throws IOException {
        TileWriter writer = new TileWriter(directory);
        MerkleFrontier tree = MerkleFrontier.EMPTY;
        for (int i = 0; i < size; i++) {
            writer.add(FINGERPRINT, value(i));
            tree = tree.append(Leaf.hashOfWire(FINGERPRINT, value(i)));
        }
        writer.finish(new Checkpoint("example.com/c/audit/0/0", size, tree.root()).sign(TestLog.KEY));
        return tree;
    }

    private List<Digest> tile(String path) throws IOException {
        byte[] bytes = Files.readAllBytes(directory.resolve("tile").resolve(path));
        return MerkleFrontier.read(bytes, 0, bytes.length / Digest.BYTES);
    }

    /// A client that knows the layout alone comes to the root of the checkpoint from the tiles, and to the hashes from the
    /// entries: 66,000 leaves have a full tile of the second level and a partial one of the third.
    @Test
    void aReaderOfTilesComesToTheRoot() throws IOException {
        int size = 66_000;
        MerkleFrontier tree = write(size);
        List<Digest> hashes = new ArrayList<>();
        for (int n = 0; n < size / 256; n++) {
            hashes.addAll(tile("0/" + TileWriter.path(n)));
        }
        hashes.addAll(tile("0/%s.p/%d".formatted(TileWriter.path(size / 256), size % 256)));
        assertThat(MerkleFrontier.over(hashes)).isEqualTo(tree);
        List<Digest> second = new ArrayList<>(tile("1/000"));
        second.addAll(tile("1/001.p/1"));
        assertThat(second).hasSize(257);
        for (int n : new int[] {0, 100, 256}) {
            assertThat(second.get(n)).isEqualTo(MerkleFrontier.root(hashes, n * 256, n * 256 + 256));
        }
        assertThat(tile("2/000.p/1")).containsExactly(MerkleFrontier.root(hashes, 0, 65_536));
        ByteBuffer bundle = ByteBuffer.wrap(Files.readAllBytes(directory.resolve("tile/entries/257.p/208")));
        for (int i = 257 * 256; i < size; i++) {
            byte[] entry = new byte[bundle.getShort() & 0xFFFF];
            bundle.get(entry);
            assertThat(Digest.sha256(new byte[] {0}, entry)).isEqualTo(hashes.get(i));
        }
        assertThat(bundle.hasRemaining()).isFalse();
        SignedNote note = SignedNote.parse(Files.readString(directory.resolve("checkpoint")));
        assertThat(Checkpoint.parse(note.text()).root()).isEqualTo(tree.root());
    }

    @Test
    void writesNothingPartialWhereTilesAreFull() throws IOException {
        write(512);
        try (Stream<Path> files = Files.walk(directory)) {
            assertThat(files.filter(Files::isRegularFile).map(file -> directory.relativize(file).toString()))
                    .containsExactlyInAnyOrder("checkpoint", "tile/0/000", "tile/0/001", "tile/1/000.p/2", "tile/entries/000", "tile/entries/001");
        }
    }

    @Test
    void namesTilesInGroupsOfThreeDigits() {
        assertThat(TileWriter.path(0)).isEqualTo("000");
        assertThat(TileWriter.path(67)).isEqualTo("067");
        assertThat(TileWriter.path(1_000)).isEqualTo("x001/000");
        assertThat(TileWriter.path(1_234_067)).isEqualTo("x001/x234/067");
    }

    @Test
    void refusesAnEntryThatNoBundleCanHold() {
        TileWriter writer = new TileWriter(directory);
        assertThatThrownBy(() -> writer.add(FINGERPRINT, new byte[70_000]))
                .hasMessage("leaf 0: expected an entry of at most 65535 bytes, got 70048")
                .extracting("code").isEqualTo("EXPORT_ENTRY");
    }
}

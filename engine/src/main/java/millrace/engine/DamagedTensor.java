package millrace.engine;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.zip.CRC32C;
import millrace.engine.weights.TensorManifest;

/// A tensor whose stored bytes are not those that `integrity/tensors.json` lists.
///
/// @param file that holds it, relative to the model's directory
/// @param begin first byte of the tensor in the file
/// @param end byte after the last
/// @param blocks numbers of the MiB of the tensor that differ; ascending, at least one
/// @param blockCount MiB of the tensor, the last may have fewer bytes
public record DamagedTensor(String name, String file, long begin, long end, List<Integer> blocks, int blockCount) {
    /// Bytes of a block.
    public static final int BLOCK_BYTES = 1 << 20;

    public DamagedTensor {
        blocks = List.copyOf(blocks);
    }

    /// The first byte of the file that is in a block that differs.
    public long firstByte() {
        return begin + (long) BLOCK_BYTES * blocks.getFirst();
    }

    /// Looks at all tensors of some files. Finds nothing where a model has no list; whether the list itself can be believed
    /// its signature says.
    ///
    /// @param model the model's directory
    /// @param files relative to it, with `/`
    /// @throws InvalidModelException `BT_FORMAT`
    public static List<DamagedTensor> of(Path model, Collection<String> files) throws IOException {
        Path list = model.resolve(TensorManifest.PATH);
        if (!Files.exists(list)) {
            return List.of();
        }
        TensorManifest manifest = TensorManifest.parse(Files.readAllBytes(list));
        List<DamagedTensor> damaged = new ArrayList<>();
        for (String file : files) {
            List<TensorManifest.Entry> entries = manifest.tensors().stream()
                    .filter(entry -> entry.file().equals(file)).toList();
            if (entries.isEmpty()) {
                continue;
            }
            try (FileChannel channel = FileChannel.open(model.resolve(file), StandardOpenOption.READ)) {
                for (TensorManifest.Entry entry : entries) {
                    List<Integer> blocks = differing(channel, entry);
                    if (!blocks.isEmpty()) {
                        damaged.add(new DamagedTensor(
                                entry.name(), file, entry.begin(), entry.end(), blocks, entry.blocks().length));
                    }
                }
            }
        }
        return damaged;
    }

    private static List<Integer> differing(FileChannel channel, TensorManifest.Entry entry) throws IOException {
        int[] sums = entry.blocks();
        List<Integer> differing = new ArrayList<>();
        ByteBuffer buffer = ByteBuffer.allocate(BLOCK_BYTES);
        for (int block = 0; block < sums.length; block++) {
            long at = entry.begin() + (long) BLOCK_BYTES * block;
            buffer.clear().limit((int) Math.min(BLOCK_BYTES, entry.end() - at));
            while (buffer.hasRemaining() && channel.read(buffer, at + buffer.position()) >= 0) {}
            boolean whole = !buffer.hasRemaining();
            CRC32C crc = new CRC32C();
            crc.update(buffer.flip());
            if (!whole || (int) crc.getValue() != sums[block]) {
                differing.add(block);
            }
        }
        return differing;
    }
}

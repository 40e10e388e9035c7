package millrace.engine.weights;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.ToLongFunction;
import millrace.engine.kernel.DType;

/// Writes safetensors files and their index: how a model is cut, named and declared.
public final class ShardWriter {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int ALIGNMENT = 64;
    private static final int PIECE = 1 << 26;

    private ShardWriter() {}

    /// Cuts a model into files: a new one is begun rather than exceed so many bytes; one tensor may.
    public static <T> List<List<T>> shards(List<T> tensors, ToLongFunction<T> bytesOf, long maxBytes) {
        List<List<T>> shards = new ArrayList<>();
        long bytes = 0;
        for (T tensor : tensors) {
            if (shards.isEmpty() || bytes + bytesOf.applyAsLong(tensor) > maxBytes) {
                shards.add(new ArrayList<>());
                bytes = 0;
            }
            shards.getLast().add(tensor);
            bytes += bytesOf.applyAsLong(tensor);
        }
        return shards;
    }

    /// Name of the i-th of so many files.
    public static String name(int i, int files) {
        return files == 1 ? ModelFiles.WEIGHTS : String.format("model-%05d-of-%05d.safetensors", i + 1, files);
    }

    /// What a header says of a tensor.
    record Declared(String name, DType dtype, long[] shape, long bytes) {}

    /// The start of a file, up to the data of its tensors, which begins at a multiple of 64 bytes.
    static ByteBuffer header(List<Declared> tensors) throws IOException {
        ObjectNode header = JSON.createObjectNode();
        long offset = 0;
        for (Declared tensor : tensors) {
            ObjectNode entry = header.putObject(tensor.name()).put("dtype", tensor.dtype().name());
            var shape = entry.putArray("shape");
            for (long dimension : tensor.shape()) {
                shape.add(dimension);
            }
            entry.putArray("data_offsets").add(offset).add(offset += tensor.bytes());
        }
        byte[] json = JSON.writeValueAsBytes(header);
        int padded = (json.length + Long.BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - Long.BYTES;
        ByteBuffer start = ByteBuffer.allocate(Long.BYTES + padded).order(ByteOrder.LITTLE_ENDIAN);
        start.putLong(padded).put(json);
        while (start.hasRemaining()) {
            start.put((byte) ' ');
        }
        return start.flip();
    }

    /// Writes tensors in the order of the list, and waits for the disk.
    public static void write(Path file, List<StoredTensor> tensors) throws IOException {
        ByteBuffer start = header(tensors.stream()
                .map(t -> new Declared(t.name(), t.dtype(), t.shape(), t.data().byteSize()))
                .toList());
        try (FileChannel channel = FileChannel.open(
                file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            writeAll(channel, start);
            for (StoredTensor tensor : tensors) {
                writeAll(channel, tensor.data());
            }
            channel.force(true);
        }
    }

    private static void writeAll(FileChannel channel, MemorySegment data) throws IOException {
        for (long at = 0; at < data.byteSize(); at += PIECE) {
            writeAll(channel, data.asSlice(at, Math.min(PIECE, data.byteSize() - at)).asByteBuffer());
        }
    }

    private static void writeAll(FileChannel channel, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
    }

    /// The index of several files.
    ///
    /// @param files tensor name to file name
    /// @param bytes of all tensors
    public static byte[] index(Map<String, String> files, long bytes) throws IOException {
        ObjectNode index = JSON.createObjectNode();
        index.putObject("metadata").put("total_size", bytes);
        ObjectNode map = index.putObject("weight_map");
        files.forEach(map::put);
        return JSON.writerWithDefaultPrettyPrinter().writeValueAsBytes(index);
    }

    /// A tensor of bytes.
    public static StoredTensor octets(String name, MemorySegment data) {
        return new StoredTensor(name, DType.U8, new long[] {data.byteSize()}, data);
    }

    /// The tensors of one file, mapped into the arena.
    ///
    /// @throws millrace.engine.InvalidModelException `ST_*`
    public static Collection<StoredTensor> read(Path file, Arena arena) {
        return SafetensorsFile.open(file, String.valueOf(file.getFileName()), arena).tensors();
    }
}

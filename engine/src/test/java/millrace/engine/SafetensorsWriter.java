package millrace.engine;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/// Writes safetensors files, sound ones from tensors and broken ones from raw parts.
public final class SafetensorsWriter {
    /// A tensor with its bytes, little-endian.
    public record Tensor(String name, String dtype, long[] shape, byte[] data) {}

    private SafetensorsWriter() {}

    /// A sound file; data follows the order of the list, and the header is not padded, so data may lie unaligned.
    public static void write(Path file, List<Tensor> tensors) throws IOException {
        var header = new StringBuilder("{");
        long offset = 0;
        for (Tensor tensor : tensors) {
            long end = offset + tensor.data().length;
            header.append(header.length() > 1 ? "," : "")
                    .append(entry(tensor.name(), tensor.dtype(), tensor.shape(), offset, end));
            offset = end;
        }
        byte[] json = header.append('}').toString().getBytes(StandardCharsets.UTF_8);
        try (OutputStream out = Files.newOutputStream(file)) {
            out.write(length(json.length));
            out.write(json);
            for (Tensor tensor : tensors) {
                out.write(tensor.data());
            }
        }
    }

    /// One `"name":{…}` of a header.
    public static String entry(String name, String dtype, long[] shape, long begin, long end) {
        String dimensions = Arrays.stream(shape).mapToObj(String::valueOf).collect(Collectors.joining(","));
        return "\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}"
                .formatted(name, dtype, dimensions, begin, end);
    }

    /// The bytes of a file with that header, whatever it says, and that much zero data.
    public static byte[] bytes(String header, int dataBytes) {
        return bytes(header.getBytes(StandardCharsets.UTF_8), dataBytes);
    }

    public static byte[] bytes(byte[] header, int dataBytes) {
        var out = new ByteArrayOutputStream();
        out.writeBytes(length(header.length));
        out.writeBytes(header);
        out.writeBytes(new byte[dataBytes]);
        return out.toByteArray();
    }

    /// The first eight bytes of a file.
    public static byte[] length(long headerLength) {
        return ByteBuffer.allocate(8)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(headerLength)
                .array();
    }
}

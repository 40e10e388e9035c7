package millrace.engine.weights;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import millrace.engine.InvalidModelException;
import millrace.engine.ModelCard;

/// One safetensors file, mapped read-only, its header checked against its real length.
///
/// ```
///   0        8              8 + n                       end of file
///   │ n: u64 │ JSON header  │ data: tensors, no gaps    │
/// ```
final class SafetensorsFile {
    private static final ValueLayout.OfLong U64 =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final int PREFIX = 8;
    private static final long MAX_HEADER = 100_000_000;

    private final String name;
    private final MemorySegment mapped;
    private final List<StoredTensor> tensors;

    private SafetensorsFile(String name, MemorySegment mapped, List<StoredTensor> tensors) {
        this.name = name;
        this.mapped = mapped;
        this.tensors = tensors;
    }

    /// Maps and checks a file.
    ///
    /// @param name of the file, for messages
    /// @param arena owner of the mapping
    /// @throws InvalidModelException `ST_*`, or `MODEL_FORMAT` for a file of another format
    static SafetensorsFile open(Path path, String name, Arena arena) {
        if (isPickleName(name)) {
            throw foreign(name, "a pickle, which can run code when it is opened");
        }
        MemorySegment mapped;
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            // The channel may be closed: the mapping lives as long as the arena.
            mapped = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
        } catch (IOException e) {
            throw ModelFiles.unreadable(name, e);
        }
        long headerLength = headerLength(mapped, name);
        MemorySegment data = mapped.asSlice(PREFIX + headerLength);
        List<SafetensorsHeader.Entry> entries =
                SafetensorsHeader.parse(mapped.asSlice(PREFIX, headerLength), data.byteSize(), name);
        var tensors = new ArrayList<StoredTensor>(entries.size());
        for (SafetensorsHeader.Entry e : entries) {
            tensors.add(new StoredTensor(
                    e.name(), e.dtype(), e.shape(), data.asSlice(e.begin(), e.end() - e.begin())));
        }
        return new SafetensorsFile(name, mapped, Collections.unmodifiableList(tensors));
    }

    private static long headerLength(MemorySegment mapped, String name) {
        long size = mapped.byteSize();
        refuseForeign(mapped, name);
        if (size < PREFIX) {
            throw new InvalidModelException(
                    "ST_TOO_SHORT",
                    name + ": expected at least 8 bytes of header length, got a file of " + size
                            + " bytes; complete the download");
        }
        long length = mapped.get(U64, 0);
        if (length < 0 || length < 2 || length > size - PREFIX) {
            // Above the format's own bound the number is the news, whatever the file's length is.
            throw length > MAX_HEADER && length <= size - PREFIX ? tooLarge(length, name) : new InvalidModelException(
                    "ST_HEADER_LEN",
                    name + ": expected a header of 2 to " + Math.max(0, size - PREFIX) + " bytes, got "
                            + Long.toUnsignedString(length) + "; restore the file");
        }
        if (length > MAX_HEADER) {
            throw tooLarge(length, name);
        }
        return length;
    }

    private static InvalidModelException tooLarge(long length, String name) {
        return new InvalidModelException(
                "ST_HEADER_TOO_LARGE",
                name + ": expected a header of at most " + MAX_HEADER + " bytes, got " + length
                        + "; do not use this file");
    }

    private static void refuseForeign(MemorySegment mapped, String name) {
        if (mapped.byteSize() < PREFIX) {
            return;
        }
        int magic = (int) mapped.get(U64, 0);
        // A safetensors header of that very length would begin with a brace here.
        boolean brace = mapped.byteSize() > PREFIX && mapped.get(ValueLayout.JAVA_BYTE, PREFIX) == '{';
        if (magic == 0x46554747) {
            throw foreign(name, "a GGUF file");
        }
        if (magic == 0x04034b50 && !brace) {
            throw foreign(name, "a zip archive, as PyTorch's pickles are");
        }
        int protocol = magic >>> 8 & 0xff;
        if ((magic & 0xff) == 0x80 && protocol >= 2 && protocol <= 5 && !brace) {
            throw foreign(name, "a pickle, which can run code when it is opened");
        }
    }

    private static InvalidModelException foreign(String name, String what) {
        return new InvalidModelException(
                "MODEL_FORMAT",
                name + ": expected a safetensors file, got " + what + "; convert the checkpoint to safetensors");
    }

    /// Whether the name is one of those that PyTorch's pickles have.
    static boolean isPickleName(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        return lower.endsWith(".bin") || lower.endsWith(".pt") || lower.endsWith(".pth") || lower.endsWith(".pkl")
                || lower.endsWith(".ckpt");
    }

    /// In the order of the header.
    Collection<StoredTensor> tensors() {
        return tensors;
    }

    /// Whether this very view is one of its tensors.
    boolean holds(StoredTensor tensor) {
        return tensors.stream().anyMatch(own -> own == tensor);
    }

    /// SHA-256 over the mapped bytes.
    ModelCard.FileDigest digest() {
        try {
            return new ModelCard.FileDigest(name, mapped.byteSize(), Sha256.hex(mapped));
        } catch (InternalError e) {
            // What the JVM makes of a page that is gone: the file was cut, or the disk failed.
            throw new InvalidModelException(
                    "MODEL_FILE_CHANGED",
                    name + ": expected " + mapped.byteSize() + " readable bytes, got a fault while reading them;"
                            + " do not write to a model directory in use, check the disk",
                    e);
        }
    }
}

package millrace.engine.weights;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import millrace.engine.InvalidModelException;
import millrace.engine.ModelCard;
import millrace.engine.kernel.DType;
import org.jspecify.annotations.Nullable;

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
    /// Length and header as they were parsed: a copy, since others might write to the file meanwhile.
    private final MemorySegment head;
    private final List<StoredTensor> tensors;
    /// Checksums of the tensors' blocks, of the same reading that the digest is of; empty before it.
    private volatile Map<String, int[]> sums = Map.of();

    private SafetensorsFile(String name, MemorySegment mapped, MemorySegment head, List<StoredTensor> tensors) {
        this.name = name;
        this.mapped = mapped;
        this.head = head;
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
        MemorySegment head = arena.allocate(PREFIX + headerLength, PREFIX).copyFrom(mapped.asSlice(0, PREFIX + headerLength));
        head.set(U64, 0, headerLength);
        MemorySegment data = mapped.asSlice(PREFIX + headerLength);
        List<SafetensorsHeader.Entry> entries =
                SafetensorsHeader.parse(head.asSlice(PREFIX), data.byteSize(), name);
        var tensors = new ArrayList<StoredTensor>(entries.size());
        for (SafetensorsHeader.Entry e : entries) {
            tensors.add(new StoredTensor(
                    e.name(), e.dtype(), e.shape(), data.asSlice(e.begin(), e.end() - e.begin())));
        }
        return new SafetensorsFile(name, mapped, head, Collections.unmodifiableList(tensors));
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

    /// SHA-256 over the mapped bytes, which are what is computed with; takes down the checksums of their blocks on the way.
    ModelCard.FileDigest digest() {
        return whileReading(() -> {
            MessageDigest digest = Sha256.digest();
            Sha256.feed(digest, head);
            Map<String, int[]> all = new HashMap<>();
            byte[] piece = new byte[BlockSums.PIECE];
            for (StoredTensor tensor : byPlace()) {
                all.put(tensor.name(), BlockSums.of(tensor.data(), digest, piece));
            }
            sums = all;
            return new ModelCard.FileDigest(name, mapped.byteSize(), HexFormat.of().formatHex(digest.digest()));
        });
    }

    /// Tensors tile the data, in whatever order the header has them.
    private List<StoredTensor> byPlace() {
        return tensors.stream().sorted(Comparator.comparingLong((StoredTensor t) -> t.data().address())
                .thenComparingLong(t -> t.data().byteSize())).toList();
    }

    /// Of bytes `from` to `to`, the end excluded.
    String sha256(long from, long to) {
        return whileReading(() -> {
            MessageDigest digest = Sha256.digest();
            long middle = Math.min(to, Math.max(from, head.byteSize()));
            if (from < middle) {
                Sha256.feed(digest, head.asSlice(from, middle - from));
            }
            Sha256.feed(digest, mapped.asSlice(middle, to - middle));
            return HexFormat.of().formatHex(digest.digest());
        });
    }

    long size() {
        return mapped.byteSize();
    }

    /// What a manifest says of a tensor of this file, which has been hashed.
    TensorManifest.Entry entry(StoredTensor tensor, TensorManifest.@Nullable Decoded decoded) {
        int[] blocks = Objects.requireNonNull(sums.get(tensor.name()), tensor.name());
        long begin = tensor.data().address() - mapped.address();
        return new TensorManifest.Entry(tensor.name(), tensor.dtype(), tensor.shape(), name, begin,
                begin + tensor.data().byteSize(), whileReading(() -> Sha256.hex(tensor.data())), blocks, decoded);
    }

    /// Refuses a manifest of other tensors, and tensors with other bytes than the manifest says.
    ///
    /// @throws InvalidModelException `BT_FOREIGN`, `MODEL_TENSOR_MISMATCH`
    void requireListed(TensorManifest manifest) {
        Map<String, int[]> now = sums;
        for (StoredTensor tensor : tensors) {
            TensorManifest.Entry entry = manifest.tensor(tensor.name());
            long begin = tensor.data().address() - mapped.address();
            String here = place(tensor.dtype(), tensor.shape(), name, begin, begin + tensor.data().byteSize());
            String there = entry == null
                    ? "no such tensor"
                    : place(entry.dtype(), entry.shape(), entry.file(), entry.begin(), entry.end());
            if (entry == null || !here.equals(there)) {
                throw foreign(tensor.name(), here, there);
            }
            int[] got = now.get(tensor.name());
            int[] expected = entry.blocks();
            int block = got == null ? -1 : Arrays.mismatch(expected, got);
            if (got != null && block >= 0) {
                throw new InvalidModelException("MODEL_TENSOR_MISMATCH",
                        where(tensor, block) + ": expected the checksum %08x by %s, got %08x; fetch the file again"
                                .formatted(expected[block], TensorManifest.PATH, got[block]));
            }
        }
    }

    static InvalidModelException foreign(String tensor, String here, String there) {
        return new InvalidModelException("BT_FOREIGN",
                TensorManifest.PATH + ": " + Text.quote(tensor) + ": expected " + here + " as the weights have it, got " + there
                        + "; it is of another model: sign this one anew, or remove the file");
    }

    private static String place(DType dtype, long[] shape, String file, long begin, long end) {
        return "%s %s in bytes %d to %d of %s".formatted(dtype, Arrays.toString(shape), begin, end, file);
    }

    private String where(StoredTensor tensor, int block) {
        long begin = tensor.data().address() - mapped.address() + (long) block * BlockSums.BLOCK;
        return "%s: %s, bytes %d to %d".formatted(name, tensor.name(), begin,
                begin + Math.min(BlockSums.BLOCK, tensor.data().byteSize() - (long) block * BlockSums.BLOCK));
    }

    /// Blocks whose checksums are known.
    int blocks(StoredTensor tensor) {
        int[] known = sums.get(tensor.name());
        return known == null ? 0 : known.length;
    }

    /// Refuses a block that has changed since it was hashed.
    ///
    /// @throws InvalidModelException `MODEL_FILE_CHANGED`
    void requireUnchanged(StoredTensor tensor, int block) {
        int[] known = sums.get(tensor.name());
        int got = whileReading(() -> BlockSums.of(tensor.data(), block));
        if (known != null && known[block] != got) {
            throw new InvalidModelException("MODEL_FILE_CHANGED",
                    where(tensor, block) + ": expected the checksum %08x as at the start, got %08x; do not write to a model"
                            .formatted(known[block], got) + " directory in use, start again");
        }
    }

    private <T> T whileReading(Supplier<T> reading) {
        try {
            return reading.get();
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

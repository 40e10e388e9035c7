package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32C;
import millrace.engine.InvalidModelException;
import millrace.engine.format.Bf16Panel;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.PackedPanel;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.weights.StoredTensor;

/// A matrix in a file: the bytes of one U8 tensor, little-endian.
///
/// ```
///   0   4  "MRW1"
///   4   1  format: 1 f32, 2 bf16, 3 packed, 4 int8, 5 int4, 6 fp8
///   5   3  zero
///   8   4  rows
///  12   4  cols
///  16   4  exponent tables: in packed 1 or one for each panel; else 0
///  20   4  chunks n: ⌈payload / 65,536⌉
///  24   8  payload, bytes
///  32  4 n CRC32C of each chunk of 65,536 payload bytes, the last may be shorter
///       4  CRC32C of everything above
///          payload
/// ```
///
/// A checksum runs over the tensor's name in UTF-8, the chunk's number as a word, −1 for the header, and the bytes: what
/// belongs to another tensor or another place is as wrong as what is damaged.
///
/// The payload is the panels as they stay in memory, one after another; in packed it is, without any padding:
/// the tables, 16 exponents each; for each panel a word, its number of escapes, or `0x80000000` for a BF16 panel; for
/// each packed panel its flags, `⌈blocks / 8⌉` bytes, bit `b mod 8` of byte `b / 8` for block `b`; then for each panel
/// its blocks and its escapes, or its BF16 panel.
///
/// @param tables see above
/// @param header bytes before the payload
public record Blob(WeightFormat format, int rows, int cols, int tables, long payload, long header) {
    private static final int MAGIC = 'M' | 'R' << 8 | 'W' << 16 | '1' << 24;
    private static final int FIXED = 32;
    private static final int CHUNK = 1 << 16;
    private static final int RAW = 1 << 31;
    private static final int ENTRIES = 16;
    private static final int SCALES = 64;
    private static final long LOW_BITS = 0x7F7F_7F7F_7F7F_7F7FL;
    private static final long ONES = 0x0101_0101_0101_0101L;
    private static final WeightFormat[] CODES = WeightFormat.values();

    static InvalidModelException refused(String name, String what) {
        return refused("BLOCK_FORMAT", name, what);
    }

    private static InvalidModelException refused(String code, String name, String what) {
        return new InvalidModelException(
                code, "weights: " + name + ": " + what + "; pack the checkpoint again");
    }

    // --------------------------------------------------------------------------------------------------- reading

    /// Reads and checks the header.
    ///
    /// @throws InvalidModelException `BLOCK_FORMAT`, `BLOCK_CRC`, `W_SCALE`
    public static Blob of(StoredTensor tensor) {
        String name = tensor.name();
        MemorySegment data = tensor.data();
        if (data.byteSize() < FIXED + 4 || Words.word(data, 0) != MAGIC) {
            throw refused(name, "expected a packed tensor that begins with MRW1, got " + data.byteSize() + " other bytes");
        }
        long chunks = Words.word(data, 20) & 0xFFFF_FFFFL;
        long header = FIXED + 4 * chunks + 4;
        if (header > data.byteSize()) {
            throw refused(name, "header: expected at least " + header + " bytes, got " + data.byteSize());
        }
        int sum = crc(name, -1, data, 0, header - 4);
        if (sum != Words.word(data, header - 4)) {
            throw refused("BLOCK_CRC", name, "header: expected the checksum %08x of this tensor, got %08x"
                    .formatted(Words.word(data, header - 4), sum));
        }
        int code = Words.octet(data, 4);
        int zeros = Words.word(data, 4) >>> 8;
        int rows = Words.word(data, 8);
        int cols = Words.word(data, 12);
        long payload = Words.twice(data, 24);
        if (code < 1 || code > CODES.length || zeros != 0) {
            throw refused(name, "format: expected 1 to " + CODES.length + " and zeros, got " + code + " and " + zeros);
        }
        if (rows < 1 || cols < 1 || payload < 0 || chunks != (payload + CHUNK - 1) / CHUNK) {
            throw refused(name, "header: expected rows, columns and chunks that agree, got %d, %d and %d for %d bytes"
                    .formatted(rows, cols, chunks, payload));
        }
        if (header + payload != data.byteSize()) {
            throw refused(name, "expected " + (header + payload) + " bytes by its header, got " + data.byteSize());
        }
        Blob blob = new Blob(CODES[code - 1], rows, cols, Words.word(data, 16), payload, header);
        blob.checkSizes(name);
        return blob;
    }

    private void checkSizes(String name) {
        int panels = WeightFormat.panels(rows);
        if (format != WeightFormat.PACKED) {
            long bytes = Math.multiplyExact(panels, format.panelBytes(cols));
            if (tables != 0 || payload != bytes) {
                throw refused(name, "expected no tables and %d bytes for %d × %d in %s, got %d and %d"
                        .formatted(bytes, rows, cols, format.id(), tables, payload));
            }
        } else if (tables != 1 && tables != panels || payload < 4L * panels + (long) ENTRIES * tables) {
            throw refused(name, "expected 1 or %d tables and their panels, got %d in %d bytes"
                    .formatted(panels, tables, payload));
        }
    }

    /// Checks every chunk and unpacks, by the kernels' threads.
    ///
    /// @throws InvalidModelException `BLOCK_FORMAT`, `BLOCK_CRC`, `W_SCALE`
    public Matrix read(StoredTensor tensor, Kernels kernels, Arena arena) {
        kernels.forEach(chunks(), chunk -> checkChunk(tensor, chunk));
        MemorySegment body = tensor.data().asSlice(header);
        return format == WeightFormat.PACKED
                ? unpack(tensor.name(), body, kernels, arena)
                : copy(tensor.name(), body, kernels, arena);
    }

    /// Checks every chunk.
    void checkChunks(StoredTensor tensor) {
        for (int chunk = 0; chunk < chunks(); chunk++) {
            checkChunk(tensor, chunk);
        }
    }

    private int chunks() {
        return (int) ((payload + CHUNK - 1) / CHUNK);
    }

    private void checkChunk(StoredTensor tensor, int chunk) {
        long from = (long) chunk * CHUNK;
        long to = Math.min(payload, from + CHUNK);
        int sum = crc(tensor.name(), chunk, tensor.data(), header + from, to - from);
        int expected = Words.word(tensor.data(), FIXED + 4L * chunk);
        if (sum != expected) {
            throw refused("BLOCK_CRC", tensor.name(), "bytes %d to %d: expected the checksum %08x of this place, got %08x"
                    .formatted(from, to, expected, sum));
        }
    }

    /// Counts what its panels say.
    public LinearTensor.Escapes escapes(StoredTensor tensor) {
        long weights = 0;
        long raw = 0;
        for (int p = 0; format == WeightFormat.PACKED && p < WeightFormat.panels(rows); p++) {
            int count = Words.word(tensor.data(), header + (long) ENTRIES * tables + 4L * p);
            weights += count == RAW ? 0 : count;
            raw += count == RAW ? 1 : 0;
        }
        return new LinearTensor.Escapes(weights, raw);
    }

    private Matrix copy(String name, MemorySegment body, Kernels kernels, Arena arena) {
        Matrix matrix = Matrix.allocate(arena, format, rows, cols);
        kernels.forEach(matrix.panels(), panel -> {
            long at = matrix.panelOffset(panel);
            MemorySegment.copy(body, at, matrix.data(), at, matrix.panelBytes(panel));
            checkGroups(name, matrix, panel);
        });
        return matrix;
    }

    /// Kernels multiply with any scale and code: these are numbers.
    private static void checkGroups(String name, Matrix matrix, int panel) {
        WeightFormat format = matrix.format();
        MemorySegment data = matrix.data();
        long at = matrix.panelOffset(panel);
        for (int g = 0; g < format.groups(matrix.cols()); g++) {
            for (int lane = 0; lane < WeightFormat.PANEL_ROWS; lane++) {
                float scale = Panels.scale(format, data, at, lane, g);
                if (!Float.isFinite(scale)) {
                    throw refused("W_SCALE", name, "row %d, group %d: expected a finite scale, got %s"
                            .formatted(panel * WeightFormat.PANEL_ROWS + lane, g, scale));
                }
            }
        }
        long end = at + matrix.panelBytes(panel);
        for (long block = at; format == WeightFormat.FP8 && block < end; block += Fp8Panel.BLOCK_BYTES) {
            for (long i = block + SCALES; i < block + Fp8Panel.BLOCK_BYTES; i += Long.BYTES) {
                // A byte's upper bit is set where its lower seven bits are all ones, as both codes of NaN have them.
                if (((Words.twice(data, i) & LOW_BITS) + ONES & ~LOW_BITS) != 0) {
                    throw refused(name, "panel %d: expected numbers, got an FP8 NaN near byte %d".formatted(panel, i - at));
                }
            }
        }
    }

    private Matrix unpack(String name, MemorySegment body, Kernels kernels, Arena arena) {
        int panels = WeightFormat.panels(rows);
        long counts = (long) ENTRIES * tables;
        boolean[] raw = new boolean[panels];
        long[] offsets = new long[panels + 1];
        long[] flagsAt = new long[panels];
        long[] bytesAt = new long[panels];
        long flags = counts + 4L * panels;
        for (int p = 0; p < panels; p++) {
            int count = Words.word(body, counts + 4L * p);
            raw[p] = count == RAW;
            if (!raw[p] && (count < 0 || count > WeightFormat.PANEL_ROWS * (long) cols)) {
                throw refused(name, "panel " + p + ": expected a number of escapes, got " + count);
            }
            flagsAt[p] = flags;
            flags += raw[p] ? 0 : flagBytes();
            offsets[p + 1] = offsets[p] + (raw[p] ? Bf16Panel.bytes(cols) : PackedPanel.bytes(cols, count));
        }
        long at = flags;
        for (int p = 0; p < panels; p++) {
            bytesAt[p] = at;
            at += raw[p] ? Bf16Panel.bytes(cols) : blockBytes() + Words.word(body, counts + 4L * p);
        }
        if (at != payload) {
            throw refused(name, "expected " + at + " bytes of panels, got " + payload);
        }
        MemorySegment data = Memory.allocateDense(arena, offsets[panels], "the weights");
        kernels.forEach(panels, p -> {
            if (raw[p]) {
                MemorySegment.copy(body, bytesAt[p], data, offsets[p], Bf16Panel.bytes(cols));
                return;
            }
            long table = (long) ENTRIES * (tables == 1 ? 0 : p);
            for (int i = 0; i < ENTRIES; i++) {
                Words.word(data, offsets[p] + 4 * i, (Words.octet(body, table + i) & 0xFF) << 23);
            }
            MemorySegment.copy(body, flagsAt[p], data, offsets[p] + 64, flagBytes());
            long tail = blockBytes() + Words.word(body, counts + 4L * p);
            MemorySegment.copy(body, bytesAt[p], data, offsets[p] + PackedPanel.blocksAt(cols), tail);
            String problem = PackedPanel.problem(data, offsets[p], offsets[p + 1] - offsets[p], cols);
            if (problem != null) {
                throw refused(name, "panel " + p + ": " + problem);
            }
            int count = Words.word(body, counts + 4L * p);
            long escapes = PackedPanel.escapes(data, offsets[p], cols);
            if (escapes != count) {
                throw refused(name, "panel %d: expected %d escapes by its codes, got %d".formatted(p, escapes, count));
            }
        });
        return Matrix.of(WeightFormat.PACKED, rows, cols, data, offsets, raw);
    }

    private int flagBytes() {
        return (PackedPanel.blocks(cols) + 7) / 8;
    }

    private long blockBytes() {
        return (long) PackedPanel.blocks(cols) * PackedPanel.BLOCK_BYTES;
    }

    // --------------------------------------------------------------------------------------------------- writing

    /// The bytes of a matrix, in memory of the arena.
    ///
    /// @param name of the tensor that they will be
    public static MemorySegment write(String name, Matrix matrix, Arena arena) {
        boolean packed = matrix.format() == WeightFormat.PACKED;
        int panels = matrix.panels();
        int tables = !packed ? 0 : oneTable(matrix) ? 1 : panels;
        Blob sizes = new Blob(matrix.format(), matrix.rows(), matrix.cols(), tables, 0, 0);
        long payload = packed ? sizes.packedBytes(matrix) : matrix.data().byteSize();
        long chunks = (payload + CHUNK - 1) / CHUNK;
        long header = FIXED + 4 * chunks + 4;
        MemorySegment out = Memory.allocate(arena, header + payload, "a packed tensor");
        MemorySegment body = out.asSlice(header);
        if (packed) {
            sizes.pack(matrix, body);
        } else {
            MemorySegment.copy(matrix.data(), 0, body, 0, payload);
        }
        Words.word(out, 0, MAGIC);
        Words.word(out, 4, matrix.format().ordinal() + 1);
        Words.word(out, 8, matrix.rows());
        Words.word(out, 12, matrix.cols());
        Words.word(out, 16, tables);
        Words.word(out, 20, (int) chunks);
        Words.twice(out, 24, payload);
        for (long c = 0; c < chunks; c++) {
            Words.word(out, FIXED + 4 * c, crc(name, c, body, c * CHUNK, Math.min(CHUNK, payload - c * CHUNK)));
        }
        Words.word(out, header - 4, crc(name, -1, out, 0, header - 4));
        return out;
    }

    /// Whether all packed panels have the same table.
    private static boolean oneTable(Matrix matrix) {
        MemorySegment first = null;
        for (int p = 0; p < matrix.panels(); p++) {
            if (!matrix.rawPanel(p)) {
                MemorySegment table = matrix.data().asSlice(matrix.panelOffset(p), 4 * ENTRIES);
                if (first != null && first.mismatch(table) >= 0) {
                    return false;
                }
                first = table;
            }
        }
        return true;
    }

    private static long escapes(Matrix matrix, int panel) {
        return PackedPanel.escapes(matrix.data(), matrix.panelOffset(panel), matrix.cols());
    }

    private long packedBytes(Matrix matrix) {
        long bytes = (long) ENTRIES * tables + 4L * matrix.panels();
        for (int p = 0; p < matrix.panels(); p++) {
            bytes += matrix.rawPanel(p) ? matrix.panelBytes(p) : flagBytes() + blockBytes() + escapes(matrix, p);
        }
        return bytes;
    }

    private void pack(Matrix matrix, MemorySegment body) {
        MemorySegment data = matrix.data();
        int panels = matrix.panels();
        long counts = (long) ENTRIES * tables;
        long at = counts + 4L * panels;
        for (int p = 0; p < panels; p++) {
            long from = matrix.panelOffset(p);
            Words.word(body, counts + 4L * p, matrix.rawPanel(p) ? RAW : (int) escapes(matrix, p));
            if (matrix.rawPanel(p)) {
                continue;
            }
            for (int i = 0; i < ENTRIES; i++) {
                long table = (long) ENTRIES * (tables == 1 ? 0 : p);
                Words.octet(body, table + i, (byte) (Words.word(data, from + 4 * i) >>> 23));
            }
            MemorySegment.copy(data, from + 64, body, at, flagBytes());
            at += flagBytes();
        }
        for (int p = 0; p < panels; p++) {
            long from = matrix.panelOffset(p);
            boolean raw = matrix.rawPanel(p);
            long bytes = raw ? matrix.panelBytes(p) : blockBytes() + escapes(matrix, p);
            MemorySegment.copy(data, raw ? from : from + PackedPanel.blocksAt(cols), body, at, bytes);
            at += bytes;
        }
    }

    private static int crc(String name, long number, MemorySegment data, long from, long bytes) {
        CRC32C crc = new CRC32C();
        crc.update(name.getBytes(StandardCharsets.UTF_8));
        for (int i = 0; i < Integer.BYTES; i++) {
            crc.update((int) (number >>> 8 * i & 0xFF));
        }
        crc.update(data.asSlice(from, bytes).asByteBuffer());
        return (int) crc.getValue();
    }
}

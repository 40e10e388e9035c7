package millrace.engine.kernel.vector;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.PARTS;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.Int4Panel;
import millrace.engine.format.Int8Panel;
import millrace.engine.format.PackedPanel;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.cpu.Loops;

/// Products with weights that are not stored as numbers.
///
/// One row of input meets codes in registers, see [CodeTiles]. For several rows, for blocks with escapes, and on
/// vectors of less than 16 lanes, 64 depths of the panels are decoded to F32 first, into memory that stays in the
/// first-level cache, and multiplied by [F32Tiles]. The order of a chain is the same on both ways.
///
/// One instance to a thread: it holds that memory.
final class CodedProjection {
    /// Depths that are decoded at a time.
    private static final int CHUNK = 64;
    private static final int CHUNK_BLOCKS = CHUNK / PackedPanel.BLOCK;
    private static final long AREA = 64L * CHUNK;
    /// Panels that four vectors of outputs take.
    private static final int PANELS = 4 / PARTS;
    /// Of 64 blocks, how many may have escapes before all of them are decoded by chunks.
    private static final int FEW = 12;
    private static final boolean IN_REGISTERS = L == 16;
    private static final ValueLayout.OfLong FLAGS = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(LITTLE_ENDIAN);

    private final Arena arena = Arena.ofAuto();
    /// `PANELS` areas of a chunk each, then scales of two groups for each panel.
    private final long areas = Memory.allocate(arena, 4 * AREA + 4 * 128, "the scratch of a thread").address();
    private final long scales = areas + 4 * AREA;
    private float[] parts = new float[16 * Loops.TILE];

    // The panels at hand; where there are fewer than four vectors need, the last stands for the others.
    private final int[] number = new int[4];
    private final long[] panel = new long[4];
    private final long[] list = new long[4];

    /// As [Loops#project].
    void project(Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out) {
        Arrays.fill(out, 0, Loops.tileRows(rows) * Loops.TILE, 0);
        if (parts.length < Loops.tileRows(rows) * Loops.TILE) {
            parts = new float[Loops.tileRows(rows) * Loops.TILE];
        }
        for (int first = 0; first < panels; first += PANELS) {
            boolean raw = false;
            for (int q = 0; q < 4; q++) {
                number[q] = firstPanel + Math.min(first + q, panels - 1);
                panel[q] = w.panelAddress(number[q]);
                list[q] = panel[q] + PackedPanel.escapesAt(w.cols());
                raw |= w.rawPanel(number[q]);
            }
            int o = first * Matrix.PANEL_ROWS;
            boolean inRegisters = IN_REGISTERS && rows == 1 && !raw;
            if (w.format().grouped()) {
                grouped(w, x, xOffset, xStride, rows, out, o);
            } else if (inRegisters) {
                packed(w, x, xOffset, out, o);
            } else {
                chunks(w, 0, w.cols(), x, xOffset, xStride, rows, out, o);
            }
        }
    }

    /// One row by four packed panels.
    private void packed(Matrix w, float[] x, int xOffset, float[] out, int o) {
        int cols = w.cols();
        int blocks = cols / PackedPanel.BLOCK;
        long start = PackedPanel.blocksAt(cols);
        for (int from = 0; from < blocks; from += 64) {
            int to = Math.min(blocks, from + 64);
            long flags = 0;
            for (int q = 0; q < 4; q++) {
                flags |= Memory.ALL.get(FLAGS, panel[q] + 64 + from / 8);
            }
            if (Long.bitCount(flags) > FEW) {
                chunks(w, from * PackedPanel.BLOCK, to * PackedPanel.BLOCK, x, xOffset, 0, 1, out, o);
            } else {
                runs(w, from, to, flags, start, x, xOffset, out, o);
            }
        }
        if (cols % PackedPanel.BLOCK != 0) {
            chunks(w, blocks * PackedPanel.BLOCK, cols, x, xOffset, 0, 1, out, o);
        }
    }

    private void runs(Matrix w, int from, int to, long flags, long start, float[] x, int xOffset, float[] out, int o) {
        int b = from;
        while (b < to) {
            long rest = flags >>> b - from;
            int run = Math.min(to - b, Long.numberOfTrailingZeros(rest));
            if (run > 0) {
                long at = start + (long) b * PackedPanel.BLOCK_BYTES;
                CodeTiles.packed(
                        panel[0] + at,
                        panel[1] + at,
                        panel[2] + at,
                        panel[3] + at,
                        panel[0],
                        panel[1],
                        panel[2],
                        panel[3],
                        run,
                        x,
                        xOffset + b * PackedPanel.BLOCK,
                        out,
                        o);
                b += run;
            } else {
                int k = b * PackedPanel.BLOCK;
                chunks(w, k, k + PackedPanel.BLOCK, x, xOffset, 0, 1, out, o);
                b++;
            }
        }
    }

    /// Columns `[from, to)` of plain weights, from a multiple of 8 on, with all before them done.
    private void chunks(
            Matrix w, int from, int to, float[] x, int xOffset, int xStride, int rows, float[] out, int o) {
        for (int k = from; k < to; k += CHUNK) {
            int depth = Math.min(CHUNK, to - k);
            for (int q = 0; q < PANELS && (q == 0 || number[q] != number[q - 1]); q++) {
                if (w.rawPanel(number[q])) {
                    Decoder.bf16(panel[q] + 32L * k, (depth + 1) / 2, areas + AREA * q);
                } else {
                    decode(q, w.cols(), k / PackedPanel.BLOCK, (depth + 7) / PackedPanel.BLOCK);
                }
            }
            multiply(0, depth, x, xOffset + k, xStride, rows, out, o);
        }
    }

    /// Blocks of a packed panel, at most a chunk of them.
    private void decode(int q, int cols, int block, int blocks) {
        long at = panel[q] + PackedPanel.blocksAt(cols) + (long) block * PackedPanel.BLOCK_BYTES;
        Decoder.packed(at, blocks, panel[q], areas + AREA * q);
        // A chunk may begin at any block; its flags are then in two words.
        for (int b = 0; b < blocks; b++) {
            long flags = Memory.ALL.get(FLAGS, panel[q] + 64 + (block + b) / 64 * 8);
            if ((flags >>> block + b & 1) != 0) {
                long to = areas + AREA * q + 64L * PackedPanel.BLOCK * b;
                list[q] = Decoder.escapes(at + (long) b * PackedPanel.BLOCK_BYTES, list[q], to);
            }
        }
    }

    /// All rows by decoded weights, from a depth of the areas on.
    private void multiply(int skip, int depth, float[] x, int from, int stride, int rows, float[] out, int o) {
        int tile = Loops.TILE;
        long w0 = area(0, skip);
        long w1 = area(1, skip);
        long w2 = area(2, skip);
        long w3 = area(3, skip);
        int r = 0;
        for (; r + 3 <= rows; r += 4) {
            int x0 = from + r * stride;
            // Three rows go as four: the fourth result is not looked at.
            int x3 = r + 3 < rows ? x0 + 3 * stride : x0;
            F32Tiles.four(w0, w1, w2, w3, x, x0, x0 + stride, x0 + 2 * stride, x3, depth, out, o + r * tile, tile);
        }
        if (r + 2 == rows) {
            int x0 = from + r * stride;
            F32Tiles.two(w0, w1, w2, w3, x, x0, x0 + stride, depth, out, o + r * tile, tile);
        } else if (r + 1 == rows) {
            F32Tiles.one(w0, w1, w2, w3, x, from + r * stride, depth, out, o + r * tile);
        }
    }

    /// Rows that [#multiply] writes.
    private static int written(int rows) {
        return rows % 4 == 3 ? rows + 1 : rows;
    }

    /// Where vector `s` of four begins in the decoded weights.
    private long area(int s, int skip) {
        return areas + AREA * areaOf(s) + s % PARTS * 4L * L + 64L * skip;
    }

    /// A panel that stands for the one before it was not decoded again.
    private int areaOf(int s) {
        int q = s / PARTS;
        while (q > 0 && number[q] == number[q - 1]) {
            q--;
        }
        return q;
    }

    private long scale(int s, int group) {
        return scales + 128L * areaOf(s) + 64L * group + s % PARTS * 4L * L;
    }

    private void grouped(Matrix w, float[] x, int xOffset, int xStride, int rows, float[] out, int o) {
        if (w.format() == WeightFormat.FP8) {
            for (int k = 0; k < w.cols(); k += Fp8Panel.GROUP) {
                int depth = Math.min(Fp8Panel.GROUP, w.cols() - k);
                fp8((long) (k / Fp8Panel.GROUP) * Fp8Panel.BLOCK_BYTES, depth, x, xOffset + k, xStride, rows, out, o);
            }
            return;
        }
        long blockBytes = w.format() == WeightFormat.INT8 ? Int8Panel.BLOCK_BYTES : Int4Panel.BLOCK_BYTES;
        for (int k = 0; k < w.cols(); k += CHUNK) {
            long block = k / CHUNK * blockBytes;
            for (int q = 0; q < PANELS; q++) {
                Decoder.scales(panel[q] + block, scales + 128L * q);
            }
            int depth = Math.min(CHUNK, w.cols() - k);
            if (IN_REGISTERS && rows == 1 && depth == CHUNK) {
                inRegisters(w.format(), block, x, xOffset + k, out, o);
            } else {
                block(w.format(), block, depth, x, xOffset + k, xStride, rows, out, o);
            }
        }
    }

    /// A whole block of two groups, one row.
    private void inRegisters(WeightFormat format, long block, float[] x, int x0, float[] out, int o) {
        for (int g = 0; g < 2; g++) {
            long s0 = scale(0, g);
            long s1 = scale(1, g);
            long s2 = scale(2, g);
            long s3 = scale(3, g);
            int from = x0 + 32 * g;
            if (format == WeightFormat.INT8) {
                long at = block + 64 + 512 * g;
                CodeTiles.int8(
                        panel[0] + at, panel[1] + at, panel[2] + at, panel[3] + at, s0, s1, s2, s3, 8, x, from, out, o);
            } else {
                long at = block + 64 + 256 * g;
                CodeTiles.int4(
                        panel[0] + at, panel[1] + at, panel[2] + at, panel[3] + at, s0, s1, s2, s3, 4, x, from, out, o);
            }
        }
    }

    private void block(
            WeightFormat format,
            long block,
            int depth,
            float[] x,
            int from,
            int stride,
            int rows,
            float[] out,
            int o) {
        for (int q = 0; q < PANELS; q++) {
            if (format == WeightFormat.INT8) {
                Decoder.int8(panel[q] + block + 64, (depth + 3) / 4, areas + AREA * q);
            } else {
                Decoder.int4(panel[q] + block + 64, (depth + 7) / 8, areas + AREA * q);
            }
        }
        for (int g = 0; 32 * g < depth; g++) {
            multiply(32 * g, Math.min(32, depth - 32 * g), x, from + 32 * g, stride, rows, parts, o);
            long s0 = scale(0, g);
            CodeTiles.scale(parts, s0, scale(1, g), scale(2, g), scale(3, g), written(rows), out, o, Loops.TILE);
        }
    }

    private void fp8(long block, int depth, float[] x, int from, int stride, int rows, float[] out, int o) {
        long s0 = panel[0] + block;
        long s1 = panel[1 / PARTS] + block + 1 % PARTS * 4L * L;
        long s2 = panel[2 / PARTS] + block + 2 % PARTS * 4L * L;
        long s3 = panel[3 / PARTS] + block + 3 % PARTS * 4L * L;
        if (IN_REGISTERS && rows == 1 && depth == Fp8Panel.GROUP) {
            CodeTiles.fp8(s0 + 64, s1 + 64, s2 + 64, s3 + 64, s0, s1, s2, s3, 32, x, from, out, o);
            return;
        }
        for (int k = 0; k < depth; k += CHUNK) {
            int n = Math.min(CHUNK, depth - k);
            for (int q = 0; q < PANELS; q++) {
                Decoder.fp8(panel[q] + block + 64 + 16L * k, (n + 3) / 4, areas + AREA * q);
            }
            multiply(0, n, x, from + k, stride, rows, parts, o);
        }
        CodeTiles.scale(parts, s0, s1, s2, s3, written(rows), out, o, Loops.TILE);
    }
}

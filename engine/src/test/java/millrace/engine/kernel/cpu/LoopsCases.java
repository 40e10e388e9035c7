package millrace.engine.kernel.cpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.format.Bf16Panel;
import millrace.engine.format.PackedPanel;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;

/// Every inner loop on awkward sizes: the same inputs for any implementation, so that results can be compared.
public final class LoopsCases {
    public static final int[] SIZES = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97, 128, 193, 257};

    /// What inputs are filled with.
    public enum Fill {
        /// Values around 1.
        USUAL,
        /// Zeros of both signs and denormals.
        TINY,
        /// Values whose products overflow.
        HUGE,
        /// Anything: NaN, infinities, every bit pattern.
        ANY
    }

    private final Fill fill;
    private final SplittableRandom random;
    private final Map<String, float[]> results = new LinkedHashMap<>();

    private LoopsCases(Fill fill, long seed) {
        this.fill = fill;
        random = new SplittableRandom(seed);
    }

    /// Results by case name, in a fixed order.
    public static Map<String, float[]> run(Loops loops, Fill fill, long seed) {
        var cases = new LoopsCases(fill, seed);
        try (Arena arena = Arena.ofConfined()) {
            for (int size : SIZES) {
                cases.elementwise(loops, size);
                for (WeightFormat format : WeightFormat.values()) {
                    cases.project(loops, arena, format, size);
                }
                cases.blocks(loops, arena, size);
            }
        }
        return cases.results;
    }

    /// The same, with the loops that attention is put together from.
    public static Map<String, float[]> runAll(TileLoops loops, Fill fill, long seed) {
        var cases = new LoopsCases(fill, seed);
        try (Arena arena = Arena.ofConfined()) {
            for (int size : SIZES) {
                cases.attention(loops, size);
                for (TileFormat format : TileFormat.values()) {
                    cases.decode(loops, arena, format, size);
                }
            }
        }
        Map<String, float[]> all = run(loops, fill, seed);
        all.putAll(cases.results);
        return all;
    }

    /// A hash of all bits; every NaN counts as the same.
    public static long digest(Map<String, float[]> results) {
        long hash = 1;
        for (float[] values : results.values()) {
            for (float value : values) {
                hash = hash * 0x100000001b3L + Float.floatToIntBits(value);
            }
        }
        return hash;
    }

    private void elementwise(Loops loops, int n) {
        float[] x = values(n + 5);
        float[] up = values(n + 5);
        results.put("sumOfSquares " + n, new float[] {loops.sumOfSquares(x, 3, n, new float[16])});
        float[] scores = x.clone();
        float sum = loops.softmax(scores, 2, n, 0.3f, new float[16]);
        results.put("softmax " + n, scores);
        results.put("softmax sum " + n, new float[] {sum});
        loops.swiglu(x, 1, up, 4, n);
        results.put("swiglu " + n, x);
    }

    private void project(Loops loops, Arena arena, WeightFormat format, int cols) {
        DType dtype = format == WeightFormat.BF16 || format == WeightFormat.PACKED ? DType.BF16 : DType.F32;
        int rows = 1 + random.nextInt(90);
        MemorySegment data = arena.allocate((long) rows * cols * dtype.bytes());
        for (long i = 0; i < (long) rows * cols; i++) {
            float value = format.grouped() ? finite() : value();
            int bits = Float.floatToRawIntBits(value);
            if (dtype == DType.BF16) {
                data.set(ValueLayout.JAVA_SHORT, 2 * i, (short) (bits >>> 16));
            } else {
                data.set(ValueLayout.JAVA_INT, 4 * i, bits);
            }
        }
        Matrix.Source source = Matrix.Source.rowMajor(dtype, data, rows, cols);
        Matrix w = pack(arena, source, format);
        int tokens = 1 + random.nextInt(17);
        int stride = cols + random.nextInt(5);
        // Exactly as long as needed: a read beyond the last column of the last row would fail.
        float[] x = values(2 + (tokens - 1) * stride + cols);
        for (int panel = 0; panel < w.panels(); panel += Loops.PANELS) {
            int panels = Math.min(Loops.PANELS, w.panels() - panel);
            float[] tile = new float[Loops.tileRows(tokens) * Loops.TILE];
            loops.project(w, panel, panels, x, 2, stride, tokens, tile);
            results.put("project " + format + " " + rows + "x" + cols + " panel " + panel, valid(tile, tokens, panels));
        }
    }

    private Matrix pack(Arena arena, Matrix.Source source, WeightFormat format) {
        return format == WeightFormat.PACKED
                ? packed(arena, source)
                : Matrix.pack(arena, source, format, (n, task) -> IntStream.range(0, n).forEach(task));
    }

    /// Panels are packed here also where that gains nothing; one in four is raw.
    private Matrix packed(Arena arena, Matrix.Source source) {
        int cols = source.cols();
        int panels = WeightFormat.panels(source.rows());
        MemorySegment data = arena.allocate(panels * PackedPanel.bytes(cols, 16L * cols), Memory.ALIGNMENT);
        long[] offsets = new long[panels + 1];
        boolean[] raw = new boolean[panels];
        for (int p = 0; p < panels; p++) {
            int rows = Math.min(16, source.rows() - 16 * p);
            short[] values = new short[rows * cols];
            for (int i = 0; i < values.length; i++) {
                values[i] = source.data().get(ValueLayout.JAVA_SHORT, 2L * (16 * p * cols + i));
            }
            raw[p] = random.nextInt(4) == 0;
            if (raw[p]) {
                Bf16Panel.encode(values, rows, cols, data, offsets[p]);
                offsets[p + 1] = offsets[p] + Bf16Panel.bytes(cols);
            } else {
                offsets[p + 1] = offsets[p] + PackedPanel.encode(values, rows, cols, data, offsets[p]);
            }
        }
        return Matrix.of(WeightFormat.PACKED, source.rows(), cols, data.asSlice(0, offsets[panels]), offsets, raw);
    }

    private static float[] valid(float[] tile, int tokens, int panels) {
        float[] out = new float[tokens * panels * 16];
        for (int t = 0; t < tokens; t++) {
            System.arraycopy(tile, t * Loops.TILE, out, t * panels * 16, panels * 16);
        }
        return out;
    }

    private void attention(TileLoops loops, int depth) {
        int queries = 1 + random.nextInt(9);
        float[] q = values(queries * depth);
        float[] keys = values(16 * depth + 3);
        float[] scores = values(queries * 40);
        loops.score(q, 0, depth, queries, keys, 3, depth, scores, 8, 32, depth % 2 == 0);
        results.put("score " + depth, scores);
        float[] folded = values(queries * 40);
        loops.fold(keys, 0, q(queries), 2, queries, folded, 8, 32, depth % 3 == 0);
        results.put("fold " + depth, folded);
        int lanes = (depth + 15) / 16 * 16;
        float[] values = values(16 * (lanes + 16) + 3);
        float[] p = values(20);
        float[] acc = values(lanes + 2);
        loops.accumulate(p, 4, 1 + random.nextInt(16), values, 3, lanes + 16, lanes, acc, 2);
        results.put("accumulate " + depth, acc);
    }

    private float[] q(int queries) {
        return values(16 * queries + 2);
    }

    private void decode(TileLoops loops, Arena arena, TileFormat format, int depth) {
        int lanes = 32 * (1 + random.nextInt(3)) - (format == TileFormat.INT4_PAIRS ? 0 : 16);
        MemorySegment tile = arena.allocate(format.bytes(depth, lanes), Memory.ALIGNMENT);
        fill(tile, format);
        float[] out = new float[format.groups(depth) * format.perWord() * lanes + 1];
        loops.decode(format, tile.address(), depth, lanes, out, 1);
        results.put("decode " + format + " " + depth, out);
    }

    private void fill(MemorySegment tile, TileFormat format) {
        for (long i = 0; i < tile.byteSize(); i += 4) {
            int bits = format.scaled() ? random.nextInt() : Float.floatToRawIntBits(value());
            tile.set(ValueLayout.JAVA_INT, i, bits);
        }
    }

    /// Every shape that a cache can have near a size, with contents that need not come from a writer.
    private void blocks(Loops loops, Arena arena, int size) {
        grouped(loops, arena, TileFormat.F32, size);
        grouped(loops, arena, TileFormat.BF16, size);
        grouped(loops, arena, TileFormat.INT8, size);
        if (Integer.bitCount(size) == 1 && size >= 32) {
            grouped(loops, arena, TileFormat.INT4, size);
        }
        int rope = 1 + random.nextInt(70);
        latent(loops, arena, TileFormat.F32, TileFormat.F32, size, rope);
        latent(loops, arena, TileFormat.BF16, TileFormat.BF16, size, rope);
        latent(loops, arena, TileFormat.INT8, TileFormat.BF16, size, rope);
        latent(loops, arena, TileFormat.FP8, TileFormat.BF16, size, rope);
        latent(loops, arena, TileFormat.FP8, TileFormat.FP8, size, rope);
        keys(loops, arena, TileFormat.F32, size);
        keys(loops, arena, TileFormat.BF16, size);
        keys(loops, arena, TileFormat.INT8, size);
        weigh(loops, size);
    }

    private void keys(Loops loops, Arena arena, TileFormat format, int dim) {
        CacheShape.Keys shape = new CacheShape.Keys(format, dim);
        MemorySegment[] blocks = new MemorySegment[1 + random.nextInt(6)];
        for (int p = 0; p < blocks.length; p++) {
            blocks[p] = arena.allocate(64 + shape.blockBytes(), Memory.ALIGNMENT).asSlice(64);
            fill(blocks[p].asSlice(0, shape.scaleOffset()), format);
            for (long at = shape.scaleOffset(); at < shape.blockBytes(); at += 2) {
                blocks[p].set(ValueLayout.JAVA_SHORT, at, Float.floatToFloat16(value()));
            }
        }
        int queries = queries();
        int stride = 16 * blocks.length + 3;
        float[] q = values(queries * dim + 1);
        float[] scores = values(queries * stride + 5);
        float[] scratch = new float[shape.scratchFloats()];
        loops.scores(shape, pages(blocks), 1, blocks.length, 64, q, 1, queries, scores, 5, stride, scratch);
        results.put("index scores " + format + " x " + dim + ", " + queries + " queries", scores);
    }

    private void weigh(Loops loops, int tokens) {
        int heads = 1 + random.nextInt(70);
        int stride = tokens + random.nextInt(9);
        // Exactly as long as needed.
        float[] dots = values(3 + (heads - 1) * stride + tokens);
        float[] weights = values(heads + 1);
        float[] out = values(tokens + 4);
        loops.weigh(dots, 3, stride, heads, tokens, weights, 1, out, 2);
        results.put("weigh " + heads + " heads, " + tokens + " tokens", out);
    }

    private void grouped(Loops loops, Arena arena, TileFormat format, int headDim) {
        CacheShape.Grouped shape = new CacheShape.Grouped(format, headDim);
        int pages = 1 + random.nextInt(6);
        MemorySegment[] blocks = new MemorySegment[pages];
        for (int p = 0; p < pages; p++) {
            blocks[p] = arena.allocate(64 + shape.blockBytes(), Memory.ALIGNMENT).asSlice(64);
            fill(blocks[p].asSlice(0, shape.keyScaleOffset()), format);
            for (long at = shape.keyScaleOffset(); at < shape.blockBytes(); at += 2) {
                blocks[p].set(ValueLayout.JAVA_SHORT, at, Float.floatToFloat16(value()));
            }
        }
        blocks(loops, shape, blocks, format + " x " + headDim);
    }

    private void latent(Loops loops, Arena arena, TileFormat format, TileFormat rope, int rank, int ropeDim) {
        CacheShape.Latent shape = new CacheShape.Latent(format, rope, rank, ropeDim);
        int pages = 1 + random.nextInt(3);
        MemorySegment[] blocks = new MemorySegment[pages];
        for (int p = 0; p < pages; p++) {
            blocks[p] = arena.allocate(64 + shape.blockBytes(), Memory.ALIGNMENT).asSlice(64);
            fill(blocks[p].asSlice(0, shape.ropeOffset()), format);
            fill(blocks[p].asSlice(shape.ropeOffset(), shape.scaleOffset() - shape.ropeOffset()), rope);
            for (long at = shape.scaleOffset(); at < shape.blockBytes(); at += 4) {
                blocks[p].set(ValueLayout.JAVA_FLOAT, at, value());
            }
        }
        blocks(loops, shape, blocks, format + "+" + rope + " " + rank + "+" + ropeDim);
        gather(loops, arena, shape, blocks, format + "+" + rope + " " + rank + "+" + ropeDim);
    }

    private void gather(Loops loops, Arena arena, CacheShape.Latent shape, MemorySegment[] blocks, String name) {
        long[] pages = Arrays.stream(blocks).mapToLong(block -> block.address() - 64).toArray();
        int[] positions = random.ints(0, 16 * blocks.length).distinct().limit(1 + random.nextInt(16 * blocks.length))
                .sorted().toArray();
        int first = random.nextInt(positions.length);
        int count = positions.length - first;
        int groups = (count + 15) / 16;
        MemorySegment to = arena.allocate(groups * shape.blockBytes() + 64, Memory.ALIGNMENT);
        loops.gather(shape, pages, 64, positions, first, count, to.address());
        if (to.asSlice(groups * shape.blockBytes()).mismatch(MemorySegment.ofArray(new byte[64])) >= 0) {
            throw new IllegalStateException("gather " + name + ": written behind the last block");
        }
        float[] all = new float[count * (shape.keyDim() + shape.scaleGroups()) * 2];
        int n = 0;
        for (int i = 0; i < count; i++) {
            MemorySegment block = to.asSlice(i / 16 * shape.blockBytes(), shape.blockBytes());
            n = codes(shape.latentFormat(), shape.rank(), shape.latentLanes(), block, i % 16, all, n);
            MemorySegment rope = block.asSlice(shape.ropeOffset());
            n = codes(shape.ropeFormat(), shape.ropeDim(), shape.ropeLanes(), rope, i % 16, all, n);
            if (shape.scaleGroups() > 0) {
                MemorySegment scales = block.asSlice(shape.scaleOffset() + 4L * (i % 16));
                n = codes(TileFormat.F32, shape.scaleGroups(), 64, scales, all, n);
            }
        }
        results.put("gather " + name + ", " + count + " of " + 16 * blocks.length + " tokens", all);
    }

    /// Numbers of one token of a tile, as they are stored, in halves of 16 bits.
    private static int codes(
            TileFormat format, int numbers, int lanes, MemorySegment tile, int slot, float[] out, int at) {
        int bytes = 4 / format.perWord();
        long row = 4L * (slot / format.perWord()) * lanes + slot % format.perWord() * bytes;
        return codes(format, numbers, 4, tile.asSlice(row), out, at);
    }

    private static int codes(TileFormat format, int numbers, int apart, MemorySegment from, float[] out, int at) {
        int bytes = 4 / format.perWord();
        for (int i = 0; i < numbers; i++) {
            int code = 0;
            for (int b = 0; b < bytes; b++) {
                code |= (from.get(ValueLayout.JAVA_BYTE, (long) apart * i + b) & 0xFF) << 8 * b;
            }
            out[at + 2 * i] = code & 0xFFFF;
            out[at + 2 * i + 1] = code >>> 16;
        }
        return at + 2 * numbers;
    }

    private void blocks(Loops loops, CacheShape shape, MemorySegment[] blocks, String name) {
        scores(loops, shape, blocks, name);
        long[] pages = pages(blocks);
        int queries = queries();
        int stride = 16 * blocks.length + 3;
        float[] scratch = new float[shape.scratchFloats()];
        int tokens = 1 + random.nextInt(16);
        float[] p = values(queries * stride + 5);
        float[] acc = values(queries * shape.valueLanes() + 2);
        loops.sums(shape, pages, 1, blocks.length, tokens, 64, p, 5, stride, queries, acc, 2, scratch);
        results.put("sums " + name + ", " + queries + " queries, " + tokens + " tokens", acc);
    }

    private void scores(Loops loops, CacheShape shape, MemorySegment[] blocks, String name) {
        int queries = queries();
        int stride = 16 * blocks.length + 3;
        float[] scratch = new float[shape.scratchFloats()];
        float[] q = values(queries * shape.keyDim() + 1);
        float[] scores = values(queries * stride + 5);
        loops.scores(shape, pages(blocks), 1, blocks.length, 64, q, 1, queries, scores, 5, stride, scratch);
        results.put("scores " + name + ", " + queries + " queries", scores);
    }

    /// With a page of none of these before and after them.
    private static long[] pages(MemorySegment[] blocks) {
        long[] pages = new long[blocks.length + 2];
        for (int p = 0; p < blocks.length; p++) {
            pages[p + 1] = blocks[p].address() - 64;
        }
        return pages;
    }

    private int queries() {
        return 1 + random.nextInt(random.nextBoolean() ? 8 : CacheShape.MOST_QUERIES);
    }

    private float[] values(int n) {
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = value();
        }
        return x;
    }

    private float finite() {
        float value = value();
        while (!Float.isFinite(value)) {
            value = value();
        }
        return value;
    }

    private float value() {
        float usual = (float) random.nextDouble(-2, 2);
        return switch (fill) {
            case USUAL -> usual;
            case TINY -> random.nextInt(4) == 0 ? Math.copySign(0f, usual) : usual * 0x1p-140f;
            case HUGE -> usual * 0x1p126f;
            case ANY -> random.nextInt(8) == 0 ? Float.intBitsToFloat(random.nextInt()) : usual * 20;
        };
    }
}

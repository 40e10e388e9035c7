package millrace.engine.kernel;

/// What one block of the KV cache holds: 16 consecutive tokens of one layer, and of one KV head if attention is
/// grouped. All parts begin at multiples of 64 bytes from the start of the block.
public sealed interface CacheShape {
    /// Tokens of a block, and so of a page.
    int TOKENS = 16;

    /// Lanes that a tile's row of values is padded to.
    int LANES = 16;

    /// Bytes of a block, a multiple of 64.
    long blockBytes();

    /// Floats that a block decodes to, see [Loops].
    int decodedFloats();

    /// Keys and values of one KV head.
    ///
    /// | part         | shape                                           | at              |
    /// |--------------|-------------------------------------------------|-----------------|
    /// | keys         | tile, depth = `headDim`, 16 lanes = tokens      | 0               |
    /// | values       | tile, depth = 16 tokens, lanes = `valueLanes()` | `valueOffset()` |
    /// | key scales   | `[16]` F32, only in INT8                        | `scaleOffset()` |
    /// | value scales | `[16]` F32, only in INT8                        | 64 bytes on     |
    ///
    /// A scale belongs to one token: `amax / 127` over its `headDim` values. It is F32 because it then costs no range
    /// (an F16 scale is denormal below 6·10⁻⁵) and 16 of them are one aligned load; the price is 2 bytes in 132.
    record Grouped(TileFormat format, int headDim) implements CacheShape {
        public Grouped {
            if (headDim < 1) {
                throw new IllegalArgumentException("grouped cache: headDim " + headDim);
            }
        }

        /// `headDim`, padded to whole lanes.
        public int valueLanes() {
            return padded(headDim);
        }

        public long valueOffset() {
            return format.bytes(headDim, TOKENS);
        }

        public long scaleOffset() {
            return valueOffset() + format.bytes(TOKENS, valueLanes());
        }

        @Override
        public long blockBytes() {
            return scaleOffset() + (format == TileFormat.INT8 ? 2L * TOKENS * Float.BYTES : 0);
        }

        @Override
        public int decodedFloats() {
            int depth = format.groups(headDim) * format.perWord();
            return depth * TOKENS + TOKENS * valueLanes();
        }
    }

    /// The latent that all heads share, after its norm, and the one rotated key, after its rotation.
    ///
    /// | part   | shape                                            | at              |
    /// |--------|--------------------------------------------------|-----------------|
    /// | latent | tile, depth = 16 tokens, lanes = `latentLanes()` | 0               |
    /// | rope   | tile, depth = 16 tokens, lanes = `ropeLanes()`   | `ropeOffset()`  |
    /// | scales | `[groups()][16]` F32, only in INT8               | `scaleOffset()` |
    ///
    /// In INT8 the latent is cut into groups of 128 values (the last may be shorter) with a scale per token and group;
    /// the rotated part stays BF16: its error would not be averaged over a latent but meet every position's angle.
    record Latent(TileFormat latentFormat, TileFormat ropeFormat, int rank, int ropeDim) implements CacheShape {
        /// Values of the latent that share a scale.
        public static final int GROUP = 128;

        public Latent {
            if (rank < 1 || ropeDim < 1 || ropeFormat == TileFormat.INT8) {
                throw new IllegalArgumentException("latent cache: " + latentFormat + ", " + ropeFormat + ", rank "
                        + rank + ", ropeDim " + ropeDim);
            }
        }

        public int latentLanes() {
            return padded(rank);
        }

        public int ropeLanes() {
            return padded(ropeDim);
        }

        /// Groups of latent values with a scale each.
        public int groups() {
            return (rank + GROUP - 1) / GROUP;
        }

        public long ropeOffset() {
            return latentFormat.bytes(TOKENS, latentLanes());
        }

        public long scaleOffset() {
            return ropeOffset() + ropeFormat.bytes(TOKENS, ropeLanes());
        }

        @Override
        public long blockBytes() {
            return scaleOffset() + (latentFormat == TileFormat.INT8 ? (long) groups() * TOKENS * Float.BYTES : 0);
        }

        @Override
        public int decodedFloats() {
            return TOKENS * (latentLanes() + ropeLanes()) + TOKENS * (rank + ropeDim);
        }
    }

    private static int padded(int lanes) {
        return (lanes + LANES - 1) / LANES * LANES;
    }
}

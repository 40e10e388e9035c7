package millrace.engine.kernel;

/// What one block of the KV cache holds: 16 consecutive tokens of one layer, and of one KV head if attention is
/// grouped. All parts begin at multiples of 64 bytes from the start of the block.
public sealed interface CacheShape {
    /// Tokens of a block, and so of a page.
    int TOKENS = 16;

    /// Lanes that a tile's row of values is padded to.
    int LANES = 16;

    /// Queries that are computed together at most.
    int MOST_QUERIES = 32;

    /// Bytes of a block, a multiple of 64.
    long blockBytes();

    /// Numbers of a query and of a key.
    int keyDim();

    /// Floats from one query's sums of values to the next's.
    int valueLanes();

    /// Floats that the loops over blocks need as working memory.
    int scratchFloats();

    /// Keys and values of one KV head.
    ///
    /// | part         | shape                                           | at                   |
    /// |--------------|-------------------------------------------------|----------------------|
    /// | keys         | tile, depth = `headDim`, 16 lanes = tokens      | 0                    |
    /// | values       | tile, depth = 16 tokens, lanes = `valueLanes()` | `valueOffset()`      |
    /// | key scales   | `[scaleGroups()][16]` F16                       | `keyScaleOffset()`   |
    /// | value scales | `[scaleGroups()][16]` F16                       | `valueScaleOffset()` |
    ///
    /// A scale belongs to one token: in INT8 to its `headDim` values, in INT4 to 32 of them. INT4 holds keys and values
    /// after a [Hadamard] rotation of the head; queries are rotated alike, and results rotated back.
    record Grouped(TileFormat format, int headDim) implements CacheShape {
        /// Dimensions that share a scale in INT4.
        public static final int INT4_GROUP = 32;

        /// Dimensions of a head in INT8 at most: sums of products stay within 32 bits.
        public static final int MOST_INT8_DIM = 512;

        public Grouped {
            boolean rotatable = Integer.bitCount(headDim) == 1 && headDim >= INT4_GROUP;
            if (headDim < 1 || format == TileFormat.FP8 || format == TileFormat.INT4_PAIRS
                    || format == TileFormat.INT4 && !rotatable
                    || format == TileFormat.INT8 && headDim > MOST_INT8_DIM) {
                throw new IllegalArgumentException("grouped cache: " + format + ", headDim " + headDim);
            }
        }

        /// Whether what is stored is rotated.
        public boolean rotated() {
            return format == TileFormat.INT4;
        }

        /// Whether queries and weights meet codes as integers, see `Loops.scores`.
        public boolean fixedPoint() {
            return format == TileFormat.INT8;
        }

        public TileFormat valueFormat() {
            return format == TileFormat.INT4 ? TileFormat.INT4_PAIRS : format;
        }

        /// Dimensions that share a scale.
        public int scaleGroup() {
            return format == TileFormat.INT4 ? INT4_GROUP : headDim;
        }

        /// Scales of a token's key, and of its value.
        public int scaleGroups() {
            return format.scaled() ? headDim / scaleGroup() : 0;
        }

        @Override
        public int keyDim() {
            return headDim;
        }

        /// `headDim`, padded to whole lanes.
        @Override
        public int valueLanes() {
            return padded(headDim);
        }

        public long valueOffset() {
            return format.bytes(headDim, TOKENS);
        }

        public long keyScaleOffset() {
            return valueOffset() + valueFormat().bytes(TOKENS, valueLanes());
        }

        public long valueScaleOffset() {
            return keyScaleOffset() + (long) scaleGroups() * TOKENS * Short.BYTES;
        }

        @Override
        public long blockBytes() {
            return keyScaleOffset() + 2L * scaleGroups() * TOKENS * Short.BYTES;
        }

        @Override
        public int scratchFloats() {
            int depth = format.groups(headDim) * format.perWord();
            int decoded = TOKENS * Math.max(depth, valueLanes());
            if (fixedPoint()) {
                // Scale and unit; two parts of scores and of queries, or of sums and of weights.
                return decoded + TOKENS + MOST_QUERIES + 2 * MOST_QUERIES * (TOKENS + headDim) + 2 * valueLanes()
                        + 3 * TOKENS;
            }
            return decoded + TOKENS * (scaleGroups() + MOST_QUERIES);
        }
    }

    /// The latent that all heads share, after its norm, and the one rotated key, after its rotation.
    ///
    /// | part   | shape                                            | at              |
    /// |--------|--------------------------------------------------|-----------------|
    /// | latent | tile, depth = 16 tokens, lanes = `latentLanes()` | 0               |
    /// | rope   | tile, depth = 16 tokens, lanes = `ropeLanes()`   | `ropeOffset()`  |
    /// | scales | `[scaleGroups()][16]` F32                        | `scaleOffset()` |
    ///
    /// In INT8 and FP8 the latent is cut into groups of 128 values (the last may be shorter) with a scale per token and
    /// group; the rotated part stays BF16: its error would not be averaged over a latent but meet every position's
    /// angle. If also the rotated part is FP8, the token has one scale for all.
    record Latent(TileFormat latentFormat, TileFormat ropeFormat, int rank, int ropeDim) implements CacheShape {
        /// Values of the latent that share a scale.
        public static final int GROUP = 128;

        public Latent {
            boolean known = switch (latentFormat) {
                case F32 -> ropeFormat == TileFormat.F32;
                case BF16, INT8 -> ropeFormat == TileFormat.BF16;
                case FP8 -> ropeFormat == TileFormat.BF16 || ropeFormat == TileFormat.FP8;
                case INT4, INT4_PAIRS -> false;
            };
            if (rank < 1 || ropeDim < 1 || !known) {
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

        /// Whether latent and rotated part share one scale per token.
        public boolean plain() {
            return ropeFormat == TileFormat.FP8;
        }

        /// Scales of a token.
        public int scaleGroups() {
            if (!latentFormat.scaled()) {
                return 0;
            }
            return plain() ? 1 : (rank + GROUP - 1) / GROUP;
        }

        @Override
        public int keyDim() {
            return rank + ropeDim;
        }

        @Override
        public int valueLanes() {
            return latentLanes();
        }

        public long ropeOffset() {
            return latentFormat.bytes(TOKENS, latentLanes());
        }

        public long scaleOffset() {
            return ropeOffset() + ropeFormat.bytes(TOKENS, ropeLanes());
        }

        @Override
        public long blockBytes() {
            return scaleOffset() + (long) scaleGroups() * TOKENS * Float.BYTES;
        }

        @Override
        public int scratchFloats() {
            int tokens = TOKENS * (latentLanes() + ropeLanes());
            return tokens + MOST_QUERIES * keyDim() + TOKENS * (scaleGroups() + MOST_QUERIES);
        }
    }

    /// What a block of index keys holds: those of 16 consecutive tokens of one layer, without values. Attention does not run over
    /// them; what is made of them are scores.
    ///
    /// | part   | shape                                  | at              |
    /// |--------|----------------------------------------|-----------------|
    /// | keys   | tile, depth = `dim`, 16 lanes = tokens | 0               |
    /// | scales | `[16]` F16, in INT8                    | `scaleOffset()` |
    ///
    /// Keys are those of [Grouped] in the same format, to the bit.
    record Keys(TileFormat format, int dim) {
        public Keys {
            if (dim < 1 || format != TileFormat.F32 && format != TileFormat.BF16 && format != TileFormat.INT8
                    || format == TileFormat.INT8 && dim > Grouped.MOST_INT8_DIM) {
                throw new IllegalArgumentException("index cache: " + format + ", dim " + dim);
            }
        }

        /// Whether queries meet codes as integers, as [Grouped#fixedPoint] says.
        public boolean fixedPoint() {
            return format == TileFormat.INT8;
        }

        public long scaleOffset() {
            return format.bytes(dim, TOKENS);
        }

        /// Floats that the loops over blocks need as working memory.
        public int scratchFloats() {
            return new Grouped(format, dim).scratchFloats();
        }

        /// Padded to a multiple of 64.
        public long blockBytes() {
            long bytes = scaleOffset() + (format.scaled() ? (long) TOKENS * Short.BYTES : 0);
            return (bytes + 63) / 64 * 64;
        }
    }

    private static int padded(int lanes) {
        return (lanes + LANES - 1) / LANES * LANES;
    }
}

package millrace.engine.kernel;

/// How a tile of `depth × lanes` numbers of the KV cache lies in memory, in 32-bit words, little-endian.
///
/// A word holds `perWord` consecutive depths of one lane, the lowest depth in the lowest bits, and words of one depth
/// group stand lane by lane. So one load of 16 words brings 16 lanes, and a shift takes each depth out of them:
///
/// ```
///  word (d / perWord) · lanes + lane,  bits from (d % perWord) · 32 / perWord
/// ```
///
/// Cached keys are tiles of 16 lanes (lane = token, depth = dimension); cached values and latents are tiles of depth 16
/// (lane = dimension, depth = token). What a code is worth beside its value is a scale that is kept beside the tile.
public enum TileFormat {
    F32(1),
    BF16(2),
    /// Signed codes of 8 bits.
    INT8(4),
    /// Signed codes of 4 bits.
    INT4(8),
    /// Signed codes of 4 bits, two lanes to a byte, so that each token has bytes of its own where depth = token. The
    /// words of lanes `32 g … 32 g + 31` stand in 16 words; each byte holds, low bits first, lanes `32 g + l` and
    /// `32 g + 16 + l`:
    ///
    /// ```
    ///  word (d / 4) · lanes / 2 + 16 g + l,  bits from 8 (d % 4), and 4 more for the second lane
    /// ```
    INT4_PAIRS(4),
    /// e4m3, see [millrace.engine.format.Float8]. The two codes of NaN are not written; they read as ±480.
    FP8(4);

    private final int perWord;

    TileFormat(int perWord) {
        this.perWord = perWord;
    }

    /// Depths that share a word.
    public int perWord() {
        return perWord;
    }

    /// Whether numbers are codes that a scale belongs to.
    public boolean scaled() {
        return this != F32 && this != BF16;
    }

    /// Depth groups of a tile: `⌈depth / perWord⌉`. What the last group has too many is zero.
    public int groups(int depth) {
        return (depth + perWord - 1) / perWord;
    }

    /// Bytes of a tile; of [#INT4_PAIRS] `lanes` is a multiple of 32.
    public long bytes(int depth, int lanes) {
        return (long) groups(depth) * (this == INT4_PAIRS ? lanes / 2 : lanes) * Integer.BYTES;
    }
}

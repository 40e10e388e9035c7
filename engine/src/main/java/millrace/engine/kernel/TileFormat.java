package millrace.engine.kernel;

/// How a tile of `depth × lanes` numbers lies in memory, in 32-bit words, little-endian.
///
/// A word holds `perWord` consecutive depths of one lane, the lowest depth in the lowest bits, and words of one depth
/// group stand lane by lane. So one load of 16 words brings 16 lanes, and a shift takes each depth out of them:
///
/// ```
///  word (d / perWord) · lanes + lane,  bits from (d % perWord) · 32 / perWord
/// ```
///
/// Weights are tiles of 16 lanes (lane = output row, depth = input); cached keys are tiles of 16 lanes (lane = token,
/// depth = dimension); cached values are tiles of depth 16 (lane = dimension, depth = token).
public enum TileFormat {
    F32(1),
    BF16(2),
    /// Signed codes; what a code is worth is a scale that is kept beside the tile.
    INT8(4);

    private final int perWord;

    TileFormat(int perWord) {
        this.perWord = perWord;
    }

    /// Depths that share a word.
    public int perWord() {
        return perWord;
    }

    /// Depth groups of a tile: `⌈depth / perWord⌉`. What the last group has too many is zero.
    public int groups(int depth) {
        return (depth + perWord - 1) / perWord;
    }

    /// Bytes of a tile.
    public long bytes(int depth, int lanes) {
        return (long) groups(depth) * lanes * Integer.BYTES;
    }
}

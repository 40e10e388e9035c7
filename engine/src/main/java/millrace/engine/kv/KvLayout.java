package millrace.engine.kv;

import millrace.engine.KvFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;

/// What a page holds: 16 tokens of every layer and KV head, block after block.
///
/// ```
///  page = layer 0: head 0, head 1, …   layer 1: head 0, …
/// ```
///
/// @param format how numbers are kept
/// @param layers layers of the model
/// @param heads KV heads of a layer; 1 in latent attention
/// @param shape what a block holds
public record KvLayout(KvFormat format, int layers, int heads, CacheShape shape) {
    public KvLayout {
        if (layers < 1 || heads < 1) {
            throw new IllegalArgumentException("KV layout: " + layers + " layers, " + heads + " heads");
        }
    }

    /// Keys and values per KV head.
    ///
    /// @throws IllegalArgumentException for a format that grouped attention cannot have
    public static KvLayout grouped(KvFormat format, int layers, int heads, int headDim) {
        TileFormat tile = switch (format) {
            case F32 -> TileFormat.F32;
            case BF16 -> TileFormat.BF16;
            case INT8 -> TileFormat.INT8;
            case INT4 -> TileFormat.INT4;
            case FP8, FP8_PLAIN -> throw new IllegalArgumentException("grouped attention: KV format " + format.id());
        };
        return new KvLayout(format, layers, heads, new CacheShape.Grouped(tile, headDim));
    }

    /// One latent and one rotated key per layer.
    ///
    /// @throws IllegalArgumentException for a format that latent attention cannot have
    public static KvLayout latent(KvFormat format, int layers, int rank, int ropeDim) {
        TileFormat latent = switch (format) {
            case F32 -> TileFormat.F32;
            case BF16 -> TileFormat.BF16;
            case INT8 -> TileFormat.INT8;
            case FP8, FP8_PLAIN -> TileFormat.FP8;
            case INT4 -> throw new IllegalArgumentException("latent attention: KV format " + format.id());
        };
        TileFormat rope = switch (format) {
            case F32 -> TileFormat.F32;
            case FP8_PLAIN -> TileFormat.FP8;
            default -> TileFormat.BF16;
        };
        return new KvLayout(format, layers, 1, new CacheShape.Latent(latent, rope, rank, ropeDim));
    }

    /// Bytes from the start of a page to the block of a layer and head.
    public long blockOffset(int layer, int head) {
        return ((long) layer * heads + head) * shape.blockBytes();
    }

    public long pageBytes() {
        return (long) layers * heads * shape.blockBytes();
    }

    /// A sixteenth of a page, padding and scales included.
    public long bytesPerToken() {
        return pageBytes() / CacheShape.TOKENS;
    }
}

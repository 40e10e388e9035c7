package millrace.engine.kv;

import millrace.engine.CacheFormats;
import millrace.engine.KvFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;
import org.jspecify.annotations.Nullable;

/// What a page holds: 16 tokens of every layer and KV head, block after block.
///
/// ```
///  page = layer 0: head 0, head 1, …   layer 1: head 0, …   index keys of the first layer that has them, of the second, …
/// ```
///
/// A draft layer is one layer more, behind the others. What it keeps of a token depends on the token that follows, so a page is
/// whole, and has a name, only when that is known. Index keys stand behind all layers.
///
/// @param format how numbers are kept
/// @param layers layers of the model
/// @param heads KV heads of a layer; 1 in latent attention
/// @param shape what a block holds
/// @param indexLayers layers that keep index keys
/// @param index what a block of index keys holds; null exactly without such layers
/// @param drafted whether the last layer is a draft layer
public record KvLayout(
        KvFormat format,
        int layers,
        int heads,
        CacheShape shape,
        int indexLayers,
        CacheShape.@Nullable Keys index,
        boolean drafted) {
    public KvLayout {
        if (layers < 1 || heads < 1 || indexLayers < 0 || indexLayers > 0 != (index != null)) {
            throw new IllegalArgumentException("KV layout: " + layers + " layers, " + heads + " heads");
        }
    }

    /// Without index keys and draft layer.
    public KvLayout(KvFormat format, int layers, int heads, CacheShape shape) {
        this(format, layers, heads, shape, 0, null, false);
    }

    /// The same with a draft layer more.
    public KvLayout withDraftLayer() {
        return new KvLayout(format, layers + 1, heads, shape, indexLayers, index, true);
    }

    /// The same with index keys.
    ///
    /// @param indexFormat one of [KvFormat#ofIndex]
    /// @param dim dimensions of an index key
    public KvLayout withIndex(KvFormat indexFormat, int count, int dim) {
        if (!KvFormat.ofIndex().contains(indexFormat)) {
            throw new IllegalArgumentException("index keys: format " + indexFormat.id());
        }
        TileFormat tile = TileFormat.valueOf(indexFormat.name());
        return new KvLayout(format, layers, heads, shape, count, new CacheShape.Keys(tile, dim), drafted);
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

    /// The format of index keys; null without such.
    public @Nullable KvFormat indexFormat() {
        return index == null ? null : KvFormat.valueOf(index.format().name());
    }

    /// Bytes from the start of a page to the index keys of the i-th layer that has them.
    public long indexOffset(int i) {
        return (long) layers * heads * shape.blockBytes() + i * indexBlockBytes();
    }

    private long indexBlockBytes() {
        return index == null ? 0 : index.blockBytes();
    }

    public long pageBytes() {
        return (long) layers * heads * shape.blockBytes() + indexLayers * indexBlockBytes();
    }

    /// What of [#bytesPerToken] index keys take.
    public long indexBytesPerToken() {
        return indexLayers * indexBlockBytes() / CacheShape.TOKENS;
    }

    /// Names the formats of a page: `int8`, `int8 index int8`.
    public String id() {
        return new CacheFormats(format, indexFormat()).id();
    }

    /// A sixteenth of a page, padding and scales included.
    public long bytesPerToken() {
        return pageBytes() / CacheShape.TOKENS;
    }
}

package millrace.engine;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import millrace.engine.kernel.CacheShape;
import org.jspecify.annotations.Nullable;

/// How the KV cache stores a token. `F32` is the reference for comparisons; docs/quality.md says what each costs.
public enum KvFormat {
    F32,
    BF16,
    /// Grouped attention: int8 codes with an F16 scale per token and KV head. Latent attention: the latent in groups of
    /// 128 values with an F32 scale each, the rotated part in BF16.
    INT8,
    /// Grouped attention only: int4 codes of the rotated head with an F16 scale per token and 32 values.
    INT4,
    /// Latent attention only: the latent as e4m3 in groups of 128 values with an F32 scale each, the rotated part in
    /// BF16.
    FP8,
    /// Latent attention only: latent and rotated part as e4m3 with one F32 scale per token.
    FP8_PLAIN;

    /// The smallest head that INT4 can rotate: as many values share a scale.
    private static final int LEAST_ROTATED = 32;

    /// What a model caches of a token.
    public enum Kind {
        /// Keys and values of each KV head.
        GROUPED("grouped attention"),
        /// One latent and one rotated key.
        LATENT("latent attention");

        private final String words;

        Kind(String words) {
            this.words = words;
        }
    }

    /// The name in configuration and records: `f32`, `fp8-plain`.
    public String id() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /// The smallest format that is lossless in practice for every kind of model, see docs/quality.md.
    public static KvFormat auto() {
        return INT8;
    }

    /// The smallest format that is lossless in practice.
    public static KvFormat auto(Kind kind) {
        return switch (kind) {
            case GROUPED, LATENT -> INT8;
        };
    }

    /// The formats that a model may have, in the order of their declaration.
    ///
    /// @param headDim numbers of a KV head; of no matter in latent attention
    public static List<KvFormat> of(Kind kind, int headDim) {
        return Arrays.stream(values())
                .filter(format -> format.refusal(kind, headDim) == null)
                .toList();
    }

    /// Refuses a format that a model cannot have.
    ///
    /// @throws BackendException `KV_FORMAT`
    public void require(Kind kind, int headDim) {
        String refusal = refusal(kind, headDim);
        if (refusal != null) {
            String others = of(kind, headDim).stream().map(KvFormat::id).collect(Collectors.joining(", "));
            throw new BackendException(
                    "KV_FORMAT",
                    "engine.kv.format: expected auto or one of " + others + ", got \"" + id() + "\": " + refusal);
        }
    }

    /// The format of index keys that goes with this one of the rest: the smallest that is not smaller than it.
    public KvFormat indexFormat() {
        return switch (this) {
            case F32, BF16 -> this;
            case INT8, INT4, FP8, FP8_PLAIN -> INT8;
        };
    }

    /// Whether index keys may have it, where they are not too long for it.
    private boolean isOfIndex() {
        return switch (this) {
            case F32, BF16, INT8 -> true;
            case INT4, FP8, FP8_PLAIN -> false;
        };
    }

    /// The formats that index keys may have, in the order of their declaration.
    public static List<KvFormat> ofIndex() {
        return Arrays.stream(values()).filter(KvFormat::isOfIndex).toList();
    }

    /// Refuses a format that index keys cannot have.
    ///
    /// @param dim dimensions of an index key
    /// @throws BackendException `KV_INDEX_FORMAT`
    public void requireForIndex(int dim) {
        if (!isOfIndex() || this == INT8 && dim > CacheShape.Grouped.MOST_INT8_DIM) {
            String formats = ofIndex().stream().map(KvFormat::id).collect(Collectors.joining(", "));
            throw new BackendException(
                    "KV_INDEX_FORMAT",
                    "engine.kv.index.format: expected auto or one of " + formats + " (int8 up to "
                            + CacheShape.Grouped.MOST_INT8_DIM + " dimensions, the model has " + dim + "), got \"" + id() + "\"");
        }
    }

    private @Nullable String refusal(Kind kind, int headDim) {
        boolean has = switch (this) {
            case F32, BF16, INT8 -> true;
            case INT4 -> kind == Kind.GROUPED;
            case FP8, FP8_PLAIN -> kind == Kind.LATENT;
        };
        if (!has) {
            return "the model has " + kind.words;
        }
        if (this == INT4 && (headDim < LEAST_ROTATED || Integer.bitCount(headDim) != 1)) {
            return "it rotates heads, whose size must be a power of two from " + LEAST_ROTATED
                    + " on, and the model's is " + headDim;
        }
        return null;
    }

    /// What configuration may say: `auto`, then the id of every format.
    public static List<String> ids() {
        return Stream.concat(Stream.of("auto"), Arrays.stream(values()).map(KvFormat::id)).toList();
    }

    /// The format of that id, or null for `auto`.
    public static @Nullable KvFormat ofIdOrAuto(String id) {
        return id.equals("auto") ? null : ofId(id);
    }

    public static KvFormat ofId(String id) {
        for (KvFormat format : values()) {
            if (format.id().equals(id)) {
                return format;
            }
        }
        throw new IllegalArgumentException("KV format: expected one of "
                + Arrays.stream(values()).map(KvFormat::id).collect(Collectors.joining(", ")) + ", got \"" + id + "\"");
    }
}

package millrace.engine;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// How the KV cache stores a token. `F32` is the reference for comparisons, `BF16` the default.
public enum KvFormat {
    F32,
    BF16,
    /// GQA: int8 codes with one scale per token and KV head. MLA: the latent in tiles of at most 128 values with a
    /// scale each, the rotary part in BF16.
    INT8;

    /// The name in configuration and records: `f32`, `bf16`, `int8`.
    public String id() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }

    /// The smallest format that is lossless in practice, see docs/quality.md.
    public static KvFormat auto() {
        return INT8;
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
        throw new IllegalArgumentException("KV format: expected one of f32, bf16, int8, got \"" + id + "\"");
    }
}

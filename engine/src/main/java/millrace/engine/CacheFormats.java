package millrace.engine;

import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The formats that the bytes of a KV page depend on, as records name them: `int8`, or with index keys of sparse attention
/// beside the latents `int8 index bf16`.
///
/// @param kv of keys and values, or of latents
/// @param index of index keys; null where there are none
public record CacheFormats(KvFormat kv, @Nullable KvFormat index) {
    private static final String INDEX = " index ";

    /// What configuration may say of index keys: `auto`, then the id of each of their formats.
    public static List<String> indexIds() {
        return Stream.concat(Stream.of("auto"), KvFormat.ofIndex().stream().map(KvFormat::id)).toList();
    }

    /// The format of index keys of that id, or null for `auto`.
    ///
    /// @throws IllegalArgumentException for another id
    public static @Nullable KvFormat indexOfIdOrAuto(String id) {
        if (id.equals("auto")) {
            return null;
        }
        for (KvFormat format : KvFormat.ofIndex()) {
            if (format.id().equals(id)) {
                return format;
            }
        }
        throw new IllegalArgumentException(
                "format of index keys: expected one of " + String.join(", ", indexIds()) + ", got \"" + id + "\"");
    }

    /// Reads what [#id] writes.
    ///
    /// @throws IllegalArgumentException for anything else
    public static CacheFormats of(String id) {
        int at = id.indexOf(INDEX);
        return at < 0
                ? new CacheFormats(KvFormat.ofId(id), null)
                : new CacheFormats(KvFormat.ofId(id.substring(0, at)), indexOfIdOrAuto(id.substring(at + INDEX.length())));
    }

    /// The name in records.
    public String id() {
        return index == null ? kv.id() : kv.id() + INDEX + index.id();
    }
}

package millrace.engine.tokenizer;

import org.jspecify.annotations.Nullable;

/// The small files of a checkpoint, by name.
@FunctionalInterface
public interface TokenizerFiles {
    /// The file's bytes, or null if the checkpoint has no such file.
    byte @Nullable [] readIfPresent(String name);
}

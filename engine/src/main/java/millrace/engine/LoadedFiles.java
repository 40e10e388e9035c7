package millrace.engine;

import java.nio.file.Path;
import java.util.List;

/// What an engine has read of a model: digests of the very bytes, not names to be read again.
///
/// @param model the model's directory
/// @param files every file that was read, in order of name
/// @param pieces digests of parts of them
public record LoadedFiles(Path model, List<ModelCard.FileDigest> files, Pieces pieces) {
    public LoadedFiles {
        files = List.copyOf(files);
    }

    /// Hashes a part of a file that was read.
    @FunctionalInterface
    public interface Pieces {
        /// @param from first byte
        /// @param to byte after the last
        /// @return SHA-256 in lower-case hexadecimal
        /// @throws InvalidModelException `MODEL_FILE_CHANGED`
        String sha256(String file, long from, long to);
    }
}

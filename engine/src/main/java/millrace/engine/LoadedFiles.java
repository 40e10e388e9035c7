package millrace.engine;

import java.nio.file.Path;
import java.util.List;

/// What an engine has read of a model: digests of the very bytes, not names to be read again.
public interface LoadedFiles {
    /// The model's directory.
    Path model();

    /// Every file that was read, in order of name. The first call hashes all of them.
    List<ModelCard.FileDigest> files();

    /// Hashes a part of a file that was read.
    ///
    /// @param from first byte
    /// @param to byte after the last
    /// @return SHA-256 in lower-case hexadecimal
    /// @throws InvalidModelException `MODEL_FILE_CHANGED`
    String sha256(String file, long from, long to);
}

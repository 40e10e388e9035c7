package millrace.engine;

import java.nio.file.Path;
import java.util.List;

/// Asked before the engine trusts a file: what the engine loads is what somebody vouches for.
///
/// The engine hands over the digests of the bytes that it has loaded, not names to be read again: a file that was
/// swapped between a check and its use is found.
public interface WeightCheck {
    /// Vouches for nothing and refuses nothing.
    WeightCheck NONE = (model, files) -> ModelTrust.OFF;

    /// @param model the model's directory
    /// @param files every file that was read, in order of name, with the digest of the bytes as they were read
    /// @return what was found out
    /// @throws InvalidModelException for what is refused, with a stable code
    ModelTrust check(Path model, List<ModelCard.FileDigest> files);
}

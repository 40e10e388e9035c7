package millrace.engine;

/// Asked before the engine trusts a file: what the engine loads is what somebody vouches for.
///
/// The engine hands over the digests of the bytes that it has loaded, not names to be read again: a file that was
/// swapped between a check and its use is found.
public interface WeightCheck {
    /// Vouches for nothing and refuses nothing.
    WeightCheck NONE = loaded -> ModelTrust.OFF;

    /// @return what was found out
    /// @throws InvalidModelException for what is refused, with a stable code
    ModelTrust check(LoadedFiles loaded);
}

package millrace.streams.registry.server;

import org.jspecify.annotations.Nullable;

/// Where a registry's records are kept.
public interface RegistryStore {
    /// Keeps one record, and returns when it is durable. `key` and `value` are JSON in the format of Confluent's
    /// `_schemas` topic; a null value deletes the key.
    ///
    /// @throws RuntimeException when it could not be kept; the state of the registry is then unchanged
    void append(String key, @Nullable String value);
}

package millrace.streams.registry;

import org.jspecify.annotations.Nullable;

/// How a request reaches a registry: over HTTP, or by a call within the process.
interface RegistryTransport extends AutoCloseable {
    /// Sends one request and returns the answer, whatever its status (a redirect is refused).
    ///
    /// @param path absolute path with its query, already percent-encoded
    /// @param body JSON, or null when the method has none
    /// @throws RegistryException `REGISTRY_*` when there is no usable answer
    Reply send(String method, String path, byte @Nullable [] body);

    /// For messages: where the requests go. Carries no credentials.
    String address();

    @Override
    void close();

    record Reply(int status, byte[] body) {}
}

package millrace.streams.registry;

import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import millrace.streams.registry.server.RegistryApi;
import org.jspecify.annotations.Nullable;

/// A registry in the memory of this process, for tests: all clients of one `mock://scope` share it.
final class MockTransport implements RegistryTransport {
    // Serializers are built by class name from configuration; the scope's name is all that two of them share.
    private static final Map<String, RegistryApi> SCOPES = new ConcurrentHashMap<>();

    private final String scope;
    private final RegistryApi api;

    private MockTransport(String scope, RegistryApi api) {
        this.scope = scope;
        this.api = api;
    }

    static MockTransport of(URI url) {
        String scope = url.getRawAuthority();
        return new MockTransport(scope, SCOPES.computeIfAbsent(scope, _ -> RegistryApi.inMemory()));
    }

    @Override
    public Reply send(String method, String path, byte @Nullable [] body) {
        int query = path.indexOf('?');
        String plain = query < 0 ? path : path.substring(0, query);
        String parameters = query < 0 ? null : path.substring(query + 1);
        RegistryApi.Answer answer = api.handle(method, plain, parameters, body == null ? new byte[0] : body);
        return new Reply(answer.status(), answer.body());
    }

    @Override
    public String address() {
        return "mock://" + scope;
    }

    @Override
    public void close() {}
}

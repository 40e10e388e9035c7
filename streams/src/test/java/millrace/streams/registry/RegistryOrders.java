package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// What is asked of a registry by its operator and never by the product: rules of compatibility, removal.
public final class RegistryOrders {
    private RegistryOrders() {}

    /// Sends one request with the access that the settings give, and returns the body of the answer, which must not be a refusal.
    ///
    /// @param path absolute path with its query
    /// @param body JSON, or null when the method has none
    public static String send(Map<String, ?> settings, String method, String path, @Nullable String body) {
        try (HttpTransport transport = new HttpTransport(RegistryConfig.of(settings))) {
            RegistryTransport.Reply reply =
                    transport.send(method, path, body == null ? null : body.getBytes(StandardCharsets.UTF_8));
            String answer = new String(reply.body(), StandardCharsets.UTF_8);
            assertThat(reply.status()).as("%s %s: %s", method, path, answer).isEqualTo(200);
            return answer;
        }
    }
}

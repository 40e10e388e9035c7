package millrace.streams.embedded;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class EmbeddedRegistryTest {
    private final EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
    private final HttpClient http = HttpClient.newHttpClient();

    @AfterEach
    void stop() {
        http.shutdownNow();
        registry.close();
    }

    private HttpResponse<String> post(String type, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(registry.url() + "/subjects/s%2Ft/versions"))
                .header("Content-Type", type)
                .POST(BodyPublishers.ofString(body))
                .build();
        return http.send(request, BodyHandlers.ofString());
    }

    private HttpResponse<String> send(String method, String path) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(registry.url() + path))
                .method(method, BodyPublishers.noBody())
                .build();
        return http.send(request, BodyHandlers.ofString());
    }

    @ParameterizedTest
    @CsvSource({
        "application/vnd.schemaregistry.v1+json,200",
        "application/vnd.schemaregistry+json,200",
        "application/json; charset=utf-8,200",
        "text/plain,415",
        "application/x-www-form-urlencoded,415"
    })
    void takesTheContentTypesOfRegistryClients(String type, int status) throws Exception {
        HttpResponse<String> response = post(type, "{\"schema\":\"\\\"string\\\"\"}");
        assertThat(response.statusCode()).isEqualTo(status);
        assertThat(response.headers().firstValue("Content-Type")).hasValue("application/vnd.schemaregistry.v1+json");
        if (status == 200) {
            assertThat(send("GET", "/subjects").body()).isEqualTo("[\"s/t\"]");
        }
    }

    @Test
    void limitsTheBody() throws Exception {
        HttpResponse<String> response = post("application/json", " ".repeat((1 << 20) + 1));
        assertThat(response.statusCode()).isEqualTo(413);
        assertThat(response.body())
                .isEqualTo("{\"error_code\":413,\"message\":\"Request body longer than 1048576 bytes\"}");
    }

    @Test
    void answersWhatItDoesNotHave() throws Exception {
        assertThat(send("GET", "/associations/resources/-/t").statusCode()).isEqualTo(404);
        assertThat(send("HEAD", "/subjects").statusCode()).isEqualTo(405);
        assertThat(send("GET", "/subjects/s%FFt/versions").statusCode()).isEqualTo(404);
        assertThat(send("GET", "/").body()).isEqualTo("{}");
    }

    @Test
    void refusesAPortThatIsTaken() {
        int port = registry.port();
        assertThatThrownBy(() -> EmbeddedRegistry.inMemory("127.0.0.1", port))
                .isInstanceOfSatisfying(EmbeddedException.class, e -> assertThat(e.code()).isEqualTo("EMBEDDED_PORT"))
                .hasMessage("embedded registry: cannot listen on 127.0.0.1:%d: Address already in use; stop what uses"
                        + " the port, or take port 0 for a free one", port);
    }
}

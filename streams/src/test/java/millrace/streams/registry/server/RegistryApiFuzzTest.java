package millrace.streams.registry.server;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/// Whatever is asked, the registry answers in JSON, with a status of its own.
class RegistryApiFuzzTest {
    private static final String[] METHODS = {"GET", "POST", "PUT", "DELETE", "PATCH", "", "TRACE"};
    private static final String[] PARTS = {"subjects", "s", "versions", "latest", "1", "-1", "99999999999", "schemas", "ids", "config",
        "mode", "compatibility", "types", "%2F", "%zz", "..", "", "é", "\u0000"};
    private static final String[] BODIES = {"{\"schema\":\"\\\"string\\\"\"}", "{\"schema\":\"{\\\"type\\\":\\\"record\\\"}\"}", "{}", "[]",
        "null", "{\"schema\":5}", "{\"compatibility\":\"NONE\"}", "{\"schema\":\"[\",\"schemaType\":\"AVRO\"}", "{", "",
        "{\"schema\":\"\\\"int\\\"\",\"references\":[{\"name\":1}]}"};
    private static final String[] QUERIES = {null, "deleted=true", "normalize=1", "subject=", "&&=", "offset=-5&limit=x", "%zz=%"};

    @Test
    void answersAnythingInJson() throws IOException {
        ObjectMapper json = new ObjectMapper();
        RegistryApi api = new RegistryApi((key, value) -> {}, "cluster-1");
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 20_000; i++) {
            StringBuilder path = new StringBuilder();
            for (int n = random.nextInt(5); n >= 0; n--) {
                path.append('/').append(PARTS[random.nextInt(PARTS.length)]);
            }
            String method = METHODS[random.nextInt(METHODS.length)];
            StringBuilder body = new StringBuilder(BODIES[random.nextInt(BODIES.length)]);
            if (!body.isEmpty() && random.nextInt(4) == 0) {
                body.setCharAt(random.nextInt(body.length()), (char) random.nextInt(1, 300));
            }
            RegistryApi.Answer answer;
            try {
                answer = api.handle(method, path.toString(), QUERIES[random.nextInt(QUERIES.length)],
                        body.toString().getBytes(StandardCharsets.UTF_8));
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ": " + method + " " + path + " " + body, e);
            }
            JsonNode read = json.readTree(answer.body());
            assertThat(answer.status()).as("%s %s %s", method, path, body).isBetween(200, 499);
            assertThat(answer.status() < 300 || read.path("error_code").isInt()).as("%s %s %s", method, path, body).isTrue();
        }
    }
}

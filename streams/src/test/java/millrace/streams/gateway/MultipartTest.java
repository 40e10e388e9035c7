package millrace.streams.gateway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.streams.openai.ApiException;
import org.junit.jupiter.api.Test;

class MultipartTest {
    private static final String TYPE = "multipart/form-data; boundary=\"-b-\"";

    private static Map<String, String> read(String body) throws IOException {
        Map<String, String> parts = new LinkedHashMap<>();
        Multipart multipart = new Multipart(TYPE, new ByteArrayInputStream(body.getBytes(StandardCharsets.ISO_8859_1)));
        for (Multipart.Part part = multipart.next(); part != null; part = multipart.next()) {
            parts.put(part.name() + "/" + part.fileName(), new String(part.content().readAllBytes(), StandardCharsets.ISO_8859_1));
        }
        return parts;
    }

    private static String part(String disposition, String content) {
        return "---b-\r\nContent-Disposition: form-data; " + disposition + "\r\nContent-Type: text/plain\r\n\r\n" + content + "\r\n";
    }

    @Test
    void readsFieldsAndFiles() throws IOException {
        String body = part("name=\"purpose\"", "batch") + part("name=\"file\"; filename=\"a \\\"b\\\".jsonl\"", "one\r\ntwo\r\n") + "---b---\r\n";
        assertThat(read(body)).containsExactly(Map.entry("purpose/null", "batch"), Map.entry("file/a \"b\".jsonl", "one\r\ntwo\r\n"));
        assertThat(read("a preamble\r\n" + body)).hasSize(2);
        assertThat(read(part("name=\"file\"", "") + "---b-----")).containsExactly(Map.entry("file/null", ""));
    }

    @Test
    void contentThatAlmostIsTheBoundaryIsContent() throws IOException {
        SplittableRandom random = new SplittableRandom(7);
        String alphabet = "\r\n-b";
        for (int round = 0; round < 3_000; round++) {
            StringBuilder content = new StringBuilder();
            for (int i = random.nextInt(40); i > 0; i--) {
                content.append(alphabet.charAt(random.nextInt(alphabet.length())));
            }
            if (content.indexOf("\r\n---b-") >= 0 || (content + "\r\n---b-").indexOf("\r\n---b-") < content.length()) {
                continue;
            }
            assertThat(read(part("name=\"x\"", content.toString()) + "---b---\r\n")).as("round %d", round)
                    .containsExactly(Map.entry("x/null", content.toString()));
        }
    }

    @Test
    void refusesWhatIsCutOrNoForm() {
        for (String body : new String[] {"", "---b-\r\n", part("name=\"x\"", "cut"), "---b-\r\nContent-Disposition: form-data\r\n\r\nx"}) {
            assertThat(catchThrowableOfType(ApiException.class, () -> read(body)).code()).as(body).isEqualTo("invalid_multipart");
        }
        assertThat(catchThrowableOfType(ApiException.class, () -> new Multipart("application/json", new ByteArrayInputStream(new byte[0]))).code())
                .isEqualTo("invalid_multipart");
    }
}

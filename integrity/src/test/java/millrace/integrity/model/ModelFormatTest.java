package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.integrity.Digest;
import org.junit.jupiter.api.Test;

/// The examples of docs/formats.md, Signed models.
class ModelFormatTest {
    private static String section() throws IOException {
        String page = Files.readString(Path.of("../docs/formats.md"));
        return page.substring(page.indexOf("## Signed models"), page.indexOf("### Tensor manifest"));
    }

    @Test
    void rootOfTwoDigests() throws IOException {
        List<String> digests = Pattern.compile("(?m)^[0-9a-f]{64}$").matcher(section()).results().limit(3)
                .map(found -> found.group()).toList();
        assertThat(ModelStatement.rootOf(List.of(
                        new ModelStatement.Resource("a", 0, -1, Digest.ofHex(digests.get(0))),
                        new ModelStatement.Resource("b", 0, -1, Digest.ofHex(digests.get(1))))).hex())
                .isEqualTo(digests.get(2));
    }

    @Test
    void hintOfAKey() throws IOException {
        Matcher block = Pattern.compile("(?s)(-----BEGIN PUBLIC KEY-----\n.*?-----END PUBLIC KEY-----\n)([0-9a-f]{64})\n")
                .matcher(section());
        assertThat(block.find()).isTrue();
        assertThat(EcKeys.hint(EcKeys.parse(block.group(1), "page", "MODEL_KEY_FORMAT"))).isEqualTo(block.group(2));
        assertThat(Digest.sha256(block.group(1)).hex()).isEqualTo(block.group(2));
    }
}

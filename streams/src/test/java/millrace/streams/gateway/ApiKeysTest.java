package millrace.streams.gateway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.SplittableRandom;
import millrace.streams.openai.ApiException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ApiKeysTest {
    private static final String KEY = "abcdefghijklmnop";
    /// SHA-256 of that key.
    private static final String DIGEST = "f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf";

    @TempDir
    private Path directory;

    private Path file(String text, String rights) throws IOException {
        Path file = Files.writeString(directory.resolve("keys"), text);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(rights));
        return file;
    }

    @Test
    void knowsKeysByTheirDigests() throws IOException {
        ApiKeys keys = ApiKeys.read(file("# keys\nalpha " + KEY + "x\nbeta sha256:" + DIGEST + "\n- " + KEY + "y\n", "rw-------"));
        assertThat(keys.caller("Bearer " + KEY).tenant()).isEqualTo("beta");
        assertThat(keys.caller("bearer " + KEY + "x").tenant()).isEqualTo("alpha");
        assertThat(keys.caller("Bearer " + KEY + "y").tenant()).isNull();
        for (String bad : new String[] {null, "", "Bearer", "Bearer ", "Bearer " + DIGEST, KEY, "Basic " + KEY}) {
            assertThatThrownBy(() -> keys.caller(bad)).as("%s", bad).isInstanceOfSatisfying(ApiException.class, e -> {
                assertThat(e.status()).isEqualTo(401);
                assertThat(e.text()).doesNotContain(KEY);
            });
        }
        assertThat(ApiKeys.none().caller(null).tenant()).isNull();
    }

    @Test
    void refusesFilesThatAreNoSecretOrNoKeys() {
        assertThatThrownBy(() -> ApiKeys.read(file("alpha " + KEY, "rw-r--r--"))).hasMessageContaining("expected mode 0600");
        assertThatThrownBy(() -> ApiKeys.read(file("alpha tooshort", "rw-------"))).hasMessageContaining("line 1: expected a key of at least 16")
                .hasMessageNotContaining("tooshort");
        assertThatThrownBy(() -> ApiKeys.read(file("\nalpha beta " + KEY, "rw-------"))).hasMessageContaining("line 2: expected a tenant")
                .hasMessageNotContaining(KEY);
        assertThatThrownBy(() -> ApiKeys.read(file("alpha sha256:12", "rw-------"))).hasMessageContaining("64 hexadecimal digits");
        assertThatThrownBy(() -> ApiKeys.read(file("# none\n", "rw-------"))).hasMessageContaining("expected at least one key");
        assertThatThrownBy(() -> ApiKeys.read(directory.resolve("absent"))).hasMessageContaining("GATEWAY_KEYS");
    }

    /// Whatever the file: every key that it names is known and no other, or it is refused without a word of it.
    @Test
    void anyFileIsReadOrRefusedWithoutAWordOfIt() throws IOException {
        String sound = "# keys\nalpha " + KEY + "x\nbeta sha256:" + DIGEST + "\n- " + KEY + "y\n";
        SplittableRandom random = new SplittableRandom(20261130);
        int read = 0;
        for (int i = 0; i < 3_000; i++) {
            StringBuilder text = new StringBuilder(sound);
            for (int changes = random.nextInt(1, 3); changes > 0; changes--) {
                int at = random.nextInt(text.length());
                switch (random.nextInt(3)) {
                    case 0 -> text.setCharAt(at, (char) random.nextInt(1, 256));
                    case 1 -> text.deleteCharAt(at);
                    default -> text.insert(at, " \n#:-".charAt(random.nextInt(5)));
                }
            }
            Path file = file(text.toString(), "rw-------");
            try {
                ApiKeys keys = ApiKeys.read(file);
                read++;
                boolean named = text.toString().lines().anyMatch(line -> line.strip().equals("alpha " + KEY + "x"));
                if (named) {
                    assertThat(keys.caller("Bearer " + KEY + "x").tenant()).as("round %d", i).isEqualTo("alpha");
                }
                assertThatThrownBy(() -> keys.caller("Bearer " + KEY + "z")).as("round %d", i).isInstanceOf(ApiException.class);
            } catch (IllegalArgumentException e) {
                assertThat(e.getMessage()).as("round %d", i).startsWith("GATEWAY_KEYS: ").doesNotContain(KEY, DIGEST, "\n");
            }
        }
        assertThat(read).isGreaterThan(500);
    }
}

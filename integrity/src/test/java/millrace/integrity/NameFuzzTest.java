package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.security.SecureRandom;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

/// Names of logs and texts of keys: whatever is read is what would be written, and everything else is refused by its code.
class NameFuzzTest {
    private static final int ROUNDS = 20_000;

    @Test
    void readsAnOriginOrRefusesIt() {
        readsOrRefuses("example.com/q2Xc/audit/17/3", "ORIGIN_INVALID", text -> Origin.parse(text).text(), 1);
        readsOrRefuses("a/b/c/999999999/999999999", "ORIGIN_INVALID", text -> Origin.parse(text).text(), 2);
    }

    @Test
    void readsAPublicKeyOrRefusesIt() {
        String vkey = NoteSigner.generate("example.com/log", new SecureRandom()).vkey();
        readsOrRefuses(vkey, "NOTE_KEY", text -> NoteVerifier.parse(text).vkey(), 3);
    }

    @Test
    void readsAPrivateKeyOrRefusesIt() {
        NoteSigner key = NoteSigner.generate("example.com/log", new SecureRandom());
        readsOrRefuses(key.secretText(), "NOTE_KEY", text -> NoteSigner.parse(text).secretText(), 4);
    }

    private static void readsOrRefuses(String sound, String code, UnaryOperator<String> readAndWrite, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        assertThat(readAndWrite.apply(sound)).isEqualTo(sound);
        for (int i = 0; i < ROUNDS; i++) {
            String text = changed(sound, random);
            try {
                assertThat(readAndWrite.apply(text)).as("seed %d, round %d", seed, i).isEqualTo(text.strip());
            } catch (IntegrityException e) {
                assertThat(e.code()).as("seed %d, round %d", seed, i).startsWith(code);
            } catch (RuntimeException e) {
                throw new AssertionError("seed " + seed + ", round " + i + ": " + text, e);
            }
        }
    }

    private static String changed(String sound, SplittableRandom random) {
        StringBuilder text = new StringBuilder(sound);
        for (int changes = random.nextInt(1, 4); changes > 0 && !text.isEmpty(); changes--) {
            int at = random.nextInt(text.length());
            switch (random.nextInt(4)) {
                case 0 -> text.setCharAt(at, (char) random.nextInt(1, 0x3000));
                case 1 -> text.deleteCharAt(at);
                case 2 -> text.insert(at, "0123456789/+=-. \n".charAt(random.nextInt(17)));
                default -> text.insert(at, text.substring(at, Math.min(text.length(), at + random.nextInt(12))));
            }
        }
        return text.toString();
    }
}

package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.engine.GenerationRequest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine.TypeConversionException;

/// What people and programs hand to the commands: read, or refused with a message that names the line.
class InputFuzzTest {
    private static final String[] LINES = {
        "{\"prompt\":\"a question\",\"max_tokens\":5,\"temperature\":0.5,\"stop\":[\"x\",\"y\"],\"seed\":7}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}],"
                + "\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}],\"thinking\":true}",
        "{\"ids\":[1,2,3],\"top_k\":4,\"stop\":\"z\"}",
    };
    private static final String[] WORDS = {"null", "{}", "[]", "1e999", "-1", "\"\"", "true", "[[", "\\u0000", "\"role\":", ",", "3.5"};

    @TempDir
    private Path directory;

    @Test
    void requestLinesAreReadOrRefused() throws IOException {
        Path file = directory.resolve("requests.jsonl");
        SplittableRandom random = new SplittableRandom(1);
        int read = 0;
        for (int i = 0; i < 3_000; i++) {
            Files.writeString(file, changed(LINES[random.nextInt(LINES.length)], random), StandardCharsets.UTF_8);
            try {
                for (JsonLines.Line line : JsonLines.read(file.toString())) {
                    GenerationRequest request = RequestLines.request(line);
                    assertThat(request.input()).as("round %d", i).isNotNull();
                    RequestLines.unknown(line);
                    read++;
                }
            } catch (IllegalArgumentException e) {
                assertThat(e.getMessage()).as("round %d", i).contains("expected");
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ": " + Files.readString(file), e);
            }
        }
        assertThat(read).isGreaterThan(300);
    }

    private static String changed(String line, SplittableRandom random) {
        StringBuilder text = new StringBuilder(line);
        for (int changes = random.nextInt(0, 4); changes > 0; changes--) {
            int at = random.nextInt(text.length());
            switch (random.nextInt(4)) {
                case 0 -> text.setCharAt(at, (char) random.nextInt(1, 256));
                case 1 -> text.deleteCharAt(at);
                case 2 -> text.replace(at, Math.min(text.length(), at + random.nextInt(10)), WORDS[random.nextInt(WORDS.length)]);
                default -> text.insert(at, WORDS[random.nextInt(WORDS.length)]);
            }
        }
        return text.toString();
    }

    @Test
    void sizesAreThoseOfArithmetic() {
        Pattern form = Pattern.compile("([0-9]{1,18})([kmgtKMGT]?)[bB]?");
        SplittableRandom random = new SplittableRandom(2);
        for (int i = 0; i < 50_000; i++) {
            StringBuilder text = new StringBuilder();
            for (int n = random.nextInt(1, 21); n > 0; n--) {
                text.append((char) ('0' + random.nextInt(10)));
            }
            text.append("kMgTb x".charAt(random.nextInt(7)));
            Matcher parts = form.matcher(text);
            BigInteger bytes = null;
            if (parts.matches()) {
                int unit = parts.group(2).isEmpty() ? 0 : 10 * ("KMGT".indexOf(Character.toUpperCase(parts.group(2).charAt(0))) + 1);
                bytes = new BigInteger(parts.group(1)).shiftLeft(unit);
            }
            try {
                assertThat(BigInteger.valueOf(ByteSize.parse(text.toString()))).as(text.toString()).isEqualTo(bytes);
            } catch (TypeConversionException e) {
                assertThat(bytes == null || bytes.bitLength() > 63).as(text.toString()).isTrue();
            }
        }
    }
}

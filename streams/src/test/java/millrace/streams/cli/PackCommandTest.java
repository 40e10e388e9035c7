package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

@Timeout(120)
class PackCommandTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private int run(String... arguments) {
        out.getBuffer().setLength(0);
        err.getBuffer().setLength(0);
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out, true));
        line.setErr(new PrintWriter(err, true));
        return line.execute(arguments);
    }

    @Test
    void packsABundledModelAndInspectsWhatItMade() throws IOException {
        String packed = dir.resolve("packed").toString();
        assertThat(run("model", "pack", "kimi-tiny", "--format", "packed", "--out", packed, "--json"))
                .as(err.toString()).isZero();
        JsonNode report = JSON.readTree(out.toString());
        assertThat(report.get("format").asText()).isEqualTo("packed");
        assertThat(report.get("lossless").asBoolean()).isTrue();
        assertThat(report.get("ratio").asDouble()).isBetween(0.75, 0.77);
        assertThat(report.get("bits_per_weight").asDouble()).isBetween(12.0, 12.35);
        assertThat(err.toString()).contains(" packed (0 %)", " packed (100 %)");

        assertThat(run("model", "inspect", packed, "--json")).as(err.toString()).isZero();
        JsonNode inspection = JSON.readTree(out.toString());
        assertThat(inspection.get("parameters").asLong()).isEqualTo(4_187_520);
        assertThat(inspection.at("/weights/packed/escapes").asLong()).isEqualTo(report.at("/formats/packed/escapes").asLong());
        assertThat(inspection.at("/weights/packed/bits_per_weight").asDouble()).isBetween(12.0, 12.35);
        assertThat(run("model", "inspect", packed)).isZero();
        assertThat(out.toString()).contains(" matrices of packed, 12.", " % escapes, 0 panels in BF16");
    }

    @Test
    void goesBackToBf16AndSaysThatItIsRounded() throws IOException {
        String int4 = dir.resolve("int4").toString();
        assertThat(run("model", "pack", "glm-tiny", "--format", "int4", "--out", int4)).as(err.toString()).isZero();
        assertThat(out.toString()).contains("bits a weight, rounded: lossy, 1 files", "  int4 ", "  int8 ");
        String back = dir.resolve("back").toString();
        assertThat(run("model", "pack", int4, "--format", "bf16", "--out", back)).as(err.toString()).isZero();
        assertThat(out.toString()).contains("16.00 bits a weight, rounded: lossy");
        assertThat(run("model", "inspect", back)).isZero();
        assertThat(out.toString()).contains(" matrices of bf16, 16.000 bits each");
    }

    @Test
    void refusesWrongUseAndPlacesInUse() throws IOException {
        Path used = Files.createDirectory(dir.resolve("used"));
        Files.writeString(used.resolve("x"), "x");
        assertThat(run("model", "pack", "glm-tiny", "--format", "int8", "--out", used.toString())).isOne();
        assertThat(err.toString()).startsWith("millrace: PACK_OUTPUT: " + used.toAbsolutePath()
                + ": expected an empty directory or none, got one with files; name another place");
        assertThat(run("model", "pack", "glm-tiny", "--format", "int3", "--out", used.toString())).isEqualTo(2);
        assertThat(err.toString()).startsWith("millrace: --format: expected one of bf16, packed, int8, int4, got \"int3\"");
        assertThat(run("model", "pack", "glm-tiny", "--format", "int8")).isEqualTo(2);
        assertThat(run("model", "pack", dir.resolve("nothing").toString(), "--format", "int8", "--out",
                dir.resolve("new").toString())).isOne();
        assertThat(err.toString()).startsWith("millrace: MODEL_MISSING: ");
        assertThat(dir.resolve("new.partial")).doesNotExist();
    }
}

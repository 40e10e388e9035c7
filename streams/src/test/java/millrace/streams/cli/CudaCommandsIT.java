package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import millrace.engine.kernel.cuda.BrokenDevice;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// The commands that a developer without a GPU runs.
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class CudaCommandsIT {
    private static final String[] STANDIN = {"-D", "engine.backend=cuda", "-D", "engine.cuda.driver=standin"};

    @TempDir
    Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    @Test
    void theDemoRunsOnTheStandInAndSaysSo() throws Exception {
        assumeTrue(BrokenDevice.isPresent(), "built without a C++ compiler");
        assertThat(run("demo", "--questions", "3", "--json", "-D", "engine.memory.bytes=512000000", "-D", "engine.kv.bytes=16000000"))
                .as(err.toString()).isZero();
        JsonNode summary = new ObjectMapper().readTree(out.toString().lines().toList().getLast());
        assertThat(summary.get("backend").asText()).isEqualTo("cuda");
        assertThat(summary.get("answered").asInt()).isEqualTo(3);
        assertThat(summary.at("/audit/verdict").asText()).isEqualTo("ok");
        assertThat(err.toString()).contains("THIS IS NO GPU: Millrace CUDA stand-in (CPU)")
                .contains("3 answers computed by cuda on Millrace CUDA stand-in (CPU), compute capability 9.0, STAND-IN");
    }

    @Test
    void serveRefusesTheStandIn() {
        assertThat(run("serve", "--embedded", "-D", "engine.model=glm-tiny", "-D", "state.dir=" + dir.resolve("state"), "-D",
                "embedded.dir=" + dir.resolve("broker"))).isEqualTo(1);
        assertThat(err.toString()).startsWith("millrace: CUDA_STANDIN_REFUSED: engine.cuda.driver: expected system for a service");
        assertThat(dir).as("nothing was begun").isEmptyDirectory();
    }

    private int run(String... arguments) {
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out));
        line.setErr(new PrintWriter(err));
        String[] all = java.util.stream.Stream.concat(java.util.Arrays.stream(arguments), java.util.Arrays.stream(STANDIN))
                .toArray(String[]::new);
        return line.execute(all);
    }
}

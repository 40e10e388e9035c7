package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import millrace.streams.Models;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

@Timeout(180)
class BenchCommandTest {
    @TempDir
    Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    @Test
    void engineReportsOneLineOfJsonAndKeepsTheRandomModel() throws IOException {
        Path model = dir.resolve("model");
        assertThat(run("bench", "engine", "--model", "random:llama:400k", "--keep", model.toString(), "--quick", "--rounds", "1",
                "--batch", "1,2", "--context", "16", "--prefill", "32", "--weights", "bf16,int8", "--backends", "vector",
                "--kv", "bf16", "--json", "--charts", dir.resolve("charts").toString())).as(err.toString()).isZero();
        List<String> lines = out.toString().lines().toList();
        assertThat(lines).hasSize(1);
        JsonNode root = new ObjectMapper().readTree(lines.getLast());
        assertThat(root.at("/machine/read_gb_per_second/1").asDouble()).isPositive();
        JsonNode results = root.get("results");
        assertThat(results).extracting(r -> r.get("bench").asText() + " " + r.get("format").asText() + " " + r.get("batch"))
                .containsExactly("decode bf16 1", "decode int8 1", "decode bf16 2", "decode int8 2", "prefill bf16 1", "prefill int8 1");
        assertThat(results).allSatisfy(result -> {
            assertThat(result.get("backend").asText()).isEqualTo("vector");
            assertThat(result.get("model").asText()).isEqualTo("random:llama:400k");
            assertThat(result.get("tokens_per_second").asDouble()).isPositive();
            assertThat(result.get("ratio_to_bf16").asDouble()).isPositive();
            assertThat(result.get("plan_bytes").asLong()).isPositive();
        });
        assertThat(results.get(0).get("share_of_bandwidth").asDouble()).isPositive();
        assertThat(err.toString()).contains("random:llama:400k: opening with weights int8");
        assertThat(model.resolve("config.json")).exists();
        assertThat(dir.resolve("charts")).isDirectoryContaining("glob:**/decode-random-llama-400k.svg");
    }

    @Test
    void engineComparesContextsThatAreFilledIn() throws IOException {
        assertThat(run("bench", "engine", "--model", "random:kimi_k2:400k", "--quick", "--rounds", "1", "--batch", "1,2",
                "--context", "300,900", "--fill", "--prefill", "0", "--weights", "bf16", "--kv", "bf16,f32", "--json"))
                .as(err.toString()).isZero();
        JsonNode results = new ObjectMapper().readTree(out.toString()).get("results");
        assertThat(results).extracting(r -> r.get("context") + " " + r.get("batch") + " " + r.get("kv_format").asText())
                .containsExactly("300 1 bf16", "300 1 f32", "300 2 bf16", "300 2 f32", "900 1 bf16", "900 1 f32", "900 2 bf16",
                        "900 2 f32");
        assertThat(results).allSatisfy(result -> {
            assertThat(result.get("tokens_per_second").asDouble()).isPositive();
            assertThat(result.get("prompts").asText()).isEqualTo("filled");
            assertThat(result.get("speculation").asText()).isEqualTo("off");
            assertThat(result.has("cost_to_context_300")).isEqualTo(result.get("context").asInt() == 900);
        });
    }

    @Test
    void engineDraftsOnTextAsOftenRightAsInUse() throws IOException {
        Path text = Files.writeString(dir.resolve("play.txt"), Models.text("glm-tiny-mtp"));
        assertThat(run("bench", "engine", "--model", "glm-tiny-mtp", "--text", text.toString(), "--speculation", "off,mtp:2",
                "--quick", "--rounds", "2", "--batch", "1", "--prefill", "0", "--json")).as(err.toString()).isZero();
        JsonNode results = new ObjectMapper().readTree(out.toString()).get("results");
        assertThat(results).extracting(r -> r.get("speculation").asText() + " " + r.get("prompts").asText())
                .containsExactly("off text", "mtp:2 text");
        assertThat(results.get(0).has("accepted_1")).isFalse();
        assertThat(results.get(1).get("accepted_1").asDouble()).isBetween(0.2, 0.95);
        assertThat(results.get(1).get("accepted_2").asDouble()).isLessThan(results.get(1).get("accepted_1").asDouble());
        assertThat(results.get(1).get("ratio_to_off").asDouble()).isPositive();
    }

    @Test
    void integrityReportsWhatTheProfilesCost() throws IOException {
        assertThat(run("bench", "integrity", "--model", "random:llama:400k", "--batch", "2", "--quick", "--rounds", "1", "--json"))
                .as(err.toString()).isZero();
        JsonNode results = new ObjectMapper().readTree(out.toString()).get("results");
        assertThat(results).extracting(r -> r.get("bench").asText() + " " + r.get("profile").asText())
                .containsExactly("integrity default", "integrity strict");
        assertThat(results).allSatisfy(result -> {
            assertThat(result.get("batch").asInt()).isEqualTo(2);
            assertThat(result.get("tokens_per_second").asDouble()).isPositive();
            assertThat(result.get("overhead_percent").isNumber()).isTrue();
            assertThat(result.get("overhead_percent_range")).hasSize(2);
            assertThat(result.get("checks_percent").isNumber()).isTrue();
            assertThat(result.get("canary_percent").isNumber()).isTrue();
            assertThat(result.get("verifier_leaves_per_second").asDouble()).isPositive();
        });
        assertThat(err.toString()).contains("round 3: ").contains(" % (median of 3 pairs)");
    }

    @Test
    void scaleReportsWhatInstancesReachOfWhatOnePredicts() throws IOException {
        assertThat(run("bench", "scale", "--instances", "2", "--step", "2", "--batch", "4", "--tokens", "3", "--prompts", "8",
                "--rounds", "2", "--json")).as(err.toString()).isZero();
        JsonNode root = new ObjectMapper().readTree(out.toString());
        assertThat(root.at("/machine/load_average").isNumber()).isTrue();
        JsonNode results = root.get("results");
        assertThat(results).extracting(r -> r.get("bench").asText() + " " + r.get("instances") + " " + r.get("prompts"))
                .containsExactly("scale 1 8", "scale 2 16");
        assertThat(results).allSatisfy(result -> {
            assertThat(result.get("tokens_per_second_range")).hasSize(2);
            assertThat(result.get("ratio_to_engine").asDouble()).isPositive();
            assertThat(result.get("prompts_per_second").asDouble())
                    .isCloseTo(result.get("tokens_per_second").asDouble() / 3, withinPercentage(1));
        });
        JsonNode two = results.get(1);
        assertThat(results.get(0).has("ratio_to_prediction")).isFalse();
        assertThat(two.get("ratio_to_prediction_range")).hasSize(2);
        assertThat(two.get("predicted_tokens_per_second").asDouble())
                .isCloseTo(2 * results.get(0).get("tokens_per_second").asDouble(), withinPercentage(1));
        assertThat(err.toString()).contains("scale: 1 of 2, warm-up: ", "scale: 2 of 2, round 2: ").doesNotContain("round 3");
    }

    @Test
    void latencyReportsWhatThePipelineAdds() throws IOException {
        assertThat(run("bench", "latency", "--load", "50,70", "--step", "2", "--batch", "4", "--tokens", "4", "--prompts", "40",
                "--rounds", "2", "--json")).as(err.toString()).isZero();
        JsonNode results = new ObjectMapper().readTree(out.toString()).get("results");
        assertThat(results).extracting(r -> r.get("bench").asText() + " " + r.get("load").asText() + " " + r.get("arrivals_per_second"))
                .as("of 4 / 2 ms / 4 = 500 a second").containsExactly("latency 50 % 250.0", "latency 70 % 350.0");
        assertThat(results).allSatisfy(result -> {
            assertThat(result.get("added_p50_ms").asDouble()).isPositive();
            assertThat(result.get("added_p99_ms_range")).hasSize(2);
            assertThat(result.get("added_max_ms").asDouble()).isGreaterThanOrEqualTo(result.get("added_p99_ms").asDouble());
            assertThat(result.get("engine_p50_ms").asDouble()).as("four tokens are three steps apart").isGreaterThan(3);
            assertThat(result.get("p50_ms").asDouble()).isGreaterThan(result.get("engine_p50_ms").asDouble());
        });
    }

    @Test
    void wrongUsageIsRefusedBeforeAnythingIsMeasured() throws IOException {
        String[] engine = {"bench", "engine", "--model", "random:llama:1m"};
        Path text = Files.writeString(dir.resolve("short.txt"), "To be");
        refused("--text: expected no --fill with it, as a text is computed", "bench", "engine", "--model", "glm-tiny", "--fill",
                "--text", text.toString());
        refused("--text: expected a readable text file, got \"" + dir + "\"", "bench", "engine", "--model", "glm-tiny", "--text",
                dir.toString());
        refused("Missing required option: '--model=MODEL'", "bench", "engine");
        refused("--model: random model: expected random:ARCH:PARAMS, for example random:llama:1b or random:kimi_k2:300m, got "
                + "\"random:llama\"", "bench", "engine", "--model", "random:llama");
        refused("--model: architecture of a random model: expected one of llama, glm4_moe, kimi_k2, glm_moe_dsa, got \"bert\"",
                "bench", "engine", "--model", "random:bert:1b");
        refused("--weights: expected stored, bf16, packed, int8, int4, got \"int3\"", with(engine, "--weights", "bf16,int3"));
        refused("--batch: expected whole numbers from 1 to 1024, got \"0\"", with(engine, "--batch", "1,0"));
        refused("--context: expected whole numbers from 1 to 1048576, got \"x\"", with(engine, "--context", "x"));
        refused("--prefill: expected a whole number from 0 to 1048576, got \"-1\"", with(engine, "--prefill", "-1"));
        refused("--kv-index: expected auto, f32, bf16, int8, got \"fp8\"", with(engine, "--kv-index", "fp8"));
        refused("--speculation: speculation: expected 1 to 3 tokens, got 9", with(engine, "--speculation", "off,mtp:9"));
        refused("--backends: expected auto, cuda, native, vector, scalar, got \"opencl\"", with(engine, "--backends", "opencl"));
        refused("--rounds: expected a whole number from 1 to 1000, got \"0\"", "bench", "machine", "--rounds", "0");
        refused("--threads: expected a whole number from 0 to 1024, got \"-1\"", "bench", "kernels", "--threads", "-1");
        refused("--batch: expected a whole number from 1 to 1024, got \"0\"", "bench", "integrity", "--batch", "0");
        refused("--model: expected glm-tiny, glm-tiny-mtp, kimi-tiny, got \"gpt\"", "bench", "serve", "--model", "gpt");
        refused("--load: expected whole numbers from 1 to 1000, got \"0\"", "bench", "serve", "--load", "0");
        refused("--load: expected a whole number from 1 to 99, got \"100\"", "bench", "latency", "--load", "70,100");
        refused("--prompts: expected a whole number from 1 to 1000000, got \"0\"", "bench", "latency", "--prompts", "0");
        refused("--step: expected a whole number from 1 to 60000, got \"0\"", "bench", "latency", "--step", "0");
        refused("--batch: expected a whole number from 1 to 1024, got \"0\"", "bench", "scale", "--batch", "0");
        refused("--tokens: expected a whole number from 1 to 100000, got \"0\"", "bench", "scale", "--tokens", "0");
        refused("--rounds: expected a whole number from 1 to 1000, got \"0\"", "bench", "scale", "--rounds", "0");
        refused("--instances: expected a whole number from 2 to 16, got \"1\"", "bench", "scale", "--instances", "1");
        refused("--prompts: expected a multiple of 4, one for each partition of an instance, got \"10\"", "bench", "scale",
                "--prompts", "10");
        refused("-D topics.partitions: expected none, since each instance has four, got \"5\"; set --instances", "bench", "scale",
                "-D", "topics.partitions=5");
        Path page = Files.writeString(dir.resolve("page.md"), "");
        assertThat(run("bench", "machine", "--write", page.toString())).isOne();
        assertThat(err.toString()).startsWith("millrace: " + page + ": expected the lines <!-- bench: begin -->");
        assertThat(out.toString()).isEmpty();
    }

    @Test
    void aTextThatIsShorterThanAPromptIsRefused() throws IOException {
        Path text = Files.writeString(dir.resolve("short.txt"), "To be, or not to be");
        assertThat(run("bench", "engine", "--model", "glm-tiny", "--text", text.toString(), "--quick", "--batch", "1")).isEqualTo(1);
        assertThat(err.toString()).containsPattern("text: expected at least the 64 tokens of a prompt, got \\d\\d?; take a longer text");
    }

    private void refused(String message, String... arguments) {
        assertThat(run(arguments)).as(err.toString()).isEqualTo(2);
        assertThat(err.toString()).startsWith("millrace: " + message).contains("--help` explains it");
        assertThat(out.toString()).isEmpty();
    }

    private static String[] with(String[] arguments, String... more) {
        return java.util.stream.Stream.concat(java.util.stream.Stream.of(arguments), java.util.stream.Stream.of(more))
                .toArray(String[]::new);
    }

    private int run(String... arguments) {
        out.getBuffer().setLength(0);
        err.getBuffer().setLength(0);
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out));
        line.setErr(new PrintWriter(err));
        return line.execute(arguments);
    }
}

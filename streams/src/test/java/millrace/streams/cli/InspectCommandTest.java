package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import millrace.engine.DeveloperModels;
import millrace.engine.DeveloperModels.RandomSpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// What `model inspect` says of sparse attention and of draft layers.
@Timeout(120)
class InspectCommandTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private String inspect(String... options) {
        out.getBuffer().setLength(0);
        CommandLine command = Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err));
        String[] arguments = new String[options.length + 2];
        arguments[0] = "model";
        arguments[1] = "inspect";
        System.arraycopy(options, 0, arguments, 2, options.length);
        assertThat(command.execute(arguments)).as(err.toString()).isZero();
        return out.toString();
    }

    private Path random(String architecture) throws IOException {
        Path model = dir.resolve("m");
        DeveloperModels.writeRandom(model, 7, RandomSpec.parse("random:" + architecture + ":400k"));
        return model;
    }

    @Test
    void bothCachesAndTheShareThatIsReadShouldBeTold() throws IOException {
        String model = random("glm_moe_dsa").toString();
        JsonNode report = JSON.readTree(inspect(model, "--json"));
        int layers = report.get("layers").intValue();
        JsonNode indexer = report.get("indexer");
        int full = indexer.get("full_layers").intValue();
        assertThat(indexer.get("top_k").intValue()).isEqualTo(64);
        assertThat(indexer.get("heads").intValue()).isEqualTo(4);
        assertThat(indexer.get("head_dim").intValue()).isEqualTo(32);
        assertThat(indexer.get("rotation").textValue()).isEqualTo("interleaved");
        assertThat(full + indexer.get("shared_layers").intValue()).isEqualTo(layers);
        assertThat(indexer.get("selected_share").toString()).isEqualTo(
                "{\"4096\":0.015625,\"32768\":0.001953125,\"131072\":4.8828125E-4}");
        JsonNode bf16 = report.at("/kv/bf16");
        assertThat(bf16.get("index_format").textValue()).isEqualTo("bf16");
        assertThat(bf16.get("index_bytes_per_token").intValue()).isEqualTo(full * 64);
        assertThat(bf16.get("bytes_per_token").intValue()).isEqualTo(layers * (64 + 16) * 2 + full * 64);
        assertThat(bf16.get("draft_bytes_per_token").intValue()).isEqualTo((64 + 16) * 2 + 64);
        assertThat(report.at("/kv/fp8/index_format").textValue()).isEqualTo("int8");
        assertThat(report.at("/parameters_by_part/indexer").intValue()).isPositive();
        assertThat(report.at("/draft_layer/present").booleanValue()).isTrue();
        assertThat(report.at("/draft_layer/parameters").intValue()).isPositive();
        assertThat(report.at("/speculation/available").booleanValue()).isTrue();
        assertThat(report.at("/speculation/reason").isNull()).isTrue();
        assertThat(report.get("tensors_skipped").intValue()).as("the draft layer is of use").isZero();
        assertThat(inspect(model))
                .contains("bytes per token, of which index keys in int8 ", " more with drafts; ")
                .contains("indexer      at most 64 positions, 4 heads of 32, interleaved; layers: ")
                .contains("attends to 1.6 % of 4,096, 0.2 % of 32,768, 0.0 % of 131,072")
                .containsPattern("draft layer  [0-9,]+ parameters; engine.speculation may be mtp or auto");
    }

    @Test
    void modelWithoutEitherShouldSayWhy() throws IOException {
        String model = random("llama").toString();
        JsonNode report = JSON.readTree(inspect(model, "--json"));
        assertThat(report.get("indexer").isNull()).isTrue();
        assertThat(report.at("/kv/int8/index_format").isNull()).isTrue();
        assertThat(report.at("/kv/int8/draft_bytes_per_token").intValue()).isZero();
        assertThat(report.at("/draft_layer/present").booleanValue()).isFalse();
        assertThat(report.at("/speculation/available").booleanValue()).isFalse();
        assertThat(report.at("/speculation/reason").textValue()).isEqualTo("models of this family have none");
        assertThat(inspect(model))
                .contains("draft layer  none to draft with: models of this family have none")
                .doesNotContain("indexer", "drafts;");
    }

    @Test
    void draftLayerThatTheFilesLackShouldBeTold() throws IOException {
        Path model = random("kimi_k2");
        assertThat(JSON.readTree(inspect(model.toString(), "--json")).at("/speculation/reason").textValue())
                .isEqualTo("config.json tells of none");
        Path file = model.resolve("config.json");
        ObjectNode config = (ObjectNode) JSON.readTree(file.toFile());
        Files.writeString(file, config.put("num_nextn_predict_layers", 1).toString());
        assertThat(inspect(model.toString()))
                .contains("draft layer  none to draft with: the files do not have the one that config.json tells of");
    }
}

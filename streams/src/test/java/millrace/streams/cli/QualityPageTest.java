package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class QualityPageTest {
    @TempDir
    Path dir;

    private static ObjectNode row(String model, String kv, double kl, double agreement, double deltaNll) {
        ObjectNode row = JsonLines.mapper().createObjectNode()
                .put("model", model)
                .put("weights", "stored")
                .put("kv_format", kv)
                .put("weight_bytes", 8_123_456)
                .put("kv_bytes_per_token", 640);
        row.putObject("quality")
                .put("questions", 20)
                .put("same_answers", 19)
                .put("mean_kl", kl)
                .put("p99_kl", 10 * kl)
                .put("top1_agreement", agreement)
                .put("delta_nll", deltaNll);
        row.putObject("accuracy").putObject("all").put("correct", 18);
        ObjectNode reference = row.putObject("reference").put("kv_format", "f32").put("weight_format", "bf16");
        reference.putObject("nll").put("predicted_tokens", 7_980).put("mean_nll", 3.5);
        reference.putObject("accuracy").putObject("all").put("correct", 17);
        return row;
    }

    @Test
    void aTableForEachModelSaysWhatIsWithinTheLimits() {
        assertThat(QualityPage.tables(List.of(
                row("a", "f32", 0, 1, 0), row("a", "int8", 0.0002, 0.99, 0.005), row("b", "int4", 0.2, 0.9899, -0.1),
                row("b", "x", 1e-9, 1, 0.0051)))).isEqualTo("""
                ### a

                Reference: KV `f32`, weights `bf16`; 7980 predicted tokens, mean NLL 3.500000; 17 of 20 questions right.

                | weights | KV | weights, MB | KV, bytes a token | mean KL | p99 KL | top-1 | ΔNLL | right | same answers | within |
                |---|---|---|---|---|---|---|---|---|---|---|
                | `stored` | `f32` | 8.12 | 640 | 0 | 0 | 100.00 % | 0 | 18 | 19 | yes |
                | `stored` | `int8` | 8.12 | 640 | 0.000200 | 0.002000 | 99.00 % | +0.005000 | 18 | 19 | yes |

                ### b

                Reference: KV `f32`, weights `bf16`; 7980 predicted tokens, mean NLL 3.500000; 17 of 20 questions right.

                | weights | KV | weights, MB | KV, bytes a token | mean KL | p99 KL | top-1 | ΔNLL | right | same answers | within |
                |---|---|---|---|---|---|---|---|---|---|---|
                | `stored` | `int4` | 8.12 | 640 | 0.200000 | 2.000000 | 98.99 % | −0.100000 | 18 | 19 | no |
                | `stored` | `x` | 8.12 | 640 | 0.000000 | 0.000000 | 100.00 % | +0.005100 | 18 | 19 | no |
                """);
    }

    @Test
    void onlyWhatStandsBetweenTheMarksIsReplaced() throws IOException {
        String begin = "<!-- tables: written by ./millrace eval quality --write docs/quality.md -->\n";
        String end = "<!-- end of tables -->\n";
        Path page = Files.writeString(dir.resolve("quality.md"), "# Head\n" + begin + "old\n" + end + "tail\n");
        QualityPage.read(page).write(List.of(row("a", "f32", 0, 1, 0)));
        String written = Files.readString(page);
        assertThat(written).startsWith("# Head\n" + begin + "\n### a\n").endsWith("| yes |\n\n" + end + "tail\n");
        QualityPage.read(page).write(List.of(row("a", "f32", 0, 1, 0)));
        assertThat(Files.readString(page)).isEqualTo(written);
        try (var files = Files.list(dir)) {
            assertThat(files).containsExactly(page);
        }
    }

    @Test
    void aPageWithoutMarksIsRefused() throws IOException {
        Path page = Files.writeString(dir.resolve("quality.md"), "# Head\n");
        assertThatThrownBy(() -> QualityPage.read(page)).isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith(page + ": expected the lines <!-- tables: written by")
                .hasMessageEndingWith("got a page without; add them where the tables belong");
        assertThatThrownBy(() -> QualityPage.read(dir.resolve("none.md")))
                .hasMessage(dir.resolve("none.md") + ": expected an existing page, got none; check the path");
    }
}

package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kernel.ApartKernels;
import millrace.engine.kernel.Backend;
import millrace.engine.kv.PageTable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// The transformer touches activations, weights and pages through the seam only: where they lie in a memory of their own,
/// and steps of single tokens are recorded and repeated, it computes the same.
final class ApartMemoryTest {
    private static final int[] IDS = TinyModel.tokens(60);

    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({
        "glm4_moe, INT8", "kimi_k2, BF16", "glm_moe_dsa, INT8", "glm4_moe_lite, FP8", "glm4, INT4", "qwen2, F32"
    })
    void anotherMemoryShouldGiveTheSameBits(String model, KvFormat format) throws IOException {
        TinyModel.of(model).write(dir);
        var apart = new ApartKernels();
        try (ModelRun here = ModelRun.open(dir, "scalar", 1, format);
                ModelRun there = ModelRun.open(dir, new Backend("apart", "for a test", apart), format)) {
            assertThat(there.transformer().logitBound()).isEqualTo(here.transformer().logitBound());
            List<float[]> expected = steps(here);
            List<float[]> got = steps(there);
            assertThat(got).hasSameSizeAs(expected);
            for (int step = 0; step < expected.size(); step++) {
                assertThat(bits(got.get(step))).as("step %d", step).isEqualTo(bits(expected.get(step)));
            }
            assertThat(apart.recorded()).containsExactlyInAnyOrder(1, 2, 4, 8);
            assertThat(apart.repeated()).isEqualTo(6);
        }
    }

    /// Prompts in pieces, all rows of one, then tokens of 1 to 5 sequences at once, again and again: logits and hidden
    /// rows of each step.
    private static List<float[]> steps(ModelRun run) {
        List<float[]> results = new ArrayList<>();
        List<PageTable> tables = new ArrayList<>();
        int[] lengths = new int[5];
        for (int i = 0; i < lengths.length; i++) {
            tables.add(run.newTable());
        }
        for (int i = 0; i < lengths.length; i++) {
            run.step(tables.get(i), IDS, 0, 3 + 4 * i, Logits.NONE);
            lengths[i] = 3 + 4 * i;
        }
        // A piece that ends a prompt, and one of which every row is wanted, beside a single token.
        run.plan().clear();
        add(run, tables, lengths, 2, 1, Logits.LAST);
        add(run, tables, lengths, 3, 9, Logits.LAST);
        add(run, tables, lengths, 4, 3, Logits.ALL);
        forward(run, results);
        for (int round = 0; round < 2; round++) {
            for (int n = 1; n <= lengths.length; n++) {
                run.plan().clear();
                for (int i = 0; i < n; i++) {
                    add(run, tables, lengths, i, 1, round == 0 ? Logits.LAST : Logits.ALL);
                }
                forward(run, results);
            }
        }
        tables.forEach(PageTable::release);
        return results;
    }

    private static void add(ModelRun run, List<PageTable> tables, int[] lengths, int i, int count, Logits wanted) {
        assertThat(tables.get(i).ensure(lengths[i] + count)).isTrue();
        run.plan().add(tables.get(i), IDS, lengths[i], count, lengths[i], wanted);
        lengths[i] += count;
    }

    private static void forward(ModelRun run, List<float[]> results) {
        int rows = run.transformer().forward(run.plan());
        results.add(Arrays.copyOf(run.transformer().logits(), rows * run.transformer().vocabSize()));
        results.add(Arrays.copyOf(run.transformer().hidden(), rows * run.transformer().hiddenSize()));
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        return bits;
    }
}

package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.engine.CudaConfig;
import millrace.engine.KvFormat;
import millrace.engine.Sampling;
import millrace.engine.TinyModel;
import millrace.engine.batch.LogitFacts;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.cuda.StandIn;
import millrace.engine.kv.PageTable;
import millrace.engine.sampling.Sampler;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Whole models on the CUDA backend: near the processor's results, and the same bits however a step is run.
final class CudaModelTest {
    private static final int[] IDS = TinyModel.tokens(60);

    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    /// `near`, of logits and hidden values, is relative to the largest of a step. For grouped INT8 the processor rounds queries to
    /// integers, and the device does not. More layers meet more keys that round to another number or code.
    @ParameterizedTest
    @CsvSource({
        "glm4_moe, F32, 3e-5", "glm4_moe, INT8, 2e-3", "kimi_k2, BF16, 3e-5", "glm4_moe_lite, FP8, 3e-5", "glm4, INT4, 3e-5",
        "qwen2, F32, 3e-5", "glm_moe_dsa, F32, 3e-5", "glm_moe_dsa, BF16, 0x1p-9", "glm_moe_dsa, INT8, 0x1p-7",
        "deepseek_v32, F32, 3e-5"
    })
    void stepsShouldBeNearTheProcessorsAndHaveTheSameBitsWhenRecorded(String model, KvFormat format, double near)
            throws IOException {
        TinyModel.of(model).write(dir);
        CudaConfig config = CudaConfig.STANDIN.withMemoryBytes(512 << 20);
        try (ModelRun cpu = ModelRun.open(dir, "scalar", 1, format);
                ModelRun cuda = ModelRun.open(dir, Backend.open("cuda", 2, config), format)) {
            assertThat(cuda.transformer().logitBound()).isEqualTo(cpu.transformer().logitBound());
            List<float[]> expected = steps(cpu);
            // Once as they are, once captured, once repeated.
            List<float[]> first = steps(cuda);
            for (int step = 0; step < expected.size(); step++) {
                assertNear(first.get(step), expected.get(step), near, step);
            }
            for (String how : new String[] {"captured", "repeated"}) {
                List<float[]> again = steps(cuda);
                for (int step = 0; step < expected.size(); step++) {
                    assertThat(again.get(step)).as("step %d, %s", step, how).containsExactly(first.get(step));
                }
            }
        }
    }

    /// Of contexts far beyond what is chosen: whole, in pieces, token by token as it is recorded, with the draft layer's.
    @Test
    void sparseAttentionShouldGiveTheLogitsOfTheReference() throws IOException {
        JsonNode golden = TinyModel.golden("golden_tiny").get("glm_moe_dsa");
        TinyModel.of("glm_moe_dsa").write(dir);
        int[] ids = TinyModel.tokens(golden.get("seq_len").intValue());
        CudaConfig config = CudaConfig.STANDIN.withMemoryBytes(512 << 20);
        try (ModelRun run = ModelRun.openDrafting(dir, Backend.open("cuda", 2, config), KvFormat.F32)) {
            float[] whole = run.last(ids, 128);
            for (int i = 0; i < 8; i++) {
                assertThat(whole[i]).as("logit %d", i).isCloseTo(golden.get("logits_first8").get(i).floatValue(), within(3e-5f));
            }
            for (int chunk : new int[] {7, 1}) {
                assertThat(run.last(ids, chunk)).as("chunks of %d", chunk).containsExactly(whole);
            }
            float[][] drafts = run.drafts(ids, 16);
            for (int i = 0; i < 4; i++) {
                assertThat(drafts[drafts.length - 1][i])
                        .as("draft logit %d", i)
                        .isCloseTo(golden.get("mtp_first4").get(i).floatValue(), within(3e-5f));
            }
        }
    }

    /// Steps as they are, captured and repeated: rows that are drawn do not come to the host, the tokens are the sampler's.
    @Test
    void rowsThatAreDrawnShouldStayOnTheDevice() throws IOException {
        TinyModel.of("glm4_moe").write(dir);
        CudaConfig config = CudaConfig.STANDIN.withMemoryBytes(512 << 20);
        try (ModelRun run = ModelRun.open(dir, Backend.open("cuda", 1, config), KvFormat.BF16)) {
            int vocab = run.config().vocabSize();
            var sampler = new Sampler(vocab);
            List<PageTable> tables = List.of(run.newTable(), run.newTable(), run.newTable());
            for (int step = 0; step < 8; step++) {
                run.plan().clear();
                for (int i = 0; i < 3; i++) {
                    assertThat(tables.get(i).ensure(step + 1)).isTrue();
                    run.plan().add(tables.get(i), IDS, step, 1, step, Logits.LAST);
                    if (i != 1) {
                        run.plan().draw(sampling(i), IDS, step + 1, step);
                    }
                }
                float[] logits = run.transformer().logits();
                Arrays.fill(logits, Float.NaN);
                assertThat(run.transformer().forward(run.plan())).isEqualTo(3);
                LogitFacts facts = run.transformer().facts();
                assertThat(facts).isNotNull();
                assertThat(logits[vocab]).as("the row that is read").isNotNaN();
                assertThat(facts.here(1)).isTrue();
                for (int i = 0; i < 3; i += 2) {
                    assertThat(facts.here(i)).isFalse();
                    for (int at = i * vocab; at < (i + 1) * vocab; at++) {
                        assertThat(logits[at]).isNaN();
                    }
                    int token = facts.drawn(i);
                    facts.bring(i);
                    assertThat(token).as("step %d, row %d", step, i)
                            .isEqualTo(sampler.choose(logits, i * vocab, sampling(i), IDS, step + 1, step));
                }
            }
            tables.forEach(PageTable::release);
        }
    }

    private static Sampling sampling(int row) {
        return row == 0 ? new Sampling(0.9f, 0.95f, 40, 0, 1.2f, 99) : new Sampling(1.2f, 0.9f, 0, 0.01f, 1, 7);
    }

    /// Pinned memory, launches and copies are made once; what is left is a few objects that the compiler does not see through.
    @Test
    void repeatedStepsShouldAllocateNextToNothing() throws IOException {
        TinyModel.of("glm4_moe").write(dir);
        CudaConfig config = CudaConfig.STANDIN.withMemoryBytes(512 << 20);
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (ModelRun run = ModelRun.open(dir, Backend.open("cuda", 1, config), KvFormat.BF16)) {
            PageTable table = run.newTable();
            assertThat(table.ensure(IDS.length)).isTrue();
            run.step(table, IDS, 0, 4, Logits.NONE);
            long before = 0;
            int foreign = 0;
            for (int position = 4; position < IDS.length; position++) {
                if (position == IDS.length - 20) {
                    before = threads.getCurrentThreadAllocatedBytes();
                }
                run.plan().clear();
                run.plan().add(table, IDS, position, 1, position, Logits.LAST);
                run.plan().draw(sampling(0), IDS, position, position);
                foreign += run.transformer().firstForeign(run.plan());
                run.transformer().forward(run.plan());
            }
            assertThat((threads.getCurrentThreadAllocatedBytes() - before) / 20).isLessThan(512);
            assertThat(foreign).as("every page is its sequence's").isEqualTo(4 - IDS.length);
            table.release();
        }
    }

    private static void assertNear(float[] got, float[] expected, double near, int step) {
        assertThat(got).hasSameSizeAs(expected);
        double largest = 0;
        double difference = 0;
        for (int i = 0; i < got.length; i++) {
            largest = Math.max(largest, Math.abs(expected[i]));
            difference = Math.max(difference, Math.abs(expected[i] - got[i]));
        }
        assertThat(difference).as("step %d, largest %f", step, largest).isLessThanOrEqualTo(near * largest);
    }

    /// Prompts in pieces, then tokens of 1 to 5 sequences at once: logits and hidden rows of each step.
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
        run.plan().clear();
        add(run, tables, lengths, 2, 1, Logits.LAST);
        add(run, tables, lengths, 3, 9, Logits.LAST);
        add(run, tables, lengths, 4, 3, Logits.ALL);
        forward(run, results);
        for (int n : new int[] {1, 3, 5}) {
            run.plan().clear();
            for (int i = 0; i < n; i++) {
                add(run, tables, lengths, i, 1, Logits.LAST);
            }
            forward(run, results);
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
}

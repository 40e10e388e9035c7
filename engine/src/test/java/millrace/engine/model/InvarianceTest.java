package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kv.PageTable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/// A row's logits are the same bits however the work was cut: asserted for every kind of attention, all cache formats.
final class InvarianceTest {
    private static final int[] IDS = TinyModel.tokens(50);

    @TempDir
    static Path root;

    private static final Map<String, Path> MODELS = new HashMap<>();

    @BeforeAll
    static void write() throws IOException {
        for (String name : new String[] {"glm4_moe", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa", "deepseek_v32", "glm4", "qwen2"}) {
            Path dir = root.resolve(name);
            Files.createDirectory(dir);
            MODELS.put(name, TinyModel.of(name).write(dir));
        }
    }

    static Stream<Arguments> cases() {
        return Stream.of(
                        cases("glm4_moe", KvFormat.of(KvFormat.Kind.GROUPED, 32)),
                        cases("kimi_k2", KvFormat.of(KvFormat.Kind.LATENT, 0)),
                        cases("glm_moe_dsa", KvFormat.of(KvFormat.Kind.LATENT, 0)))
                .flatMap(Function.identity());
    }

    private static Stream<Arguments> cases(String model, List<KvFormat> formats) {
        return formats.stream().map(format -> Arguments.of(model, format));
    }

    static Stream<Arguments> cheapCases() {
        return Stream.concat(
                cases(),
                Stream.of("glm4_moe_lite", "deepseek_v32", "glm4", "qwen2").map(model -> Arguments.of(model, KvFormat.BF16)));
    }

    @ParameterizedTest
    @MethodSource("cheapCases")
    void chunksShouldNotChangeBits(String model, KvFormat format) {
        try (ModelRun run = ModelRun.open(MODELS.get(model), "auto", 1, format)) {
            int[][] whole = bits(run.all(IDS, IDS.length));
            for (int chunk : new int[] {1, 7, 16}) {
                assertThat(bits(run.all(IDS, chunk))).as("chunks of %d", chunk).isDeepEqualTo(whole);
            }
            assertThat(bits(run.last(IDS, 13))).as("last row alone").isEqualTo(whole[IDS.length - 1]);
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void threadsShouldNotChangeBits(String model, KvFormat format) {
        try (ModelRun one = ModelRun.open(MODELS.get(model), "auto", 1, format);
                ModelRun two = ModelRun.open(MODELS.get(model), "auto", 2, format);
                ModelRun three = ModelRun.open(MODELS.get(model), "auto", 3, format)) {
            int[][] expected = bits(one.all(IDS, 25));
            assertThat(bits(two.all(IDS, 25))).isDeepEqualTo(expected);
            assertThat(bits(three.all(IDS, 50))).isDeepEqualTo(expected);
        }
    }

    @ParameterizedTest
    @MethodSource("cheapCases")
    void backendsShouldNotChangeBits(String model, KvFormat format) {
        int[] ids = Arrays.copyOf(IDS, 19);
        try (ModelRun scalar = ModelRun.open(MODELS.get(model), "scalar", 2, format);
                ModelRun vector = ModelRun.open(MODELS.get(model), "vector", 1, format);
                ModelRun fastest = ModelRun.open(MODELS.get(model), "auto", 2, format)) {
            int[][] expected = bits(scalar.all(ids, ids.length));
            assertThat(bits(vector.all(ids, 6))).as("vector").isDeepEqualTo(expected);
            assertThat(bits(fastest.all(ids, 9))).as("the fastest: native where the library is").isDeepEqualTo(expected);
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void companyShouldNotChangeBits(String model, KvFormat format) {
        try (ModelRun run = ModelRun.open(MODELS.get(model), "auto", 2, format)) {
            int[][] alone = bits(run.all(IDS, IDS.length));
            // Every size for the format in use, the ends for the others.
            for (int others = 1; others <= 16; others += format == KvFormat.BF16 ? 1 : 15) {
                assertThat(inCompany(run, others)).as("%d others", others).isEqualTo(alone[33]);
            }
        }
    }

    /// Position 33 computed as one row among rows of other sequences, each at its own position, some in longer
    /// segments.
    private static int[] inCompany(ModelRun run, int others) {
        PageTable[] tables = new PageTable[others + 1];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = run.newTable();
        }
        try {
            run.step(tables[0], IDS, 0, 33, Logits.NONE);
            for (int i = 1; i <= others; i++) {
                run.step(tables[i], rotated(i), 0, 1 + i, Logits.NONE);
            }
            run.plan().clear();
            int mine = others / 2;
            int row = 0;
            for (int i = 0; i <= others; i++) {
                int other = i <= mine ? i : i - 1;
                if (i == mine) {
                    assertThat(tables[0].ensure(34)).isTrue();
                    run.plan().add(tables[0], IDS, 33, 1, 33, Logits.LAST);
                } else {
                    int t = other + 1;
                    int rows = 1 + t % 3;
                    assertThat(tables[t].ensure(1 + t + rows)).isTrue();
                    run.plan().add(tables[t], rotated(t), 1 + t, rows, 1 + t, t % 2 == 0 ? Logits.ALL : Logits.LAST);
                    row += i < mine ? t % 2 == 0 ? rows : 1 : 0;
                }
            }
            assertThat(run.transformer().forward(run.plan())).isEqualTo(run.plan().logitRowCount());
            return bits(run.row(row));
        } finally {
            for (PageTable table : tables) {
                table.release();
            }
        }
    }

    private static int[] rotated(int by) {
        int[] ids = new int[IDS.length];
        for (int i = 0; i < ids.length; i++) {
            ids[i] = IDS[(i + by) % ids.length];
        }
        return ids;
    }

    private static int[][] bits(float[][] rows) {
        return Stream.of(rows).map(InvarianceTest::bits).toArray(int[][]::new);
    }

    private static int[] bits(float[] row) {
        int[] bits = new int[row.length];
        for (int i = 0; i < row.length; i++) {
            bits[i] = Float.floatToRawIntBits(row[i]);
        }
        return bits;
    }
}

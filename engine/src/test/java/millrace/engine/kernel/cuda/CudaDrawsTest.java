package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.function.DoubleUnaryOperator;
import java.util.zip.CRC32C;
import millrace.engine.Sampling;
import millrace.engine.kernel.Draws;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;
import millrace.engine.sampling.Sampler;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// A token that the device draws is the one that the sampler chooses from the same logits; what it cannot tell it leaves to the
/// host, and that is seldom.
@Tag(DeviceContract.TAG)
class CudaDrawsTest {
    /// What the heap holds of a row that was not brought.
    private static final float ABSENT = -12345.5f;

    private static final float[] TEMPERATURES = {0, 0.02f, 0.3f, 0.7f, 1, 1, 1.3f, 4};
    private static final float[] TOP_P = {1, 1, 0.999f, 0.95f, 0.8f, 0.3f, 1e-6f, Math.nextDown(1f)};
    private static final float[] MIN_P = {0, 0, 0.001f, 0.05f, 0.5f, 1};
    private static final float[] PENALTY = {1, 1, 1.1f, 0.7f, 2};

    private static CudaKernels kernels;

    @BeforeAll
    static void open() {
        StandIn.open().close();
        kernels = CudaKernels.open(StandIn.config(), 1);
    }

    @AfterAll
    static void close() {
        if (kernels != null) {
            kernels.close();
        }
    }

    /// A step's logits, hidden rows and facts.
    private record Step(Rows logits, Rows hidden, RowFacts facts, int rows) {
        static Step of(int rows, int width) {
            return new Step(kernels.hostRows(rows, width), kernels.hostRows(rows, 3), kernels.facts(rows, width), rows);
        }

        /// Brings what there is to the host; the heap then has nothing but what was brought.
        void fetch() {
            kernels.send(logits, rows);
            kernels.inspect(facts, logits, rows);
            Arrays.fill(logits.values(), ABSENT);
            kernels.fetch(logits, hidden, facts, rows);
        }
    }

    private static Sampling sampling(SplittableRandom random, int width) {
        int[] topK = {0, 0, 0, 1, 2, 7, 50, width - 1, width, width + 9};
        return new Sampling(
                TEMPERATURES[random.nextInt(TEMPERATURES.length)],
                TOP_P[random.nextInt(TOP_P.length)],
                Math.max(0, topK[random.nextInt(topK.length)]),
                MIN_P[random.nextInt(MIN_P.length)],
                PENALTY[random.nextInt(PENALTY.length)],
                random.nextLong());
    }

    /// @return how many rows were left to the host
    private static int check(int width, int rows, int steps, long seed, DoubleUnaryOperator shape) {
        var random = new SplittableRandom(seed);
        Step step = Step.of(rows, width);
        var sampler = new Sampler(width);
        int undecided = 0;
        for (int n = 0; n < steps; n++) {
            float[] values = step.logits().values();
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) shape.applyAsDouble(random.nextGaussian());
            }
            float[] expected = values.clone();
            Draws draws = step.facts().draws();
            draws.clear();
            Sampling[] samplings = new Sampling[rows];
            int[] tokens = random.ints(40, 0, width).toArray();
            for (int row = 0; row < rows; row++) {
                samplings[row] = row % 7 == 6 ? null : sampling(random, width);
                if (samplings[row] != null) {
                    draws.ask(row, samplings[row], tokens, row % 40, (long) n << 33 | row);
                }
            }
            step.fetch();
            for (int row = 0; row < rows; row++) {
                int at = row * width;
                assertThat(step.facts().checksum(row)).as("digest").isEqualTo(crc(expected, at, width));
                if (samplings[row] == null) {
                    assertThat(draws.absent(row)).isFalse();
                } else {
                    assertThat(draws.absent(row)).isTrue();
                    assertThat(values[at]).as("not brought").isEqualTo(ABSENT);
                    int token = draws.token(row);
                    if (token == Draws.UNDECIDED) {
                        undecided++;
                    } else {
                        assertThat(token).as("width %d, %s", width, samplings[row]).isEqualTo(sampler.choose(
                                expected, at, samplings[row], tokens, row % 40, (long) n << 33 | row));
                    }
                    kernels.bring(step.logits(), step.facts(), row);
                    assertThat(draws.absent(row)).isFalse();
                }
                assertThat(Arrays.equals(values, at, at + width, expected, at, at + width)).as("row %d", row).isTrue();
            }
        }
        return undecided;
    }

    private static int crc(float[] values, int at, int width) {
        ByteBuffer bytes = ByteBuffer.allocate(Float.BYTES * width).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asFloatBuffer().put(values, at, width);
        var crc = new CRC32C();
        crc.update(bytes);
        return (int) crc.getValue();
    }

    @ParameterizedTest
    @CsvSource({"2, 12", "3, 12", "31, 8", "32, 8", "257, 8", "4096, 3", "4097, 3", "9001, 3"})
    void tokensAreTheSamplers(int width, int steps) {
        for (double scale : new double[] {0.05, 1, 4, 30}) {
            int undecided = check(width, 9, steps, width, x -> scale * x);
            assertThat(undecided).as("scale %f", scale).isLessThanOrEqualTo(1);
        }
    }

    @Test
    void equalScoresAreLeftToTheHostAtMost() {
        // Steps of a quarter, of one, and hardly any.
        for (double quantum : new double[] {0.25, 1, 20}) {
            check(300, 9, 12, 7, x -> Math.rint(3 * x / quantum) * quantum);
        }
        check(300, 9, 6, 8, x -> x > 0 ? 0.0 : -0.0);
    }

    @Test
    void tokensAreTheSamplersInEverySchedule() {
        StandIn.inEverySchedule(() -> check(777, 5, 2, 11, x -> 3 * x));
    }

    @Test
    void extremeScoresHaveTheSamplersTokens() {
        check(500, 9, 4, 21, x -> 1e30 * x);
        check(500, 9, 4, 22, x -> 1e-40 * x);
        check(500, 9, 4, 23, x -> x > 2 ? 1000 : -1000 + x);
    }

    @Test
    void rowsOfALargeVocabularyAreSeldomLeftToTheHost() {
        int undecided = check(151_936, 8, 2, 3, x -> 3 * x);
        assertThat(undecided).isZero();
    }

    /// The guard comes first: whatever is drawn from such a row is not taken, and drawing ends.
    @Test
    void rowsWithoutNumbersAreFoundByTheGuard() {
        Step step = Step.of(3, 1000);
        Arrays.fill(step.logits().values(), Float.NaN);
        step.logits().values()[1500] = Float.POSITIVE_INFINITY;
        step.facts().draws().clear();
        for (int row = 0; row < 3; row++) {
            step.facts().draws().ask(row, new Sampling(1, 0.9f, 40, 0.1f, 1.1f, 5), new int[] {1, 2}, 2, row);
        }
        step.fetch();
        for (int row = 0; row < 3; row++) {
            assertThat(step.facts().largest(row)).isGreaterThanOrEqualTo(0x7F80_0000);
        }
    }

    /// More rows with a penalty than there is room for on the device.
    @Test
    void rowsWithoutRoomForTheirPenaltyComeToTheHost() {
        Step step = Step.of(70, 64);
        Draws draws = step.facts().draws();
        draws.clear();
        for (int i = 0; i < step.logits().values().length; i++) {
            step.logits().values()[i] = i % 64 == 5 ? 50 : 0.001f * (i % 64);
        }
        for (int row = 0; row < 70; row++) {
            draws.ask(row, new Sampling(1, 1, 0, 0, 1.5f, row), new int[] {5}, 1, 0);
        }
        step.fetch();
        for (int row = 0; row < 70; row++) {
            assertThat(draws.absent(row)).as("row %d", row).isEqualTo(row < 64);
            assertThat(draws.token(row)).isEqualTo(row < 64 ? 5 : Draws.UNDECIDED);
            assertThat(step.logits().values()[64 * row + 5]).isEqualTo(row < 64 ? ABSENT : 50);
        }
    }
}

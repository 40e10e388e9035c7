package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import millrace.engine.Sampling;
import millrace.engine.sampling.Sampler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class LogitsCheckTest {
    private static final int OFFSET = 7;

    /// Parts in the order that nobody expects: what is found does not depend on it.
    private static final LogitsCheck.Team BACKWARDS = (count, task) -> {
        for (int i = count; i-- > 0; ) {
            task.accept(i);
        }
    };

    @ParameterizedTest
    @ValueSource(ints = {2, 64, 4_095, 4_096, 4_097, 10_000, 16_384, 16_385, 50_000})
    void findsWhatCannotBeWhereverItStands(int vocabSize) {
        var check = new LogitsCheck(vocabSize, 12.5f, null, BACKWARDS);
        var random = new SplittableRandom(vocabSize);
        float[] row = row(random, vocabSize);
        assertThat(check.problem(row, OFFSET, false)).isNull();
        for (int i = 0; i < 200; i++) {
            int at = i < 4 ? (i % 2) * (vocabSize - 1) : random.nextInt(vocabSize);
            assertProblem(check, row, at, Float.NaN, "nan");
            assertProblem(check, row, at, Float.intBitsToFloat(0xFFC1_2345), "nan");
            assertProblem(check, row, at, Float.POSITIVE_INFINITY, "nan");
            assertProblem(check, row, at, Float.NEGATIVE_INFINITY, "nan");
            assertProblem(check, row, at, 12.5f, null);
            assertProblem(check, row, at, -12.5f, null);
            assertProblem(check, row, at, Math.nextUp(12.5f), "bound");
            assertProblem(check, row, at, -Math.nextUp(12.5f), "bound");
        }
    }

    @Test
    void findsARowOfEqualNumbers() {
        float[] row = new float[5_000];
        java.util.Arrays.fill(row, 3f);
        var check = new LogitsCheck(5_000 - OFFSET, 100);
        assertThat(check.problem(row, OFFSET, false)).isEqualTo("equal");
        row[4_999] = Math.nextUp(3f);
        assertThat(check.problem(row, OFFSET, false)).isNull();
        assertThat(new LogitsCheck(1, 100).problem(row, OFFSET, false)).as("a vocabulary of one").isNull();
    }

    @Test
    void looksAtNothingElse() {
        float[] row = row(new SplittableRandom(1), 100);
        row[OFFSET - 1] = Float.NaN;
        row[OFFSET + 100] = Float.NaN;
        assertThat(new LogitsCheck(100, 20).problem(row, OFFSET, false)).isNull();
    }

    /// What a device says of three rows.
    private record Facts(int[] largest, int[] differing, int[] best, int[] bestBits) implements LogitFacts {
        @Override
        public int largest(int row) {
            return largest[row];
        }

        @Override
        public int differing(int row) {
            return differing[row];
        }

        @Override
        public int best(int row) {
            return best[row];
        }

        @Override
        public int bestBits(int row) {
            return bestBits[row];
        }
    }

    @Test
    void takesWhatIsKnownOfARowAndComparesTheOneNumberThatIsUsed() {
        int three = Float.floatToRawIntBits(3f);
        var facts = new Facts(
                new int[] {three, 0x7FC0_0000, Float.floatToRawIntBits(20f), three, three},
                new int[] {1, 1, 1, 0, 1},
                new int[] {1, 0, 0, 0, 0},
                new int[] {three, 0, 0, three, three});
        var check = new LogitsCheck(2, 10f, facts, BACKWARDS);
        float[] logits = {1f, 3f, 1f, 1f, 1f, 1f, 3f, 3f, 2.999f, 1f};

        assertThat(check.problem(logits, 0, true)).isNull();
        assertThat(check.best()).isEqualTo(1);
        assertThat(check.problem(logits, 2, true)).isEqualTo("nan");
        assertThat(check.problem(logits, 4, true)).isEqualTo("bound");
        assertThat(check.problem(logits, 6, true)).isEqualTo("equal");
        assertThat(check.problem(logits, 8, true)).as("another number has arrived").isEqualTo("copy");
    }

    @ParameterizedTest
    @CsvSource({"1, 5000", "4, 16384", "5, 16385", "32, 40000", "40, 1"})
    void digestsAreOfRawLittleEndianRowsChained(int every, int vocabSize) {
        int tokens = 37;
        var check = new LogitsCheck(vocabSize, 20, null, BACKWARDS);
        var digests = new LogitsDigests(check.rowBytes(), every, 64);
        var random = new SplittableRandom(every);
        List<Integer> expected = new ArrayList<>();
        CRC32C crc = new CRC32C();
        for (int t = 0; t < tokens; t++) {
            float[] row = row(random, vocabSize);
            ByteBuffer bytes = ByteBuffer.allocate(4 * vocabSize).order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < vocabSize; i++) {
                bytes.putFloat(row[OFFSET + i]);
            }
            crc.update(bytes.array());
            add(digests, check, row);
            if ((t + 1) % every == 0 || t == tokens - 1) {
                expected.add((int) crc.getValue());
                crc.reset();
            }
        }
        assertThat(digests.values()).isEqualTo(expected);
        assertThat(digests.every()).isEqualTo(every);
    }

    /// Also where all are negative, where several are largest, and for the two zeros, which are equal.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4_097, 16_384, 16_385, 50_000})
    void knowsTheFirstOfTheLargest(int vocabSize) {
        var check = new LogitsCheck(vocabSize, 20, null, BACKWARDS);
        var random = new SplittableRandom(vocabSize);
        var sampler = new Sampler(vocabSize);
        for (int i = 0; i < 60; i++) {
            float[] row = row(random, vocabSize);
            for (int t = 0; t < vocabSize; t++) {
                row[OFFSET + t] = switch (i % 4) {
                    case 0 -> row[OFFSET + t];
                    case 1 -> -1 - Math.abs(row[OFFSET + t]);
                    case 2 -> Math.round(row[OFFSET + t] / 5);
                    default -> random.nextInt(3) == 0 ? -0f : random.nextInt(2) == 0 ? 0f : -1f;
                };
            }
            check.problem(row, OFFSET, false);
            assertThat(check.best()).isEqualTo(sampler.choose(row, OFFSET, Sampling.GREEDY, new int[0], 0, 0));
        }
    }

    @Test
    void goesBackToTheEndOfAWholeDigest() {
        var check = new LogitsCheck(10, 20);
        var random = new SplittableRandom(3);
        List<float[]> rows = new ArrayList<>();
        var whole = new LogitsDigests(check.rowBytes(), 4, 20);
        for (int t = 0; t < 18; t++) {
            rows.add(row(random, 10));
            add(whole, check, rows.get(t));
        }
        for (int keep = 0; keep <= 18; keep++) {
            var again = new LogitsDigests(check.rowBytes(), 4, 20);
            rows.forEach(row -> add(again, check, row));
            int kept = again.keep(keep);
            assertThat(kept).isEqualTo(keep == 18 ? 18 : keep - keep % 4);
            for (int t = kept; t < 18; t++) {
                add(again, check, rows.get(t));
            }
            assertThat(again.values()).isEqualTo(whole.values());
        }
    }

    @Test
    void thereMayBeNone() {
        var digests = new LogitsDigests(40, 0, 20);
        digests.add(7);
        assertThat(digests.values()).isEmpty();
        assertThat(digests.keep(1)).isOne();
    }

    private static void add(LogitsDigests digests, LogitsCheck check, float[] row) {
        assertThat(check.problem(row, OFFSET, true)).isIn(null, "equal");
        digests.add(check.checksum());
    }

    private static void assertProblem(LogitsCheck check, float[] row, int at, float value, String problem) {
        float old = row[OFFSET + at];
        row[OFFSET + at] = value;
        assertThat(check.problem(row, OFFSET, false)).as("%s at %d", value, at).isEqualTo(problem);
        row[OFFSET + at] = old;
    }

    private static float[] row(SplittableRandom random, int vocabSize) {
        float[] row = new float[OFFSET + vocabSize + 1];
        for (int i = 0; i < row.length; i++) {
            row[i] = (float) (random.nextDouble() * 20 - 10);
        }
        return row;
    }
}

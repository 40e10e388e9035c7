package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class StepInputsTest {
    private final StepInputs inputs = new StepInputs(80, 4, Rows.allocate(80, 2));
    private final long[] pages = {64, 128, 192, 256};

    private void segment(int rows, int start, int wanted) {
        for (int i = 0; i < rows; i++) {
            inputs.addRow(100 + start + i);
        }
        inputs.addSegment(pages, pages.length, rows, start, wanted);
    }

    @Test
    void segmentsShouldBeNumberedAmongAllRowsAndAmongTheWanted() {
        segment(1, 17, 1);
        segment(8, 16, 0);
        segment(5, 3, 1);
        segment(3, 0, 3);
        assertThat(inputs.rows()).isEqualTo(17);
        assertThat(inputs.tokens()).startsWith(117, 116).contains(102);
        assertThat(inputs.wanted()).isEqualTo(5);
        assertThat(inputs.wantedRows()).startsWith(0, 13, 14, 15, 16);
        assertThat(segments(inputs.batch())).containsExactly("0+1 at 17", "1+8 at 16", "9+5 at 3", "14+3 at 0");
        assertThat(segments(inputs.wantedBatch())).containsExactly("0+1 at 17", "1+1 at 7", "2+3 at 0");
        assertThat(inputs.bucket()).isZero();
    }

    private static List<String> segments(CacheBatch batch) {
        List<String> all = new ArrayList<>();
        for (int s = 0; s < batch.count(); s++) {
            all.add("%d+%d at %d".formatted(batch.firstRow(s), batch.rows(s), batch.startPosition(s)));
        }
        return all;
    }

    @Test
    void stepsOfSingleTokensShouldHaveTheLeastBucketThatHoldsThem() {
        int[] expected = {0, 1, 2, 4, 4, 8, 8, 8, 8, 16};
        for (int rows = 0; rows < expected.length; rows++) {
            assertBucket(rows, expected[rows]);
        }
        assertBucket(33, 64);
        assertBucket(64, 64);
        assertBucket(65, 0);
    }

    private void assertBucket(int rows, int bucket) {
        inputs.clear();
        for (int row = 0; row < rows; row++) {
            segment(1, row % 60, 1);
        }
        assertThat(inputs.bucket()).as("%d rows", rows).isEqualTo(bucket);
    }

    @Test
    void segmentsThatDoNotFitShouldBeRefused() {
        inputs.addRow(1);
        assertThatThrownBy(() -> inputs.addSegment(new long[5], 5, 1, 70, 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("step inputs: 1 of 1 rows, 1 wanted, on 5 pages of at most 4");
        assertThatThrownBy(() -> inputs.addSegment(pages, 4, 2, 0, 1))
                .hasMessage("step inputs: 2 of 1 rows, 1 wanted, on 4 pages of at most 4");
        assertThatThrownBy(() -> inputs.addSegment(pages, 4, 1, 0, 2))
                .hasMessage("step inputs: 1 of 1 rows, 2 wanted, on 4 pages of at most 4");
    }

    @Test
    void aRowThatIsNotWantedOrNotAloneShouldHaveNoBucket() {
        segment(1, 5, 1);
        segment(1, 5, 0);
        assertThat(inputs.bucket()).isZero();
        inputs.clear();
        segment(2, 5, 2);
        assertThat(inputs.bucket()).isZero();
        inputs.clear();
        segment(1, 5, 1);
        assertThat(inputs.bucket()).isOne();
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.ValueLayout;
import java.util.Random;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.StepInputs;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// A page that is not its sequence's, or a table that changed on its way, is found before a step reads it.
@Tag(DeviceContract.TAG)
class CudaTagsTest {
    private static final int PAGE = 192;
    private static final int SLABS = 3;
    private static final int PAGES = 70;

    private static Gpu gpu;
    private static DeviceLab lab;
    private final Random random = new Random(8);
    private CudaTags tags;
    private CudaInputs step;
    private StepInputs inputs;
    private CacheMemory cache;
    private final long[] pages = new long[SLABS * PAGES];
    private final int[] epochs = new int[pages.length];

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
        lab = new DeviceLab(gpu);
    }

    @AfterAll
    static void close() {
        if (gpu != null) {
            gpu.close();
        }
    }

    /// Three sequences: one that decodes behind many pages, one whose whole prompt is computed, one of one token.
    @BeforeEach
    void fill() {
        gpu.own();
        tags = new CudaTags(gpu);
        step = new CudaInputs(gpu, 40, 100, 4);
        inputs = step.inputs();
        cache = new CudaCache(gpu, tags);
        for (int slab = 0; slab < SLABS; slab++) {
            long start = cache.allocate((long) PAGE * PAGES);
            for (int i = 0; i < PAGES; i++) {
                pages[slab * PAGES + i] = start + (long) PAGE * i;
            }
        }
        for (int i = 0; i < pages.length; i++) {
            own(i, 1 + random.nextInt(1_000_000));
        }
        plan();
        step.send();
    }

    private void own(int page, int epoch) {
        epochs[page] = epoch;
        cache.own(pages[page], PAGE, epoch);
    }

    private void plan() {
        inputs.clear();
        segment(0, 100, 1, 16 * 100 - 1, 1);
        segment(100, 3, 37, 0, 1);
        segment(209, 1, 1, 0, 1);
    }

    private void segment(int from, int count, int rows, int start, int wanted) {
        for (int i = 0; i < rows; i++) {
            inputs.addRow(1);
        }
        long[] addresses = new long[count];
        int[] held = new int[count];
        System.arraycopy(pages, from, addresses, 0, count);
        System.arraycopy(epochs, from, held, 0, count);
        inputs.addSegment(addresses, held, count, rows, start, wanted);
    }

    @Test
    void pagesThatAreTheirHoldersPass() {
        StandIn.inEverySchedule(() -> {
            step.send();
            assertThat(step.firstForeign(tags)).isEqualTo(-1);
        });
    }

    @Test
    void everyFlippedBitOfATableIsFoundAndGoneWithTheNext() {
        for (int i = 0; i < 150; i++) {
            int page = random.nextInt(104);
            lab.flip(step.of(inputs.batch()).pages() + 8L * page, random.nextInt(64));
            assertThat(step.firstForeign(tags)).isEqualTo(page < 100 ? 0 : page < 103 ? 1 : 2);
            step.send();
            assertThat(step.firstForeign(tags)).isEqualTo(-1);
        }
    }

    @Test
    void aFlippedBitInTheTableOfWantedRowsIsFoundInItsSequence() {
        lab.flip(step.of(inputs.wantedBatch()).pages() + 8L * 101, 12);
        assertThat(step.firstForeign(tags)).isEqualTo(1);
    }

    @Test
    void everyFlippedBitOfATagIsFoundAndMadeGood() {
        assertThat(step.firstForeign(tags)).isEqualTo(-1);
        for (int i = 0; i < 60; i++) {
            int page = random.nextInt(100);
            lab.flip(tags.tagsAddress() + 4L * page, random.nextInt(32));
            assertThat(step.firstForeign(tags)).isZero();
            assertThat(step.firstForeign(tags)).as("sent again").isEqualTo(-1);
        }
    }

    @Test
    void aPageThatSomebodyElseGotIsFound() {
        assertThat(step.firstForeign(tags)).isEqualTo(-1);
        int before = epochs[101];
        own(101, before + 1);
        assertThat(step.firstForeign(tags)).isEqualTo(1);
        plan();
        step.send();
        assertThat(step.firstForeign(tags)).as("the new holder").isEqualTo(-1);
    }

    @Test
    void ownersOfManyPagesAreSentInAsManyCopiesAsItTakes() {
        assertThat(step.firstForeign(tags)).isEqualTo(-1);
        var other = new CudaTags(gpu);
        try (CacheMemory many = new CudaCache(gpu, other)) {
            long start = many.allocate(64L * 9_000);
            many.own(start, 64, 1);
            inputs.clear();
            inputs.addRow(1);
            inputs.addSegment(new long[] {start + 64L * 8_999}, new int[] {8_999}, 1, 1, 0, 1);
            step.send();
            assertThat(step.firstForeign(other)).as("before it has an owner").isZero();
            assertThat(step.firstForeign(other)).isZero();
            for (int i = 0; i < 9_000; i++) {
                many.own(start + 64L * i, 64, 7);
                many.own(start + 64L * i, 64, i);
            }
            // The first check sends all, so change them once more for the second.
            assertThat(step.firstForeign(other)).isEqualTo(-1);
            for (int i = 0; i < 9_000; i++) {
                many.own(start + 64L * i, 64, i + 1);
            }
            assertThat(step.firstForeign(other)).isZero();
        }
    }

    @Test
    void withoutHandOutsNothingIsCompared() {
        inputs.clear();
        inputs.addRow(1);
        inputs.addSegment(new long[] {64}, 1, 1, 0, 1);
        step.send();
        assertThat(step.firstForeign(tags)).isEqualTo(-1);
    }

    @Test
    void refusesPagesOfAnotherMemory() {
        assertThatThrownBy(() -> cache.own(64, PAGE, 1))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("KV cache: no page of this memory at 40");
        inputs.clear();
        inputs.addRow(1);
        inputs.addSegment(new long[] {64}, new int[] {1}, 1, 1, 0, 1);
        step.send();
        assertThat(step.firstForeign(tags)).isZero();
        var empty = new CudaTags(gpu);
        assertThatThrownBy(() -> step.firstForeign(empty))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("KV cache: expected pages that were handed out, got 1 others");
    }
}

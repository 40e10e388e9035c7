package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import millrace.engine.kernel.cuda.Emulator.Result;
import millrace.engine.kernel.cuda.Emulator.Shape;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Each kernel of planted.cu has one mistake, and the emulator finds it: only so do green tests say something.
class PlantedBugsTest {
    private static final String ONE_BLOCK = ", block (0,0,0), thread ";

    @ParameterizedTest
    @ValueSource(longs = {StandinOptions.FORWARD, StandinOptions.REVERSE, StandinOptions.SHUFFLED})
    void aMissingBarrierShowsInEverySchedule(long schedule) {
        try (Emulator emulator = Emulator.open().with("schedule", schedule)) {
            MemorySegment good = emulator.floats(64);
            MemorySegment bad = emulator.floats(64);
            assertThat(emulator.run("planted_none", Shape.of(1, 64, 256), good).code()).isZero();
            assertThat(emulator.run("planted_no_barrier", Shape.of(1, 64, 256), bad).code()).isZero();
            for (int i = 0; i < 64; i++) {
                assertThat(emulator.toFloats(good)[i]).isEqualTo(63 - i);
            }
            assertThat(emulator.toFloats(bad)).contains(Float.NaN);
        }
    }

    @Test
    void aBarrierInEachBranchIsRefused() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_two_barriers", Shape.of(1, 64, 0), emulator.floats(64));
            assertThat(result.message()).startsWith("kernel planted_two_barriers" + ONE_BLOCK + "(32,0,0), warp 1 lane 0: "
                    + "divergent barrier: this thread is at planted.cu:").contains(", others wait at planted.cu:");
            assertThat(result.code()).isOne();
        }
    }

    @Test
    void aBarrierThatNotAllReachIsADeadlock() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_half_barrier", Shape.of(1, 64, 0), emulator.floats(64));
            assertThat(result.message()).matches("kernel planted_half_barrier, block \\(0,0,0\\): deadlock, 32 of 64 threads have not "
                    + "returned: warp 0 lanes ffffffff \\(live ffffffff\\) in a barrier at planted.cu:\\d+");
        }
    }

    @Test
    void aLaneOutsideOfItsMaskIsRefused() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_foreign_mask", Shape.of(1, 32, 0), emulator.floats(32));
            assertThat(result.message()).startsWith("kernel planted_foreign_mask" + ONE_BLOCK + "(16,0,0), warp 0 lane 16: a shuffle at "
                    + "planted.cu:").endsWith(": the mask 0000ffff lacks the lane that calls");
        }
    }

    @Test
    void lanesThatMeetForDifferentThingsAreRefused() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_split_shuffle", Shape.of(1, 32, 0), emulator.floats(32));
            assertThat(result.message()).contains("(16,0,0), warp 0 lane 16: lanes disagree: this one is in a vote at planted.cu:")
                    .contains(" with mask ffffffff, lane 0 waits in a shuffle at planted.cu:");
        }
    }

    @Test
    void aLaneThatShufflesAloneIsADeadlock() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_lone_shuffle", Shape.of(1, 32, 0), emulator.floats(32));
            assertThat(result.message()).matches("kernel planted_lone_shuffle, block \\(0,0,0\\): deadlock, 32 of 32 threads have not "
                    + "returned: warp 0 lanes 00000001 \\(live ffffffff\\) in a shuffle at planted.cu:\\d+ with mask ffffffff; "
                    + "warp 0 lanes fffffffe \\(live ffffffff\\) in a barrier at planted.cu:\\d+");
        }
    }

    @Test
    void halfAWarpCannotMultiply() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_half_mma", Shape.of(1, 32, 0), emulator.floats(32));
            assertThat(result.message()).contains("lane 16: mma bf16 at planted.cu:").endsWith(" needs all 32 lanes; live are ffff0000");
        }
    }

    @Test
    void aMissingWaitReadsPoison() {
        try (Emulator emulator = Emulator.open()) {
            MemorySegment out = emulator.floats(64);
            assertThat(emulator.run("planted_no_wait", Shape.of(1, 64, 1024), emulator.floats(256), out).code()).isZero();
            assertThat(emulator.toFloats(out)).containsOnly(Float.NaN);
        }
    }

    @Test
    void aCopyThatLandsTooEarlyIsFoundWhereCopiesLandEarly() {
        try (Emulator emulator = Emulator.open()) {
            int steps = 4;
            MemorySegment in = emulator.floats(steps * 128);
            MemorySegment late = emulator.floats(32);
            MemorySegment early = emulator.floats(32);
            emulator.run("planted_ring", Shape.of(1, 32, 1024), in, late, steps);
            emulator.with("landing", StandinOptions.EARLY).run("planted_ring", Shape.of(1, 32, 1024), in, early, steps);
            float[] right = new float[32];
            for (int i = 0; i < 32; i++) {
                for (int s = 0; s < steps; s++) {
                    right[i] += s * 128 + 4 * (31 - i);
                }
            }
            assertThat(emulator.toFloats(late)).isEqualTo(right);
            assertThat(emulator.toFloats(early)).isNotEqualTo(right);
        }
    }

    @Test
    void aStageThatIsReadWhileTheNextCopyLandsIsFound() {
        try (Emulator emulator = Emulator.open()) {
            MemorySegment out = emulator.floats(32);
            emulator.run("planted_early_copy", Shape.of(1, 32, 512), emulator.floats(256), out);
            float[] right = new float[32];
            for (int i = 0; i < 32; i++) {
                right[i] = 4 * (i ^ 1) + 128 + 4 * (i ^ 1);
            }
            assertThat(emulator.toFloats(out)).isNotEqualTo(right);
        }
    }

    @Test
    void sharedMemoryEndsWhereItEnds() {
        try (Emulator emulator = Emulator.open().with("guard", 1)) {
            Result result = emulator.run("planted_out_of_shared", Shape.of(1, 64, 256), emulator.floats(64));
            assertThat(result.code()).isEqualTo(2);
            assertThat(result.message()).startsWith("kernel planted_out_of_shared" + ONE_BLOCK + "(60,0,0): access to the address 0x")
                    .endsWith(", which is not its own");
        }
    }

    @Test
    void aBlockFindsNothingOfTheOneBefore() {
        try (Emulator emulator = Emulator.open()) {
            MemorySegment out = emulator.words(new int[4]);
            emulator.run("planted_unset_shared", Shape.of(4, 32, 0), out);
            // 0xffffffff and 32 more.
            assertThat(out.toArray(ValueLayout.JAVA_INT)).containsOnly(31);
        }
    }

    @Test
    void aMisalignedLoadIsRefused() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_misaligned", Shape.of(1, 1, 0), emulator.floats(8), emulator.floats(8));
            assertThat(result.message()).endsWith("a load of 16 bytes is not aligned to 16");
        }
    }

    @Test
    void aWaitForACopyThatNobodyBeganEnds() {
        try (Emulator emulator = Emulator.open()) {
            Result result = emulator.run("planted_no_copy", Shape.of(1, 32, 64), emulator.floats(32));
            assertThat(result.message()).endsWith("threads wait for a copy or a flag that never comes");
        }
    }

    @Test
    void whatDependsOnTheOrderOfBlocksDiffersBetweenSchedules() {
        try (Emulator emulator = Emulator.open().with("threads", 1)) {
            MemorySegment forward = emulator.words(new int[8]);
            MemorySegment reverse = emulator.words(new int[8]);
            emulator.run("planted_order", Shape.of(8, 1, 0), emulator.words(0), forward);
            emulator.with("schedule", StandinOptions.REVERSE).run("planted_order", Shape.of(8, 1, 0), emulator.words(0), reverse);
            assertThat(forward.mismatch(emulator.words(0, 1, 2, 3, 4, 5, 6, 7))).isEqualTo(-1);
            assertThat(reverse.mismatch(emulator.words(7, 6, 5, 4, 3, 2, 1, 0))).isEqualTo(-1);
        }
    }

    @Test
    void aTrapNamesItsThread() {
        try (Emulator emulator = Emulator.open()) {
            MemorySegment out = emulator.floats(64);
            out.setAtIndex(ValueLayout.JAVA_FLOAT, 37, -1);
            Result result = emulator.run("planted_trap", Shape.of(1, 64, 0), out);
            assertThat(result).isEqualTo(new Result(1, "kernel planted_trap" + ONE_BLOCK + "(37,0,0), warp 1 lane 5: __trap"));
        }
    }
}

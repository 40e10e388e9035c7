package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.streams.LogMemory.Range;
import org.junit.jupiter.api.Test;

class LogMemoryTest {
    private final LogMemory memory = new LogMemory(epochMs -> false);
    private long number;

    private IntegrityEvent event(Kind kind, Result result) {
        return new IntegrityEvent(++number, kind, result, "", "", 0, IntegrityEvent.NO_STEP);
    }

    private void answer(LogMemory of, long seq, long step) {
        of.wrote(seq);
        of.answered(seq, step);
    }

    @Test
    void namesExactlyTheAnswersOfTheStepsInDoubt() {
        for (long seq = 10; seq < 20; seq++) {
            answer(memory, seq, 100 + seq);
        }
        assertThat(memory.suspects(115)).containsExactly(new Range(15, 19, false));
        assertThat(memory.suspects(1)).containsExactly(new Range(10, 19, false));
        assertThat(memory.suspects(119)).containsExactly(new Range(19, 19, false));
        assertThat(memory.suspects(120)).isEmpty();
        assertThat(memory.suspects(IntegrityEvent.NO_STEP)).isEmpty();
    }

    /// Answers of other tasks' prompts, refusals and events have seqs in between; only an answer that is not in doubt parts
    /// a range.
    @Test
    void leavesThatNobodyComputedAreNeitherInDoubtNorPartARange() {
        answer(memory, 3, 50);
        answer(memory, 5, 0);
        answer(memory, 8, 60);
        answer(memory, 9, 40);
        answer(memory, 12, 70);
        assertThat(memory.suspects(50)).containsExactly(new Range(3, 8, false), new Range(12, 12, false));
        assertThat(memory.suspects(55)).containsExactly(new Range(8, 8, false), new Range(12, 12, false));
        assertThat(memory.remembered()).isEqualTo(4);
    }

    @Test
    void anEmptyRangeNamesNoLeaf() {
        assertThat(Range.none(7)).isEqualTo(new Range(7, 6, false));
        assertThat(Range.none(7).leaves()).isZero();
        assertThat(new Range(7, 9, false).leaves()).isEqualTo(3);
    }

    @Test
    void goesBackToItsFirstLeafWhereItHasForgotten() {
        LogMemory small = new LogMemory(epochMs -> false, 100);
        small.wrote(4);
        for (long seq = 5; seq < 205; seq++) {
            answer(small, seq, seq);
        }
        assertThat(small.remembered()).isEqualTo(100);
        assertThat(small.suspects(150)).as("within memory").containsExactly(new Range(150, 204, false));
        assertThat(small.suspects(105)).as("all that is remembered").containsExactly(new Range(105, 204, false));
        assertThat(small.suspects(104)).as("further back").containsExactly(new Range(4, 204, true));
    }

    @Test
    void forgetsWhatWasRolledBackWithATransaction() {
        for (long seq = 0; seq < 10; seq++) {
            answer(memory, seq, seq + 1);
        }
        memory.rewind(6);
        answer(memory, 6, 50);
        assertThat(memory.suspects(5)).containsExactly(new Range(4, 6, false));
        assertThat(memory.suspects(6)).containsExactly(new Range(5, 6, false));
        memory.rewind(0);
        assertThat(memory.suspects(0)).isEmpty();
    }

    /// What this process wrote last was rolled back while another had the log, and has written past it.
    @Test
    void forgetsWhatWasRolledBackUnderTheLeavesOfAnother() {
        memory.began(0);
        for (long seq = 0; seq < 10; seq++) {
            answer(memory, seq, seq + 1);
        }
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 10)).isTrue();
        LogWriters writers = LogWriters.NONE.begin(1, 0).begin(2, 7);
        memory.rewind(20, seq -> writers.mayHaveWritten(1, seq));
        assertThat(memory.seen()).as("its leaf is gone, though the log is longer").isZero();
        assertThat(memory.suspects(1)).as("7 to 9 are answers of another").containsExactly(new Range(0, 6, false));
    }

    @Test
    void namesNoAnswerThatAnotherWroteInBetween() {
        memory.began(0);
        answer(memory, 3, 50);
        memory.rewind(10, seq -> true);
        memory.began(10);
        answer(memory, 12, 60);
        answer(memory, 13, 61);
        assertThat(memory.suspects(50)).containsExactly(new Range(3, 3, false), new Range(12, 13, false));
        memory.rewind(10);
        answer(memory, 10, 70);
        assertThat(memory.suspects(50)).as("that it began at 10 was rolled back").containsExactly(new Range(3, 10, false));
    }

    @Test
    void takesUpAgainTheEventsWhoseLeavesWereRolledBack() {
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 2)).isTrue();
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 5)).isTrue();
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 7)).isTrue();
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 8)).isFalse();
        assertThat(memory.seen()).isEqualTo(4);
        memory.rewind(8);
        assertThat(memory.seen()).as("nothing was lost").isEqualTo(4);
        memory.rewind(6);
        assertThat(memory.seen()).isEqualTo(2);
        number = 2;
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 6)).as("due once more").isTrue();
        memory.rewind(5);
        assertThat(memory.seen()).isEqualTo(1);
    }

    @Test
    void writesEveryFaultAndTheFirstPassAfterIt() {
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 0)).as("after the load").isTrue();
        assertThat(memory.take(event(Kind.SCRUB, Result.PASSED), 1)).as("after the load").isTrue();
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 2)).isFalse();
        assertThat(memory.take(event(Kind.SCRUB, Result.PASSED), 2)).isFalse();
        for (Kind kind : Kind.values()) {
            for (Result result : List.of(Result.REPAIRED, Result.REFUSED)) {
                assertThat(memory.take(event(kind, result), 2)).as("%s %s", kind, result).isTrue();
            }
        }
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 9)).as("after the repair").isTrue();
        assertThat(memory.take(event(Kind.SCRUB, Result.PASSED), 9)).as("after the repair").isTrue();
        assertThat(memory.take(event(Kind.SCRUB, Result.PASSED), 9)).isFalse();
        assertThat(memory.take(event(Kind.WEIGHT, Result.PASSED), 9)).as("a single block is no news").isFalse();
    }

    @Test
    void writesALaterCanaryWhenItIsItsTurn() {
        List<Long> asked = new ArrayList<>();
        LogMemory polite = new LogMemory(epochMs -> asked.add(epochMs) && epochMs == 300);
        for (long ms : new long[] {100, 200, 300, 400}) {
            polite.take(new IntegrityEvent(++number, Kind.CANARY, Result.PASSED, "", "", ms, IntegrityEvent.NO_STEP), ms);
        }
        assertThat(asked).as("the first is written in any case, and takes the turn too").containsExactly(100L, 200L, 300L, 400L);
    }

    /// Against a list that forgets nothing.
    @Test
    void agreesWithAMemoryWithoutBounds() {
        for (long seed = 0; seed < 300; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            int most = random.nextInt(1, 90);
            LogMemory bounded = new LogMemory(epochMs -> false, most);
            List<long[]> all = new ArrayList<>();
            long seq = 0;
            long step = 1;
            for (int i = 0; i < 300; i++) {
                step += random.nextInt(3);
                seq += 1 + random.nextInt(2);
                long last = random.nextInt(12) == 0 ? 0 : random.nextInt(20) == 0 ? Math.max(1, step - 5) : step;
                answer(bounded, seq, last);
                if (last > 0) {
                    all.add(new long[] {seq, last});
                }
                if (random.nextInt(60) == 0) {
                    long size = Math.max(0, seq - random.nextInt(10));
                    bounded.rewind(size);
                    all.removeIf(answer -> answer[0] >= size);
                    seq = Math.max(0, size - 1);
                }
                long from = random.nextLong(step + 2);
                List<Range> ranges = bounded.suspects(from);
                boolean widened = ranges.stream().anyMatch(Range::widened);
                for (long[] answer : all) {
                    boolean named = ranges.stream().anyMatch(range -> range.from() <= answer[0] && answer[0] <= range.to());
                    if (answer[1] >= from) {
                        assertThat(named).as("seed %d: leaf %d of step %d, from %d", seed, answer[0], answer[1], from).isTrue();
                    } else if (!widened) {
                        assertThat(named).as("seed %d: leaf %d of step %d, from %d", seed, answer[0], answer[1], from).isFalse();
                    }
                }
            }
        }
    }
}

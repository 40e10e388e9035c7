package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.integrity.Origin;
import millrace.streams.LogMemory.Opened;
import millrace.streams.LogMemory.Range;
import org.junit.jupiter.api.Test;

class LogMemoryTest {
    private static final Origin LOG = new Origin("d", "c", "t", 0, 0);
    private static final Origin NEXT = LOG.nextEpoch();

    private final LogMemory memory = opened(new LogMemory(epochMs -> false));
    private long number;

    private static LogMemory opened(LogMemory memory) {
        memory.open(new Opened(LOG, 0, seq -> true, null));
        return memory;
    }

    private static void rewind(LogMemory memory, long size) {
        memory.open(new Opened(LOG, size, seq -> true, null));
    }

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
        assertThat(memory.suspects(115)).containsExactly(new Range(LOG.text(), 15, 19, false));
        assertThat(memory.suspects(1)).containsExactly(new Range(LOG.text(), 10, 19, false));
        assertThat(memory.suspects(119)).containsExactly(new Range(LOG.text(), 19, 19, false));
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
        assertThat(memory.suspects(50)).containsExactly(new Range(LOG.text(), 3, 8, false), new Range(LOG.text(), 12, 12, false));
        assertThat(memory.suspects(55)).containsExactly(new Range(LOG.text(), 8, 8, false), new Range(LOG.text(), 12, 12, false));
        assertThat(memory.remembered()).isEqualTo(4);
    }

    @Test
    void anEmptyRangeNamesNoLeaf() {
        assertThat(Range.none(LOG.text(), 7)).isEqualTo(new Range(LOG.text(), 7, 6, false));
        assertThat(Range.none(LOG.text(), 7).leaves()).isZero();
        assertThat(new Range(LOG.text(), 7, 9, false).leaves()).isEqualTo(3);
    }

    @Test
    void goesBackToItsFirstLeafWhereItHasForgotten() {
        LogMemory small = opened(new LogMemory(epochMs -> false, 100));
        small.wrote(4);
        for (long seq = 5; seq < 205; seq++) {
            answer(small, seq, seq);
        }
        assertThat(small.remembered()).isEqualTo(100);
        assertThat(small.suspects(150)).as("within memory").containsExactly(new Range(LOG.text(), 150, 204, false));
        assertThat(small.suspects(105)).as("all that is remembered").containsExactly(new Range(LOG.text(), 105, 204, false));
        assertThat(small.suspects(104)).as("further back").containsExactly(new Range(LOG.text(), 4, 204, true));
    }

    @Test
    void forgetsWhatWasRolledBackWithATransaction() {
        for (long seq = 0; seq < 10; seq++) {
            answer(memory, seq, seq + 1);
        }
        rewind(memory, 6);
        answer(memory, 6, 50);
        assertThat(memory.suspects(5)).containsExactly(new Range(LOG.text(), 4, 6, false));
        assertThat(memory.suspects(6)).containsExactly(new Range(LOG.text(), 5, 6, false));
        rewind(memory, 0);
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
        memory.open(new Opened(LOG, 20, seq -> writers.mayHaveWritten(1, seq), null));
        assertThat(memory.seen()).as("its leaf is gone, though the log is longer").isZero();
        assertThat(memory.suspects(1)).as("7 to 9 are answers of another").containsExactly(new Range(LOG.text(), 0, 6, false));
    }

    @Test
    void namesNoAnswerThatAnotherWroteInBetween() {
        memory.began(0);
        answer(memory, 3, 50);
        memory.open(new Opened(LOG, 10, seq -> true, null));
        memory.began(10);
        answer(memory, 12, 60);
        answer(memory, 13, 61);
        assertThat(memory.suspects(50)).containsExactly(new Range(LOG.text(), 3, 3, false), new Range(LOG.text(), 12, 13, false));
        rewind(memory, 10);
        answer(memory, 10, 70);
        assertThat(memory.suspects(50)).as("that it began at 10 was rolled back").containsExactly(new Range(LOG.text(), 3, 10, false));
    }

    @Test
    void takesUpAgainTheEventsWhoseLeavesWereRolledBack() {
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 2)).isTrue();
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 5)).isTrue();
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 7)).isTrue();
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 8)).isFalse();
        assertThat(memory.seen()).isEqualTo(4);
        rewind(memory, 8);
        assertThat(memory.seen()).as("nothing was lost").isEqualTo(4);
        rewind(memory, 6);
        assertThat(memory.seen()).isEqualTo(2);
        number = 2;
        assertThat(memory.take(event(Kind.CANARY, Result.PASSED), 6)).as("due once more").isTrue();
        rewind(memory, 5);
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
            LogMemory bounded = opened(new LogMemory(epochMs -> false, most));
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
                    rewind(bounded, size);
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

    /// An answer stays in doubt when its log has ended: damage may be found later.
    @Test
    void namesAnswersOfLogsThatHaveEnded() {
        answer(memory, 3, 50);
        answer(memory, 4, 60);
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 5)).isTrue();
        memory.end(NEXT);
        answer(memory, 2, 70);
        assertThat(memory.suspects(55)).containsExactly(new Range(LOG.text(), 4, 4, false), new Range(NEXT.text(), 2, 2, false));
        assertThat(memory.seen()).as("the event has its leaf in the log that has ended").isEqualTo(1);
        memory.end(NEXT.nextEpoch());
        assertThat(memory.suspects(55)).as("of older logs only the largest step is known")
                .containsExactly(new Range(LOG.text(), 3, 4, true), new Range(NEXT.text(), 2, 2, false));
        assertThat(memory.suspects(61)).containsExactly(new Range(NEXT.text(), 2, 2, false));
    }

    @Test
    void goesOnWithALogWhoseEndWasRolledBack() {
        answer(memory, 3, 50);
        memory.end(NEXT);
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 1)).isTrue();
        answer(memory, 2, 70);
        rewind(memory, 4);
        assertThat(memory.seen()).as("the event's leaf is gone").isZero();
        assertThat(memory.suspects(1)).containsExactly(new Range(LOG.text(), 3, 3, false));
        answer(memory, 4, 80);
        assertThat(memory.suspects(60)).containsExactly(new Range(LOG.text(), 4, 4, false));
    }

    /// Another process took the log over, wrote to it, ended it, and gave the partition back.
    @Test
    void knowsItsOwnAnswersInALogThatAnotherHasEnded() {
        memory.began(0);
        for (long seq = 0; seq < 10; seq++) {
            answer(memory, seq, seq + 1);
        }
        LogWriters writers = LogWriters.NONE.begin(1, 0).begin(2, 7);
        EndedLog ended = EndedLog.decode(new EndedLog(LOG.text(), 12, writers).encode());
        memory.open(new Opened(NEXT, 5, seq -> false,
                new Opened(Origin.parse(ended.origin()), ended.size(), seq -> ended.writers().mayHaveWritten(1, seq), null)));
        answer(memory, 5, 50);
        assertThat(memory.suspects(1)).containsExactly(new Range(LOG.text(), 0, 6, false), new Range(NEXT.text(), 5, 5, false));
    }

    /// Two epochs further on nobody says which leaves were whose.
    @Test
    void forgetsALogOfWhichNothingIsKnown() {
        answer(memory, 3, 50);
        assertThat(memory.take(event(Kind.WEIGHT, Result.REPAIRED), 4)).isTrue();
        memory.open(new Opened(NEXT.nextEpoch(), 9, seq -> true, new Opened(NEXT, 4, seq -> true, null)));
        assertThat(memory.suspects(1)).isEmpty();
        assertThat(memory.seen()).as("is written again").isZero();
    }

    @Test
    void refusesAnEndedLogThatIsDamaged() {
        byte[] good = new EndedLog(LOG.text(), 12, LogWriters.NONE.begin(1, 0)).encode();
        for (int length : new int[] {0, 5, 12, good.length - 1}) {
            assertThatThrownBy(() -> EndedLog.decode(Arrays.copyOf(good, length))).hasMessageStartingWith("tlog store: expected ");
        }
        good[0] = 9;
        assertThatThrownBy(() -> EndedLog.decode(good)).hasMessage("tlog store: expected an ended log of version 1, got "
                + good.length + " other bytes; it was written by another release, or is damaged: restore the store");
    }
}

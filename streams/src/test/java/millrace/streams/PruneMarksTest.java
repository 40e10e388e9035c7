package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import millrace.integrity.NoteSigner;
import millrace.integrity.Verdict;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import org.junit.jupiter.api.Test;

/// Before the topic deletes its oldest leaves the log has said where it may begin, whenever that is.
class PruneMarksTest {
    private static final NoteSigner KEY = NoteSigner.generate("millrace.test", new SecureRandom());
    private static final Duration DAY = Duration.ofDays(1);
    private final LogTask task = new LogTask();

    private void start() {
        task.start(KEY, null, Map.of());
    }

    private List<Long> pruned() {
        return task.all().stream().filter(leaf -> leaf.getPrune() != null).map(leaf -> leaf.getPrune().getMinIndex()).toList();
    }

    /// How many of the oldest leaves a topic with this retention has deleted.
    private int deleted(Duration retention) {
        long limit = task.clock.millis() - retention.toMillis();
        return (int) task.all().stream().takeWhile(leaf -> leaf.getTimeMs() < limit).count();
    }

    @Test
    void whateverIsDeletedTheRestVerifies() {
        start();
        for (int day = 0; day < 220; day++) {
            task.grow(day % 3).checkpoint().pass(DAY);
            if (day == 100) {
                start();
            }
            int gone = deleted(task.retention);
            if (gone > 0) {
                assertThat(task.verdict(gone, KEY)).as("day %d, first %d gone", day, gone).isEqualTo(Verdict.VERIFIED);
            }
        }
        assertThat(deleted(task.retention)).isPositive();
        assertThat(pruned()).isSorted().doesNotHaveDuplicates().hasSizeGreaterThan(10);
        task.verify(KEY);
    }

    /// A service that was down for long states the newest mark that is due, and no leaf that could be gone before is left out.
    @Test
    void catchesUpAfterALongPause() {
        start();
        task.grow(5).checkpoint().pass(DAY);
        task.grow(5).checkpoint().pass(DAY);
        task.grow(5).checkpoint().pass(Duration.ofHours(20));
        task.clock.advance(Duration.ofDays(190).toMillis());
        start();
        task.grow(1).checkpoint();
        assertThat(pruned()).hasSize(1);
        int gone = deleted(task.retention);
        assertThat(gone).isGreaterThan(10);
        assertThat(task.verdict(gone, KEY)).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void saysNothingWhereNothingIsDeleted() {
        task.retention = null;
        start();
        for (int day = 0; day < 220; day++) {
            task.grow(1).pass(DAY);
        }
        assertThat(pruned()).isEmpty();
    }

    @Test
    void saysNothingOfAnIdleLogTwice() {
        start();
        task.grow(3).checkpoint().pass(DAY);
        for (int day = 0; day < 400; day++) {
            task.pass(DAY);
        }
        AttestationRecord prune = task.all().stream().filter(leaf -> leaf.getPrune() != null).findFirst().orElseThrow();
        assertThat(prune.getPrune().getMinIndex()).isEqualTo(5);
        assertThat(pruned()).isSorted().doesNotHaveDuplicates();
    }

    @Test
    void forgetsItsMarksWithTheEpoch() {
        start();
        task.grow(10).checkpoint().pass(DAY);
        task.hand(new Outcome.Ordered(task.order(), Control.newBuilder().setKind(ControlKind.NEW_EPOCH)
                .setOrigin("millrace.test/cluster-1/llm.audit/0/0").setReason("OPERATOR").setIssuedMs(1L).build()));
        task.grow(2).checkpoint();
        for (int day = 0; day < 200; day++) {
            task.grow(1).pass(DAY);
        }
        List<AttestationRecord> prunes = task.all().stream().filter(leaf -> leaf.getPrune() != null).toList();
        assertThat(prunes).isNotEmpty();
        assertThat(prunes).extracting(AttestationRecord::getEpoch).containsOnly(1);
        assertThat(task.verdict(deleted(task.retention), KEY)).isEqualTo(Verdict.VERIFIED);
        task.verify(KEY);
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.security.SecureRandom;
import java.time.Duration;
import millrace.integrity.Digest;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class LogCheckpointsTest {
    private static final NoteSigner KEY = NoteSigner.generate("millrace.test", new SecureRandom());

    private final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    private final Hand hand = new Hand();
    private TreeState log = TreeState.start(new Origin("millrace.test", "c", "llm.audit", 0, 0));
    private @Nullable RuntimeException failure;
    private final LogCheckpoints checkpoints = open(Duration.ofSeconds(60));

    /// Time that passes when the test says so.
    private static final class Hand implements Ticker {
        long nanos = Long.MAX_VALUE - 1_000; // it may well wrap

        void pass(long ms) {
            nanos += ms * 1_000_000;
        }

        @Override
        public long nanos() {
            return nanos;
        }

        @Override
        public void pause(long ms) {
            pass(ms);
        }
    }

    private LogCheckpoints open(Duration maxLag) {
        return new LogCheckpoints(
                head -> {
                    if (failure != null) {
                        throw failure;
                    }
                    return head.sign(KEY);
                },
                new ServiceMetrics(meters), hand, maxLag);
    }

    private void grow(int leaves) {
        for (int i = 0; i < leaves; i++) {
            log = log.append(Digest.sha256("leaf " + log.size()));
        }
        checkpoints.grown(log);
    }

    @Test
    void signsAGrownLogOnce() {
        assertThat(checkpoints.sign(log)).as("an empty log").isEmpty();
        grow(3);
        assertThat(checkpoints.unsignedLeaves()).isEqualTo(3);
        assertThat(checkpoints.sign(log)).hasValueSatisfying(note -> assertThat(note.text()).isEqualTo(log.checkpoint().text()));
        assertThat(checkpoints.sign(log)).as("no growth").isEmpty();
        assertThat(checkpoints.unsignedLeaves()).isZero();
        grow(1);
        assertThat(checkpoints.unsignedLeaves()).isEqualTo(1);
        assertThat(checkpoints.sign(log)).isPresent();
    }

    @Test
    void countsTheLagFromTheOldestLeafWithoutASignature() {
        hand.pass(500_000);
        assertThat(checkpoints.lagNanos()).as("nothing to sign").isZero();
        grow(1);
        hand.pass(400);
        grow(1);
        hand.pass(300);
        assertThat(checkpoints.lagNanos()).isEqualTo(700_000_000);
        checkpoints.sign(log);
        assertThat(checkpoints.lagNanos()).isZero();
    }

    @Test
    void isLateOnceTheSignerHasFailedForTooLongAndNotWhenItWorksAgain() {
        grow(2);
        failure = new IllegalStateException("the key service is away");
        for (int i = 0; i < 60; i++) {
            assertThat(checkpoints.sign(log)).isEmpty();
            assertThat(checkpoints.isLate()).as("%d s", i).isFalse();
            hand.pass(1_000);
            grow(1);
        }
        hand.pass(1);
        assertThat(checkpoints.isLate()).isTrue();
        assertThat(checkpoints.unsignedLeaves()).isEqualTo(62);
        assertThat(meters.counter("millrace.audit.checkpoint.failures").count()).isEqualTo(60);
        failure = null;
        assertThat(checkpoints.sign(log)).as("all of them, in one").isPresent();
        assertThat(checkpoints.isLate()).isFalse();
        assertThat(checkpoints.unsignedLeaves()).isZero();
    }

    @Test
    void beginsAnewWithAnEpoch() {
        grow(9);
        checkpoints.sign(log);
        hand.pass(500_000);
        log = TreeState.start(log.origin().nextEpoch());
        grow(2);
        assertThat(checkpoints.unsignedLeaves()).isEqualTo(2);
        assertThat(checkpoints.lagNanos()).isZero();
        assertThat(checkpoints.epoch()).isEqualTo(1);
        hand.pass(1_000);
        assertThat(checkpoints.lagNanos()).isEqualTo(1_000_000_000);
        assertThat(checkpoints.sign(log)).isPresent();
    }

    @Test
    void isNeverLateWhereNoLimitIsSet() {
        LogCheckpoints patient = open(Duration.ZERO);
        grow(1);
        patient.grown(log);
        hand.pass(86_400_000);
        assertThat(patient.isLate()).isFalse();
        assertThat(patient.lagNanos()).isEqualTo(86_400_000_000_000L);
    }
}

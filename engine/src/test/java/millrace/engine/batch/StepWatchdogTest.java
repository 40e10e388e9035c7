package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import org.junit.jupiter.api.Test;

class StepWatchdogTest {
    private static final long SECOND = 1_000_000_000L;

    private final IntegrityLedger ledger = new IntegrityLedger(() -> 7);
    private long nanos;
    private final StepWatchdog watchdog = new StepWatchdog(ledger, () -> nanos, Duration.ofSeconds(60));

    private void pass(int seconds) {
        for (int i = 0; i < seconds; i++) {
            nanos += SECOND;
            watchdog.tick();
        }
    }

    @Test
    void aTurnThatDoesNotEndRefuses() {
        ledger.beginStep(12);
        watchdog.begin(false);
        pass(60);
        assertThat(watchdog.hung()).isFalse();
        assertThat(ledger.admitting()).isTrue();
        pass(1);
        assertThat(watchdog.hung()).isTrue();
        String reason = "engine: step 12 has not ended for 60 s, expected at most 60 s; restart the process, and report this if it"
                + " returns. Where steps may take so long, raise integrity.step.timeout";
        assertThat(ledger.refusal()).isEqualTo(reason);
        assertThat(ledger.admitting()).isFalse();
        pass(100);
        assertThat(ledger.events(0)).containsExactly(new IntegrityEvent(
                1, IntegrityEvent.Kind.COMPUTE, IntegrityEvent.Result.REFUSED, "ENGINE_HUNG",
                "step=12 during=step seconds=60 bound=60", 7, IntegrityEvent.NO_STEP));
    }

    @Test
    void turnsThatEndAreNoneAndNeitherIsSleep() {
        for (int i = 0; i < 100; i++) {
            watchdog.begin(false);
            pass(3);
            watchdog.end();
        }
        pass(10_000);
        assertThat(watchdog.hung()).isFalse();
        assertThat(ledger.events(0)).isEmpty();
    }

    @Test
    void whereStepsTakeLongTheBoundIsLonger() {
        for (int i = 0; i < 100; i++) {
            watchdog.begin(false);
            pass(30);
            watchdog.end();
        }
        watchdog.begin(false);
        pass(590);
        assertThat(watchdog.hung()).as("20 times as long as steps take").isFalse();
        pass(20);
        assertThat(watchdog.hung()).isTrue();
    }

    @Test
    void aRepairMayReadFiles() {
        watchdog.begin(true);
        pass(12 * 60);
        assertThat(watchdog.hung()).isFalse();
        pass(1);
        assertThat(watchdog.hung()).isTrue();
        assertThat(ledger.events(0).getFirst().detail()).isEqualTo("step=0 during=repair seconds=720 bound=720");
    }

    /// Stopped and continued, as by a debugger or a machine that sleeps: the step goes on.
    @Test
    void aProcessThatWasStoppedIsNotTakenForAStepThatHangs() {
        watchdog.begin(false);
        pass(5);
        nanos += 3_600 * SECOND;
        pass(10);
        assertThat(watchdog.hung()).isFalse();
    }

    @Test
    void zeroWatchesNothing() throws InterruptedException {
        StepWatchdog none = new StepWatchdog(ledger, System::nanoTime, Duration.ZERO);
        none.start();
        none.begin(false);
        Thread.sleep(20);
        assertThat(none.hung()).isFalse();
        none.close();
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import org.junit.jupiter.api.Test;

class IntegrityLedgerTest {
    private final AtomicLong now = new AtomicLong(1_000);
    private final IntegrityLedger ledger = new IntegrityLedger(now::get);

    @Test
    void nothingIsKnownAtFirst() {
        assertThat(ledger.state()).isEqualTo(IntegrityState.NONE);
        assertThat(ledger.events(0)).isEmpty();
        assertThat(ledger.trusts(endedIn(7))).isTrue();
        assertThat(ledger.refusal()).isNull();
    }

    @Test
    void eventsAreNumberedAndTheLastThousandKept() {
        assertThat(ledger.post(Kind.CANARY, Result.PASSED, "", "golden=self"))
                .isEqualTo(new IntegrityEvent(1, Kind.CANARY, Result.PASSED, "", "golden=self", 1_000, IntegrityEvent.NO_STEP));
        for (int i = 2; i <= IntegrityLedger.KEPT + 5; i++) {
            ledger.post(Kind.SCRUB, Result.PASSED, "", "pass=" + i);
        }
        assertThat(ledger.events(0)).hasSize(IntegrityLedger.KEPT);
        assertThat(ledger.events(0).getFirst().number()).isEqualTo(6);
        assertThat(ledger.events(IntegrityLedger.KEPT + 3)).extracting(IntegrityEvent::number)
                .containsExactly(IntegrityLedger.KEPT + 4L, IntegrityLedger.KEPT + 5L);
    }

    @Test
    void faultsAreCountedByKind() {
        ledger.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", "");
        ledger.post(Kind.KV_PAGE, Result.REPAIRED, "KV_SEAL", "");
        ledger.post(Kind.KV_PAGE, Result.REPAIRED, "KV_OWNER", "");
        ledger.post(Kind.COMPUTE, Result.REPAIRED, "ENGINE_NUMERIC", "");
        ledger.post(Kind.CANARY, Result.REFUSED, "CANARY_FAIL", "");
        ledger.post(Kind.CANARY, Result.PASSED, "", "");
        ledger.watchScrub(() -> 17);
        ledger.scrubbed();
        ledger.canaryPassed();
        now.addAndGet(250);
        assertThat(ledger.state()).isEqualTo(new IntegrityState(true, 1, 17, 250, 1, 2, 1, 1));
    }

    @Test
    void aDoubtCoversTheStepsFromTheLastGoodCheckToTheRepair() {
        ledger.beginStep(20);
        IntegrityLedger.Doubt doubt = ledger.doubt(11);
        assertThat(ledger.trusts(endedIn(10))).isTrue();
        assertThat(ledger.trusts(endedIn(11))).isFalse();
        ledger.beginStep(21);
        assertThat(ledger.trusts(endedIn(21))).as("not repaired yet").isFalse();
        doubt.end();
        ledger.beginStep(22);
        assertThat(ledger.trusts(endedIn(22))).isTrue();
        assertThat(ledger.trusts(endedIn(21))).as("also afterwards").isFalse();
        assertThat(ledger.trusts(endedIn(0))).as("without a token").isTrue();
        doubt.end();
        assertThat(ledger.trusts(endedIn(22))).isTrue();
    }

    @Test
    void manyDoubtsAreMergedAndNoneIsForgotten() {
        IntegrityLedger.Doubt open = ledger.doubt(1_000_000);
        for (int i = 0; i < 2 * IntegrityLedger.KEPT; i++) {
            ledger.beginStep(10L * i + 2);
            ledger.doubt(10L * i + 1).end();
        }
        for (int i = 0; i < 2 * IntegrityLedger.KEPT; i++) {
            assertThat(ledger.trusts(endedIn(10L * i + 1))).isFalse();
            assertThat(ledger.trusts(endedIn(10L * i + 2))).isFalse();
        }
        assertThat(ledger.trusts(endedIn(20L * IntegrityLedger.KEPT - 5))).as("between the latest").isTrue();
        assertThat(ledger.trusts(endedIn(1_000_001))).isFalse();
        ledger.beginStep(1_000_005);
        open.end();
        assertThat(ledger.trusts(endedIn(1_000_006))).isTrue();
    }

    @Test
    void workIsAdmittedWhenNobodyHoldsIt() {
        Object scrub = new Object();
        Object canary = new Object();
        ledger.hold(scrub);
        ledger.hold(scrub);
        ledger.hold(canary);
        ledger.release(scrub);
        assertThat(ledger.admitting()).isFalse();
        assertThat(ledger.state().admitting()).isFalse();
        ledger.release(scrub);
        ledger.release(canary);
        assertThat(ledger.admitting()).isTrue();
    }

    @Test
    void aRefusalStays() {
        Object canary = new Object();
        ledger.hold(canary);
        ledger.refuse("first");
        ledger.refuse("second");
        ledger.release(canary);
        assertThat(ledger.refusal()).isEqualTo("first");
        assertThat(ledger.admitting()).isFalse();
    }

    private static GenerationResult endedIn(long step) {
        return new GenerationResult(
                "", List.of(), FinishReason.STOP, new Usage(1, 0, 0), new Timings(0, 0, 0), null, null,
                new Transcript(1, true, 0, step, 0, 0, 0, List.of()));
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.integrity.Digest;
import millrace.schemas.AlarmRecord;
import org.junit.jupiter.api.Test;

class AlarmsTest {
    private final ScriptedEngine engine = new ScriptedEngine();
    private final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    private final Road road = new Road();
    private final TestClock clock = new TestClock();
    private final Alarms alarms = new Alarms(engine, "instance-1", road, new ServiceMetrics(meters), clock);

    /// Refuses as many alarms as the test says.
    private static final class Road implements Alarms.Road {
        final List<AlarmRecord> sent = new ArrayList<>();
        int refuse;
        boolean closed;

        @Override
        public void send(AlarmRecord alarm) {
            if (refuse > 0) {
                refuse--;
                throw new IllegalStateException("no broker");
            }
            sent.add(alarm);
        }

        @Override
        public void close() {
            closed = true;
        }
    }

    @Test
    void sendsWhatIsNotAsItShouldBeAndNothingElse() {
        engine.canaryPassed(1);
        engine.post(Kind.SCRUB, Result.PASSED, "", "blocks=9", IntegrityEvent.NO_STEP);
        assertThat(alarms.turn()).isTrue();
        assertThat(road.sent).isEmpty();
        engine.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", "tensor=a block=7", 41);
        engine.post(Kind.CANARY, Result.REFUSED, "CANARY_MISMATCH", "", IntegrityEvent.NO_STEP);
        assertThat(alarms.turn()).isTrue();
        assertThat(road.sent).containsExactly(
                alarm(1).setTimeMs(1_800_000_000_000L).setKind("WEIGHT").setResult("repaired").setCode("WEIGHT_BLOCK")
                        .setDetail("tensor=a block=7").setEvent(3).setSuspectFromStep(41).build(),
                alarm(2).setTimeMs(1_800_000_000_000L).setKind("CANARY").setResult("refused").setCode("CANARY_MISMATCH")
                        .setDetail("").setEvent(4).build());
        assertThat(alarms.turn()).as("once").isTrue();
        assertThat(road.sent).hasSize(2);
        assertThat(meters.counter("millrace.audit.alarms").count()).isEqualTo(2);
    }

    private static AlarmRecord.Builder alarm(long number) {
        return AlarmRecord.newBuilder().setInstanceId("instance-1").setNumber(number).setModelName(ScriptedEngine.MODEL)
                .setModelDigest(Digest.ofHex(ScriptedEngine.MODEL_DIGEST.substring(7)).toHash()).setBuild("1.0");
    }

    @Test
    void sendsOnceThatTheEngineTakesNoMoreWork() {
        engine.failure = "weights";
        alarms.turn();
        alarms.turn();
        assertThat(road.sent).containsExactly(alarm(1).setTimeMs(TestClock.START_MS).setKind("ENGINE").setResult("refused")
                .setCode("ENGINE_FAILED").setDetail("").build());
    }

    @Test
    void keepsWhatCouldNotBeSentAndTriesAgainInOrder() {
        alarms.raise("SIGNER", Alarms.FAILED, "AUDIT_UNSIGNED", "partition=0");
        alarms.raise("LOG", Alarms.REFUSED, "LOG_STATE_DIVERGED", "");
        road.refuse = 2;
        assertThat(alarms.turn()).isFalse();
        assertThat(alarms.turn()).isFalse();
        assertThat(meters.counter("millrace.audit.alarm.failures").count()).isEqualTo(2);
        engine.post(Kind.META, Result.REPAIRED, "BT_DAMAGED", "", IntegrityEvent.NO_STEP);
        assertThat(alarms.turn()).isTrue();
        assertThat(road.sent).extracting(AlarmRecord::getCode).containsExactly("AUDIT_UNSIGNED", "LOG_STATE_DIVERGED", "BT_DAMAGED");
        assertThat(road.sent).extracting(AlarmRecord::getNumber).containsExactly(1L, 2L, 3L);
    }

    @Test
    void keepsTheNewestWhenTooManyCannotBeSent() {
        road.refuse = Integer.MAX_VALUE;
        for (int i = 0; i < Alarms.MOST_KEPT + 5; i++) {
            alarms.raise("SIGNER", Alarms.FAILED, "AUDIT_UNSIGNED", "n=" + i);
        }
        assertThat(alarms.turn()).isFalse();
        assertThat(meters.counter("millrace.audit.alarm.failures").count()).as("five dropped, one refused").isEqualTo(6);
        road.refuse = 0;
        assertThat(alarms.turn()).isTrue();
        assertThat(road.sent).hasSize(Alarms.MOST_KEPT);
        assertThat(road.sent.getFirst().getNumber()).isEqualTo(6);
    }

    /// Whoever raises an alarm goes on, even while the road is blocked; what is left is sent at the close.
    @Test
    void makesNobodyWait() throws Exception {
        CountDownLatch inside = new CountDownLatch(1);
        CountDownLatch open = new CountDownLatch(1);
        List<AlarmRecord> sent = new ArrayList<>();
        Alarms.Road slow = new Alarms.Road() {
            @Override
            public void send(AlarmRecord alarm) throws Exception {
                inside.countDown();
                assertThat(open.await(20, TimeUnit.SECONDS)).isTrue();
                sent.add(alarm);
            }

            @Override
            public void close() {}
        };
        Alarms running = Alarms.start(engine, "instance-1", slow, new ServiceMetrics(new SimpleMeterRegistry()));
        engine.post(Kind.COMPUTE, Result.REPAIRED, "ENGINE_NUMERIC", "", IntegrityEvent.NO_STEP);
        assertThat(inside.await(20, TimeUnit.SECONDS)).isTrue();
        running.raise("LOG", Alarms.REFUSED, "LOG_STATE_DIVERGED", "");
        assertThat(sent).isEmpty();
        open.countDown();
        running.close();
        assertThat(sent).extracting(AlarmRecord::getCode).containsExactly("ENGINE_NUMERIC", "LOG_STATE_DIVERGED");
    }

    @Test
    void closesTheRoad() {
        Alarms running = Alarms.start(engine, "instance-1", road, new ServiceMetrics(new SimpleMeterRegistry()));
        running.close();
        assertThat(road.closed).isTrue();
    }
}

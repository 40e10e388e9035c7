package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.apache.kafka.streams.KafkaStreams.State;
import org.junit.jupiter.api.Test;

class EndWatchTest {
    private final Ticker ticker = new Ticker() {
        @Override
        public long nanos() {
            return nowNanos;
        }

        @Override
        public void pause(long ms) {
            pass(Duration.ofMillis(ms));
        }
    };
    private long nowNanos = 17;
    private boolean answers = true;
    private int asked;
    private final EndWatch watch = new EndWatch(ticker, () -> {
        asked++;
        return answers;
    });

    private void pass(Duration time) {
        nowNanos += time.toNanos();
    }

    private boolean after(Duration time, State state) {
        pass(time);
        return watch.isStuck(state);
    }

    @Test
    void anEndThatDoesNotComeIsNoticedOnceThePatienceIsOver() {
        assertThat(after(Duration.ofHours(1), State.RUNNING)).isFalse();
        assertThat(after(Duration.ofHours(1), State.PENDING_ERROR)).as("it has just begun to end").isFalse();
        assertThat(after(EndWatch.PATIENCE.minusMillis(1), State.PENDING_ERROR)).isFalse();
        assertThat(asked).as("nobody is asked while it may still end").isZero();
        assertThat(after(Duration.ofMillis(1), State.PENDING_ERROR)).isTrue();
    }

    @Test
    void oneThatEndsBeginsAnew() {
        after(Duration.ZERO, State.PENDING_ERROR);
        assertThat(after(EndWatch.PATIENCE.minusMillis(1), State.PENDING_SHUTDOWN)).isFalse();
        assertThat(after(Duration.ofMillis(5), State.ERROR)).isFalse();
        assertThat(after(Duration.ofHours(1), State.CREATED)).isFalse();
        assertThat(after(Duration.ofHours(1), State.REBALANCING)).isFalse();
        assertThat(asked).isZero();
    }

    @Test
    void aClusterThatIsAwayGivesItMoreTime() {
        answers = false;
        after(Duration.ZERO, State.PENDING_ERROR);
        for (int i = 0; i < 10; i++) {
            assertThat(after(EndWatch.PATIENCE, State.PENDING_ERROR)).isFalse();
        }
        answers = true;
        assertThat(after(EndWatch.PATIENCE.minusMillis(1), State.PENDING_ERROR)).as("a whole patience after the last no").isFalse();
        assertThat(after(Duration.ofMillis(1), State.PENDING_ERROR)).isTrue();
    }

    @Test
    void saysWhatToDo() {
        assertThat(EndWatch.stuck()).hasMessage("STREAMS_STUCK: expected Kafka Streams to end within 90 s of a failure, got none while the"
                + " cluster answers; start again: prompts in flight stay pending");
    }
}

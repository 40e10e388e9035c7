package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class SteadyTimeTest {
    private long nanos = 17;

    @Test
    void passesThoughTheWallClockIsSetBack() {
        TestClock clock = new TestClock();
        SteadyTime time = new SteadyTime(clock, new Ticker() {
            @Override
            public long nanos() {
                return nanos;
            }

            @Override
            public void pause(long ms) {
                nanos += ms * 1_000_000;
            }
        });
        assertThat(time.milliseconds()).isEqualTo(TestClock.START_MS);
        clock.advance(-86_400_000);
        time.sleep(1_500);
        assertThat(time.milliseconds()).isEqualTo(TestClock.START_MS + 1_500);
        assertThat(time.nanoseconds()).isEqualTo(1_500_000_017L);
        assertThat(time.hiResClockMs()).isEqualTo(1_500);
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class LogWritersTest {
    @Test
    void knowsWhoWroteALeaf() {
        LogWriters writers = LogWriters.NONE.begin(7, 3).begin(8, 5).begin(7, 9);
        assertThat(writers.mayHaveWritten(7, 2)).as("nobody knows").isTrue();
        assertThat(writers.mayHaveWritten(7, 4)).isTrue();
        assertThat(writers.mayHaveWritten(8, 4)).isFalse();
        assertThat(writers.mayHaveWritten(7, 5)).isFalse();
        assertThat(writers.mayHaveWritten(8, 8)).isTrue();
        assertThat(writers.mayHaveWritten(7, 9)).isTrue();
        assertThat(LogWriters.NONE.mayHaveWritten(1, 0)).isTrue();
    }

    @Test
    void forgetsTheOldest() {
        LogWriters writers = LogWriters.NONE;
        for (int i = 0; i < LogWriters.MOST + 3; i++) {
            writers = writers.begin(i, 10L * i);
        }
        assertThat(writers.stints()).hasSize(LogWriters.MOST);
        assertThat(writers.mayHaveWritten(99, 29)).as("forgotten").isTrue();
        assertThat(writers.mayHaveWritten(99, 30)).isFalse();
    }

    @Test
    void comesBackFromItsBytes() {
        LogWriters writers = LogWriters.NONE.begin(Long.MIN_VALUE, 0).begin(-1, Long.MAX_VALUE);
        assertThat(LogWriters.decode(writers.encode())).isEqualTo(writers);
        assertThat(LogWriters.decode(LogWriters.NONE.encode())).isEqualTo(LogWriters.NONE);
    }

    /// Bytes are either refused, or are those that the decoded value gives.
    @Test
    void anyBytesAreRefusedOrUnderstoodWhole() {
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 10_000; i++) {
            byte[] bytes = new byte[random.nextInt(70)];
            random.nextBytes(bytes);
            if (bytes.length > 0 && random.nextBoolean()) {
                bytes[0] = 1;
            }
            LogWriters read;
            try {
                read = LogWriters.decode(bytes);
            } catch (IllegalStateException e) {
                continue;
            }
            assertThat(read.encode()).isEqualTo(bytes);
        }
        assertThatThrownBy(() -> LogWriters.decode(new byte[] {2})).isInstanceOf(IllegalStateException.class)
                .hasMessage("tlog store: expected writers of version 1 in 1 + 16 n bytes, got 1 bytes; it was written by another"
                        + " release, or is damaged: restore the store");
    }
}

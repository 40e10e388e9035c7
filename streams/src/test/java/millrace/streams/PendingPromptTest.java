package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class PendingPromptTest {
    private static void assertRoundTrip(PendingPrompt prompt) {
        PendingPrompt read = PendingPrompt.decode(prompt.encode());
        assertThat(read.admitted()).isEqualTo(prompt.admitted());
        assertThat(read.timestampMs()).isEqualTo(prompt.timestampMs());
        assertThat(read.key()).isEqualTo(prompt.key());
        assertThat(read.value()).isEqualTo(prompt.value());
        assertThat(read.headers().toArray()).isEqualTo(prompt.headers().toArray());
    }

    @Test
    void givesBackWhatWasKept() {
        RecordHeaders headers = new RecordHeaders();
        headers.add("traceparent", new byte[] {1});
        headers.add("ümlaut", null);
        headers.add("traceparent", new byte[0]);
        assertRoundTrip(new PendingPrompt(true, 1_790_000_000_000L, new byte[] {1, 2}, new byte[] {3}, headers));
        assertRoundTrip(new PendingPrompt(false, -1, null, new byte[0], new RecordHeaders()));
        assertRoundTrip(new PendingPrompt(false, 0, new byte[0], new byte[0], new RecordHeaders()));
    }

    @Test
    void givesBackRandomRecords() {
        long seed = System.nanoTime();
        SplittableRandom random = new SplittableRandom(seed);
        for (int i = 0; i < 200; i++) {
            RecordHeaders headers = new RecordHeaders();
            for (int h = random.nextInt(4); h > 0; h--) {
                headers.add("h" + random.nextInt(5), bytes(random));
            }
            PendingPrompt prompt = new PendingPrompt(random.nextBoolean(), random.nextLong(), bytes(random), bytes(random), headers);
            assertThat(PendingPrompt.decode(prompt.encode()).encode()).as("seed %d", seed).isEqualTo(prompt.encode());
        }
    }

    private static byte[] bytes(SplittableRandom random) {
        byte[] bytes = new byte[random.nextInt(50)];
        random.nextBytes(bytes);
        return bytes;
    }

    @Test
    void hasAFormThatLaterReleasesCanRead() {
        RecordHeaders headers = new RecordHeaders();
        headers.add("h", new byte[] {9});
        byte[] bytes = new PendingPrompt(true, 258, new byte[] {7}, new byte[] {8, 8}, headers).encode();
        assertThat(HexFormat.of().formatHex(bytes)).isEqualTo("0101" + "0000000000000102" + "0000000107" + "000000020808" + "00000001"
                + "0000000168" + "0000000109");
    }

    @Test
    void refusesAnEntryOfAnotherRelease() {
        byte[] bytes = new PendingPrompt(true, 0, null, new byte[0], new RecordHeaders()).encode();
        bytes[0] = 2;
        assertThatThrownBy(() -> PendingPrompt.decode(bytes)).isInstanceOf(IllegalStateException.class)
                .hasMessage("pending store: expected entry version 1, got 2; it was written by another release: finish its prompts with"
                        + " that release first");
    }

    /// Damaged bytes are refused, or give a prompt that comes back from its own bytes; no length in them is believed.
    @Test
    void givesBackOrRefusesDamagedBytes() {
        RecordHeaders headers = new RecordHeaders();
        headers.add("traceparent", new byte[] {1, 2});
        headers.add("none", null);
        byte[] sound = new PendingPrompt(true, 258, new byte[] {7}, new byte[] {8, 8, 9}, headers).encode();
        SplittableRandom random = new SplittableRandom(1);
        int refused = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] damaged = random.nextInt(4) == 0 ? Arrays.copyOf(sound, random.nextInt(2 * sound.length)) : sound.clone();
            for (int n = random.nextInt(3); n > 0 && damaged.length > 0; n--) {
                damaged[random.nextInt(damaged.length)] = (byte) random.nextInt(256);
            }
            try {
                byte[] again = PendingPrompt.decode(damaged).encode();
                assertThat(PendingPrompt.decode(again).encode()).as("round %d", i).isEqualTo(again);
            } catch (IllegalStateException e) {
                refused++;
                assertThat(e.getMessage()).startsWith("pending store: expected ");
            }
        }
        assertThat(refused).isGreaterThan(5_000);
        byte[] huge = sound.clone();
        java.nio.ByteBuffer.wrap(huge).putInt(10, Integer.MAX_VALUE);
        assertThatThrownBy(() -> PendingPrompt.decode(huge)).isInstanceOf(IllegalStateException.class)
                .hasMessage("pending store: expected an entry whose lengths agree with its " + sound.length
                        + " bytes, got others; it is damaged: restore the store");
    }

    @Test
    void iteratesInOrderOfArrival() {
        long[] offsets = {0, 1, 255, 256, 1L << 31, 1L << 40};
        for (int i = 1; i < offsets.length; i++) {
            assertThat(Arrays.compareUnsigned(PendingPrompt.storeKey(offsets[i - 1]), PendingPrompt.storeKey(offsets[i]))).isNegative();
            assertThat(PendingPrompt.offset(PendingPrompt.storeKey(offsets[i]))).isEqualTo(offsets[i]);
        }
    }
}

package millrace.streams.tracing;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TraceContextTest {
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String PARENT = "00-" + TRACE + "-00f067aa0ba902b7-01";

    private static RecordHeaders headers(String parent, String state) {
        RecordHeaders headers = new RecordHeaders();
        headers.add("traceparent", parent.getBytes(StandardCharsets.UTF_8));
        if (state != null) {
            headers.add("tracestate", state.getBytes(StandardCharsets.UTF_8));
        }
        return headers;
    }

    @Test
    void readsAndWritesAContext() {
        TraceContext context = TraceContext.of(headers(PARENT, "rojo=1,congo=2")).orElseThrow();
        assertThat(context).isEqualTo(new TraceContext(TRACE, "00f067aa0ba902b7", 1, "rojo=1,congo=2"));
        assertThat(context.isSampled()).isTrue();
        RecordHeaders out = headers("stale", "stale");
        context.put(out);
        assertThat(out.toArray()).hasSize(2);
        assertThat(TraceContext.of(out)).hasValue(context);
        assertThat(TraceContext.of(headers(PARENT.replaceFirst("01$", "00"), null)).orElseThrow().isSampled()).isFalse();
    }

    /// A later version may say more behind what this one says.
    @Test
    void readsALaterVersion() {
        assertThat(TraceContext.of(headers("cc" + PARENT.substring(2) + "-what-comes-later", null))).isPresent();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n", "\u0000"
    })
    void refusesWhatIsNone(String parent) {
        assertThat(TraceContext.of(headers(parent, "a=1"))).isEmpty();
    }

    @Test
    void leavesAStateBehindThatIsTooLongOrNoText() {
        assertThat(TraceContext.of(headers(PARENT, "a=" + "x".repeat(512))).orElseThrow().state()).isEmpty();
        assertThat(TraceContext.of(headers(PARENT, "a=\u00e4")).orElseThrow().state()).isEmpty();
        RecordHeaders absent = new RecordHeaders();
        absent.add("traceparent", null);
        assertThat(TraceContext.of(absent)).isEmpty();
        absent.add("traceparent", new byte[] {(byte) 0xff});
        assertThat(TraceContext.of(absent)).isEmpty();
    }

    /// Whatever the headers: none, or a context of well-formed ids that comes back from what it writes.
    @Test
    void anyHeadersGiveNoneOrAContextThatComesBack() {
        SplittableRandom random = new SplittableRandom(20261130);
        int read = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] parent = PARENT.getBytes(StandardCharsets.UTF_8);
            for (int changes = random.nextInt(3); changes > 0; changes--) {
                parent[random.nextInt(parent.length)] =
                        random.nextBoolean() ? (byte) "0123456789abcdef-".charAt(random.nextInt(17)) : (byte) random.nextInt(256);
            }
            byte[] state = new byte[random.nextInt(20)];
            random.nextBytes(state);
            RecordHeaders headers = new RecordHeaders();
            headers.add("traceparent", random.nextInt(8) == 0 ? java.util.Arrays.copyOf(parent, random.nextInt(60)) : parent);
            headers.add("tracestate", state);
            TraceContext context = TraceContext.of(headers).orElse(null);
            if (context == null) {
                continue;
            }
            read++;
            assertThat(context.traceId()).as("round %d", i).matches("[0-9a-f]{32}").isNotEqualTo("0".repeat(32));
            assertThat(context.spanId()).as("round %d", i).matches("[0-9a-f]{16}").isNotEqualTo("0".repeat(16));
            assertThat(context.state()).as("round %d", i).matches("[\\x20-\\x7e]*");
            RecordHeaders out = new RecordHeaders();
            context.put(out);
            assertThat(TraceContext.of(out)).as("round %d", i).hasValue(context);
        }
        assertThat(read).isGreaterThan(5_000);
    }
}

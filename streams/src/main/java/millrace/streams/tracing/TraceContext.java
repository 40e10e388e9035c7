package millrace.streams.tracing;

import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/// Where in a trace something happens, as W3C's `traceparent` and `tracestate` headers say it (Trace Context, level 2).
///
/// @param traceId 32 lower-case hexadecimal digits, not all zero
/// @param spanId 16 of them, not all zero
/// @param flags bit 0: whether whoever began the trace records it
/// @param state what vendors add, `tracestate` as it came; empty for none
public record TraceContext(String traceId, String spanId, int flags, String state) {
    public static final String PARENT = "traceparent";
    public static final String STATE = "tracestate";
    /// The most bytes of a state that is carried on; the specification asks for at least so many.
    public static final int MAX_STATE_BYTES = 512;

    private static final Pattern FORM = Pattern.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?");
    private static final Pattern STATE_FORM = Pattern.compile("[ -~\\t]*");
    private static final int SAMPLED = 1;

    /// What a record's headers say, the first of each name; empty where there is no parent, or none that is well-formed.
    public static Optional<TraceContext> of(Headers headers) {
        String parent = first(headers, PARENT);
        Matcher matcher = FORM.matcher(parent);
        if (!matcher.matches() || matcher.group(1).equals("ff") || matcher.group(1).equals("00") && matcher.group(5) != null
                || isZero(matcher.group(2)) || isZero(matcher.group(3))) {
            return Optional.empty();
        }
        String state = first(headers, STATE);
        boolean fits = state.length() <= MAX_STATE_BYTES && STATE_FORM.matcher(state).matches();
        return Optional.of(new TraceContext(
                matcher.group(2), matcher.group(3), Integer.parseInt(matcher.group(4), 16), fits ? state.strip() : ""));
    }

    private static boolean isZero(String digits) {
        return digits.chars().allMatch(digit -> digit == '0');
    }

    private static String first(Headers headers, String name) {
        for (Header header : headers.headers(name)) {
            if (header.value() != null && header.value().length <= 4 * MAX_STATE_BYTES) {
                try {
                    return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(header.value())).toString();
                } catch (CharacterCodingException e) {
                    return "";
                }
            }
            return "";
        }
        return "";
    }

    public boolean isSampled() {
        return (flags & SAMPLED) != 0;
    }

    /// The value of `traceparent`.
    public String parent() {
        return "00-%s-%s-%02x".formatted(traceId, spanId, flags & 0xff);
    }

    /// Makes the headers say this and nothing else.
    public void put(Headers headers) {
        drop(headers);
        headers.add(PARENT, parent().getBytes(StandardCharsets.US_ASCII));
        if (!state.isEmpty()) {
            headers.add(STATE, state.getBytes(StandardCharsets.US_ASCII));
        }
    }

    /// Takes out what they say: of a context that is not well-formed nothing is carried on.
    public static void drop(Headers headers) {
        headers.remove(PARENT);
        headers.remove(STATE);
    }
}

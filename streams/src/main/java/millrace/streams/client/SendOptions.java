package millrace.streams.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// How one prompt is sent.
///
/// @param listener hears the previews, which are then asked for; null for none
/// @param timeout how long the completion is awaited; zero is for ever, null is the client's default
/// @param key of the record; null takes the session id, or the request id where there is none
/// @param headers of the record, `traceparent` for one; they come back with the completion's record
public record SendOptions(
        @Nullable DeltaListener listener,
        @Nullable Duration timeout,
        byte @Nullable [] key,
        Map<String, String> headers) {
    public static final SendOptions DEFAULT = new SendOptions(null, null, null, Map.of());

    public SendOptions {
        headers = Map.copyOf(headers);
        if (timeout != null && timeout.isNegative()) {
            throw new IllegalArgumentException("timeout: expected zero or more, got " + timeout);
        }
    }

    public SendOptions withListener(@Nullable DeltaListener listener) {
        return new SendOptions(listener, timeout, key, headers);
    }

    public SendOptions withTimeout(@Nullable Duration timeout) {
        return new SendOptions(listener, timeout, key, headers);
    }

    public SendOptions withKey(String key) {
        return new SendOptions(listener, timeout, key.getBytes(StandardCharsets.UTF_8), headers);
    }

    SendOptions withKey(byte[] key) {
        return new SendOptions(listener, timeout, key, headers);
    }

    public SendOptions withHeader(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(headers);
        more.put(name, value);
        return new SendOptions(listener, timeout, key, more);
    }
}

package millrace.streams.console;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Reads a query string.
final class Query {
    private Query() {}

    /// The parameters, the first of each name; what cannot be decoded is left out.
    static Map<String, String> parse(@Nullable String raw) {
        Map<String, String> parameters = new HashMap<>();
        if (raw == null) {
            return parameters;
        }
        for (String pair : raw.split("&")) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                try {
                    parameters.putIfAbsent(
                            URLDecoder.decode(pair.substring(0, equals), StandardCharsets.UTF_8),
                            URLDecoder.decode(pair.substring(equals + 1), StandardCharsets.UTF_8));
                } catch (IllegalArgumentException e) {
                    // Not encoded as a query is: as if it had not been given.
                }
            }
        }
        return parameters;
    }

    /// @return the number, or `missing` where it is absent or none from 0
    static long number(Map<String, String> query, String name, long missing) {
        String text = query.getOrDefault(name, "");
        return text.matches("\\d{1,18}") ? Long.parseLong(text) : missing;
    }
}

package millrace.streams.console;

import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// The state of the service in named checks; a probe is UP when all of its checks are.
///
/// @param data what a check of readiness says beside its state, by the name of the check
public record Health(
        Map<String, Boolean> live,
        Map<String, Boolean> ready,
        Map<String, Boolean> started,
        Map<String, Map<String, String>> data) {

    static boolean isUp(Map<String, Boolean> checks) {
        return checks.values().stream().allMatch(Boolean::booleanValue);
    }

    static String json(Map<String, Boolean> checks, Map<String, Map<String, String>> data) {
        String list = checks.entrySet().stream()
                .map(e -> "{\"name\":\"" + e.getKey() + "\",\"status\":\"" + (e.getValue() ? "UP" : "DOWN") + "\""
                        + json(data.get(e.getKey())) + "}")
                .collect(Collectors.joining(","));
        return "{\"status\":\"" + (isUp(checks) ? "UP" : "DOWN") + "\",\"checks\":[" + list + "]}";
    }

    private static String json(@Nullable Map<String, String> data) {
        return data == null ? "" : data.entrySet().stream()
                .map(e -> quoted(e.getKey()) + ":" + quoted(e.getValue()))
                .collect(Collectors.joining(",", ",\"data\":{", "}"));
    }

    private static String quoted(String text) {
        return '"' + text.replaceAll("[^ -~]", "?").replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}

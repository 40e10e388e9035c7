package millrace.streams;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/// Topics of one test's own on a broker that it shares.
final class OwnTopics {
    private static final List<String> ALL =
            List.of("prompts", "completions", "audit", "checkpoints", "faults", "dlq", "control", "salts", "cancels",
                    "deltas");

    private OwnTopics() {}

    /// The settings that name them.
    static Map<String, String> of(String prefix) {
        return ALL.stream().collect(Collectors.toMap(topic -> "topics." + topic, topic -> prefix + "." + topic));
    }
}

package millrace.integrity;

import java.util.LinkedHashMap;
import java.util.Map;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.ComputeDevice;

/// Counts answers by what they say that they were computed with: the backend, and the device where there was one.
final class Computed {
    /// Names that are counted apart. A log that is not honest may make up more.
    static final int MOST = 32;

    private static final String OTHERS = "others";

    private final Map<String, Long> answers = new LinkedHashMap<>();

    void take(AttestationRecord record) {
        if (record.getEvent() == AuditEvent.INFERENCE) {
            String name = name(record);
            answers.merge(answers.size() < MOST || answers.containsKey(name) ? name : OTHERS, 1L, Long::sum);
        }
    }

    private static String name(AttestationRecord record) {
        ComputeDevice device = record.getDevice();
        String backend = Shown.text(record.getBackend());
        return device == null ? backend : "%s on %s, compute capability %s%s".formatted(backend, Shown.text(device.getName()),
                Shown.text(device.getCapability()), device.getStandin() ? ", STAND-IN" : "");
    }

    Map<String, Long> answers() {
        return answers;
    }
}

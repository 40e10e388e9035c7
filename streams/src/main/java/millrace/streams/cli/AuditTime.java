package millrace.streams.cli;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;

/// Points and spans of time as the auditor's commands take them.
final class AuditTime {
    private AuditTime() {}

    /// A point in time: `2026-11-30T09:00:00Z`, or how long ago: `24h`, `7d`, `90m`.
    ///
    /// @return milliseconds since the epoch
    static long since(String option, String text, Clock clock) {
        try {
            return Instant.parse(text).toEpochMilli();
        } catch (DateTimeParseException notAnInstant) {
            return clock.millis() - span(option, text).toMillis();
        }
    }

    /// A span of time: a whole number and `s`, `m`, `h` or `d`.
    static Duration span(String option, String text) {
        if (text.matches("[0-9]{1,9}[smhd]")) {
            long number = Long.parseLong(text.substring(0, text.length() - 1));
            return switch (text.charAt(text.length() - 1)) {
                case 's' -> Duration.ofSeconds(number);
                case 'm' -> Duration.ofMinutes(number);
                case 'h' -> Duration.ofHours(number);
                default -> Duration.ofDays(number);
            };
        }
        throw new IllegalArgumentException(option + ": expected a time such as 24h, 7d or 2026-11-30T09:00:00Z, got \""
                + text + "\"");
    }
}

package millrace.streams;

import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/// Spans of time in the configuration: `250ms`, `30s`, `5m`, `2h`; a number alone is milliseconds.
final class Durations {
    private static final Pattern FORM = Pattern.compile("([0-9]{1,12})(ms|s|m|h)?");

    private Durations() {}

    static Duration parse(String key, String text) {
        Matcher form = FORM.matcher(text.strip());
        if (!form.matches()) {
            throw new ConfigException("config key \"" + key + "\": expected a span of time such as 250ms, 30s, 5m or 2h, got \""
                    + text + "\"");
        }
        long number = Long.parseLong(form.group(1));
        return switch (form.group(2) == null ? "ms" : form.group(2)) {
            case "s" -> Duration.ofSeconds(number);
            case "m" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            default -> Duration.ofMillis(number);
        };
    }

    /// Accepts zero and spans within the bounds.
    static ConfigDef.Validator zeroOr(Duration least, Duration most) {
        return ConfigDef.LambdaValidator.with(
                (key, value) -> {
                    Duration span = parse(key, (String) value);
                    if (!span.isZero() && (span.compareTo(least) < 0 || span.compareTo(most) > 0)) {
                        throw new ConfigException("config key \"" + key + "\": expected 0, or from " + least.toMillis() + "ms to "
                                + most.toMillis() + "ms, got " + value);
                    }
                },
                () -> "0, or " + least.toMillis() + "ms to " + most.toMillis() + "ms");
    }
}

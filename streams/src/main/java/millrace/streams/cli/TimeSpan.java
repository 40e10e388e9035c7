package millrace.streams.cli;

import java.time.Duration;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/// A span of time as people write it: `30s`, `90m`, `24h`, `2d`.
final class TimeSpan implements ITypeConverter<Duration> {
    private static final Pattern FORM = Pattern.compile("(\\d{1,9})([smhd])");

    @Override
    public Duration convert(String value) {
        Matcher matcher = FORM.matcher(value.toLowerCase(Locale.ROOT));
        if (!matcher.matches()) {
            throw new TypeConversionException("expected a span such as 90m, 24h or 2d, got \"" + value + "\"");
        }
        long number = Long.parseLong(matcher.group(1));
        return switch (matcher.group(2)) {
            case "s" -> Duration.ofSeconds(number);
            case "m" -> Duration.ofMinutes(number);
            case "h" -> Duration.ofHours(number);
            default -> Duration.ofDays(number);
        };
    }
}

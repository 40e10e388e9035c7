package millrace.streams.cli;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/// A number of bytes as people write it: `4096`, `64k`, `512m`, `8g`; the units are powers of 1,024.
final class ByteSize implements ITypeConverter<Long> {
    private static final Pattern FORM = Pattern.compile("(\\d{1,18})([kmgt]?)b?");

    @Override
    public Long convert(String value) {
        return parse(value);
    }

    static long parse(String value) {
        Matcher matcher = FORM.matcher(value.toLowerCase(Locale.ROOT));
        if (!matcher.matches()) {
            throw new TypeConversionException("expected bytes like 4096, 64k, 512m or 8g, got \"" + value + "\"");
        }
        int shift = matcher.group(2).isEmpty() ? 0 : 10 * ("kmgt".indexOf(matcher.group(2)) + 1);
        long number = Long.parseLong(matcher.group(1));
        if (number > Long.MAX_VALUE >> shift) {
            throw new TypeConversionException("expected at most 8 EiB, got \"" + value + "\"");
        }
        return number << shift;
    }

    /// The size with a unit and three digits, for people.
    static String text(long bytes) {
        if (bytes < 1024) {
            return bytes + " B";
        }
        int unit = (63 - Long.numberOfLeadingZeros(bytes)) / 10;
        double value = bytes / (double) (1L << 10 * unit);
        return String.format(Locale.ROOT, value < 10 ? "%.2f %siB" : value < 100 ? "%.1f %siB" : "%.0f %siB", value,
                "KMGTPE".substring(unit - 1, unit));
    }
}

package millrace.integrity;

/// Foreign text, made fit for a message: at most 120 characters, and no control characters that could forge a log line.
public final class Shown {
    private static final int LIMIT = 120;

    private Shown() {}

    public static String text(String text) {
        StringBuilder shown = new StringBuilder();
        text.codePoints().limit(LIMIT).forEach(c -> {
            int type = Character.getType(c);
            if (type == Character.CONTROL || type == Character.FORMAT || type == Character.SURROGATE
                    || type == Character.LINE_SEPARATOR || type == Character.PARAGRAPH_SEPARATOR) {
                shown.append("\\u%04X".formatted(c));
            } else {
                shown.appendCodePoint(c);
            }
        });
        return text.codePointCount(0, text.length()) > LIMIT ? shown + "..." : shown.toString();
    }
}

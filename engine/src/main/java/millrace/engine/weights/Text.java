package millrace.engine.weights;

/// Untrusted text made fit for a message: one line, bounded, no control or direction characters.
public final class Text {
    private static final int MAX = 100;

    private Text() {}

    /// The value in double quotes, everything but printable ASCII escaped, cut after 100 characters.
    public static String quote(String value) {
        var out = new StringBuilder("\"");
        value.chars().limit(MAX).forEach(c -> {
            if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
                out.append((char) c);
            } else {
                out.append(String.format("\\u%04x", c));
            }
        });
        return out.append(value.length() > MAX ? "...\" (" + value.length() + " characters)" : "\"").toString();
    }
}

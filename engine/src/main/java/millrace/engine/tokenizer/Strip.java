package millrace.engine.tokenizer;

/// Python's `str.strip` and its one-sided forms.
final class Strip {
    private Strip() {}

    static String left(String text, String chars) {
        int from = 0;
        while (from < text.length() && chars.indexOf(text.charAt(from)) >= 0) {
            from++;
        }
        return text.substring(from);
    }

    static String right(String text, String chars) {
        int to = text.length();
        while (to > 0 && chars.indexOf(text.charAt(to - 1)) >= 0) {
            to--;
        }
        return text.substring(0, to);
    }

    /// Without white space at both ends, as Python's `str.isspace` sees it.
    static String both(String text) {
        int from = 0;
        int to = text.length();
        while (from < to && isSpace(text.charAt(from))) {
            from++;
        }
        while (to > from && isSpace(text.charAt(to - 1))) {
            to--;
        }
        return text.substring(from, to);
    }

    private static boolean isSpace(char c) {
        return c >= 0x09 && c <= 0x0D || c >= 0x1C && c <= 0x1F || c == 0x85 || Character.isSpaceChar(c);
    }
}

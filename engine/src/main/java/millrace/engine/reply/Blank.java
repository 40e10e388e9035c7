package millrace.engine.reply;

/// The white space that formats put around their markup: space, tab, line feed, carriage return.
final class Blank {
    private Blank() {}

    static boolean is(char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
    }

    static boolean is(CharSequence text) {
        return text.chars().allMatch(c -> is((char) c));
    }

    static String strip(String text) {
        int end = text.length();
        while (end > 0 && is(text.charAt(end - 1))) {
            end--;
        }
        return stripLeft(text.substring(0, end));
    }

    static String stripLeft(String text) {
        int from = 0;
        while (from < text.length() && is(text.charAt(from))) {
            from++;
        }
        return text.substring(from);
    }
}

package millrace.engine.reply;

/// One piece of markup.
record Marker(String text, Kind kind) {
    enum Kind {
        /// Reasoning begins.
        THINK,
        /// Reasoning ends.
        END_THINK,
        /// Calls begin or end: nothing but calls is expected between them.
        SECTION,
        /// A call begins.
        CALL,
        /// A call ends.
        END_CALL,
        /// Stands between the parts of a call.
        INNER,
        /// The value of an argument begins: up to its end nothing in it is markup.
        VALUE,
        /// The value of an argument ends.
        END_VALUE
    }

    /// Whether it, or a beginning of it that is all there is yet, stands at this place of a text.
    boolean mayStandAt(CharSequence of, int at) {
        int length = Math.min(text.length(), of.length() - at);
        for (int i = 0; i < length; i++) {
            if (of.charAt(at + i) != text.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    int length() {
        return text.length();
    }
}

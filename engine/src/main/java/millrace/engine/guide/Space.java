package millrace.engine.guide;

/// White space between the parts of a document, bounded so that it cannot go on for ever: nothing, one space, or one or two line
/// breaks and an indentation.
///
/// A run is a number: 0 none yet, 1 the space, 2 and 3 the line breaks, 3 + n behind n characters of indentation.
final class Space {
    /// The longest indentation.
    static final int MAX_INDENT = 32;

    /// The last run without indentation: what is indented stands in something.
    static final int LINES = 3;

    private Space() {}

    /// The run with one more byte, or −1 if it does not go on so.
    static int step(int run, int b) {
        if (run == 0) {
            return b == ' ' ? 1 : b == '\n' ? 2 : -1;
        }
        if (run == 2 && b == '\n') {
            return 3;
        }
        boolean indent = run >= 2 && run < LINES + MAX_INDENT && (b == ' ' || b == '\t');
        return !indent ? -1 : run == 2 ? 4 : run + 1;
    }
}

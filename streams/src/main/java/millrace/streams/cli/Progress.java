package millrace.streams.cli;

import java.io.PrintWriter;
import java.util.Locale;
import java.util.function.Consumer;

/// How far a command is, on standard error: one line that is rewritten on a terminal, else a line every five seconds.
/// Used by one thread.
final class Progress {
    private static final long TERMINAL_NANOS = 200_000_000L;
    private static final long LOG_NANOS = 5_000_000_000L;

    private final PrintWriter err;
    private final boolean terminal;
    private final String what;
    private final long total;
    private final long startNanos = System.nanoTime();
    private long shownNanos = startNanos;
    private boolean open;

    /// Progress of work that says itself how far it is: a line each time.
    static Consumer<String> lines(PrintWriter err) {
        return line -> {
            err.println(line);
            err.flush();
        };
    }

    /// @param what plural, for example `prompts`
    Progress(PrintWriter err, String what, long total) {
        this.err = err;
        this.what = what;
        this.total = total;
        terminal = System.console() != null && System.console().isTerminal();
    }

    /// @param tokens generated or read so far
    void show(long done, long tokens) {
        long now = System.nanoTime();
        if (now - shownNanos < (terminal ? TERMINAL_NANOS : LOG_NANOS)) {
            return;
        }
        shownNanos = now;
        String line = line(done, tokens, now);
        if (terminal) {
            err.print("\r" + line + "\u001b[K");
            open = true;
        } else {
            err.println(line);
        }
        err.flush();
    }

    /// The last line, always shown.
    void end(long done, long tokens) {
        if (open) {
            err.print("\r\u001b[K");
        }
        err.println(line(done, tokens, System.nanoTime()));
        err.flush();
    }

    private String line(long done, long tokens, long now) {
        double seconds = (now - startNanos) / 1e9;
        return String.format(
                Locale.ROOT, "%d of %d %s, %d tokens, %.1f s, %.0f tokens/s", done, total, what, tokens, seconds,
                tokens / Math.max(seconds, 1e-9));
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import java.util.Locale;
import millrace.integrity.model.SignedModel;

/// How far hashing is, on standard error: a line that is rewritten on a terminal, else a line every five seconds; nothing
/// for what is done at once. May be told by several threads.
final class ByteProgress implements SignedModel.Progress {
    private static final long TERMINAL_NANOS = 200_000_000L;
    private static final long LOG_NANOS = 5_000_000_000L;

    private final PrintWriter err;
    private final String what;
    private final boolean terminal = System.console() != null && System.console().isTerminal();
    private final long startNanos = System.nanoTime();
    private long shownNanos = startNanos;
    private long most;
    private boolean open;

    /// @param what is done, for example `hashed`
    ByteProgress(PrintWriter err, String what) {
        this.err = err;
        this.what = what;
    }

    @Override
    public synchronized void at(long done, long total) {
        most = Math.max(most, done);
        long now = System.nanoTime();
        if (now - shownNanos < (terminal ? TERMINAL_NANOS : LOG_NANOS)) {
            return;
        }
        shownNanos = now;
        double seconds = (now - startNanos) / 1e9;
        String line = String.format(Locale.ROOT, "%s of %s %s (%.0f %%), %.0f s left", ByteSize.text(most),
                ByteSize.text(total), what, 100.0 * most / Math.max(1, total), (total - most) * seconds / Math.max(1, most));
        if (terminal) {
            err.print("\r" + line + "\u001b[K");
            open = true;
        } else {
            err.println(line);
        }
        err.flush();
    }

    /// Takes the line away again.
    synchronized void end() {
        if (open) {
            err.print("\r\u001b[K");
            err.flush();
            open = false;
        }
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.NoSuchFileException;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import millrace.engine.EngineException;
import millrace.integrity.IntegrityException;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.Verdict.Verified;
import millrace.integrity.audit.AuditVerifier;
import org.apache.kafka.common.KafkaException;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ExitCode;
import picocli.CommandLine.Model.CommandSpec;

/// How the auditor's commands speak: results on standard output, as lines for people or as JSON whose last line is one
/// object; progress and complaints on standard error.
final class AuditConsole {
    private static final long PROGRESS_NANOS = 2_000_000_000L;

    private final CommandSpec spec;
    private final boolean json;
    private final LongSupplier clock;
    private final long startNanos;
    private long shownNanos;

    AuditConsole(CommandSpec spec, boolean json) {
        this(spec, json, System::nanoTime);
    }

    /// @param clock nanoseconds since any moment
    AuditConsole(CommandSpec spec, boolean json, LongSupplier clock) {
        this.spec = spec;
        this.json = json;
        this.clock = clock;
        startNanos = clock.getAsLong();
        shownNanos = startNanos;
    }

    /// Runs a command's body and turns everything that is no verdict into exit code 3: 1 means that a log is violated,
    /// and so no fault of ours may end with it. What a user can mend takes one line.
    int guarded(Callable<Integer> body) {
        try {
            return body.call();
        } catch (IntegrityException e) {
            complain(e.code(), e.getMessage());
        } catch (NoSuchFileException e) {
            complain(null, "no such file: " + e.getMessage());
        } catch (EngineException e) {
            complain(e.code(), e.getMessage());
        } catch (IOException | KafkaException | IllegalArgumentException | IllegalStateException e) {
            complain(null, e.getMessage() == null ? e.toString() : e.getMessage());
        } catch (OutOfMemoryError e) {
            complain(null, "out of memory: give the JVM more, or look at one --partition");
        } catch (Exception e) {
            e.printStackTrace(err());
            complain(null, e.toString());
        }
        return AuditCommand.USAGE;
    }

    private void complain(@Nullable String code, @Nullable String message) {
        err().println("millrace: " + (code == null ? "" : code + ": ") + message);
        err().flush();
        if (json) {
            ObjectNode line = object().put("verdict", "error");
            if (code != null) {
                line.put("code", code);
            }
            print(line.put("message", message));
        }
    }

    PrintWriter err() {
        return spec.commandLine().getErr();
    }

    boolean json() {
        return json;
    }

    static ObjectNode object() {
        return JsonLines.mapper().createObjectNode();
    }

    /// A JSON object on one line of standard output.
    void print(ObjectNode line) {
        say(line.toString());
    }

    /// Lines on standard output.
    void say(String line) {
        PrintWriter out = spec.commandLine().getOut();
        out.println(line);
        out.flush();
    }

    /// A line on standard error.
    void note(String line) {
        err().println("audit: " + line);
        err().flush();
    }

    /// Says now and then how far a reading is, and how long it will take.
    Consumer<AuditVerifier.Progress> progress() {
        return now -> {
            if (due()) {
                note("%d leaves, %d checkpoints, %d completions%s".formatted(
                        now.leaves(), now.checkpoints(), now.completions(), left(now.records(), now.total())));
            }
        };
    }

    /// Says now and then how much of some work is done, and how long it will take.
    void progress(String what, long done, long total) {
        if (due()) {
            note("%d of %d %s%s".formatted(done, total, what, left(done, total)));
        }
    }

    private boolean due() {
        long now = clock.getAsLong();
        if (now - shownNanos < PROGRESS_NANOS) {
            return false;
        }
        shownNanos = now;
        return true;
    }

    private String left(long done, long total) {
        if (done <= 0 || total <= 0) {
            return "";
        }
        double seconds = (clock.getAsLong() - startNanos) / 1e9;
        long more = Math.round(seconds / done * Math.max(0, total - done));
        return ", %d %%, %.0f a second, %d s left".formatted(Math.min(100, 100 * done / total), done / seconds, more);
    }

    /// The exit code of a verdict.
    static int exitCode(Verdict verdict) {
        return switch (verdict) {
            case Verified verified -> ExitCode.OK;
            case Refuted refuted -> AuditCommand.VIOLATED;
            case Undecided undecided -> AuditCommand.UNDECIDED;
        };
    }

    static String word(Verdict verdict) {
        return switch (verdict) {
            case Verified verified -> "ok";
            case Refuted refuted -> "violated";
            case Undecided undecided -> "undecided";
        };
    }

    /// A verdict for people: `what: ok`, or what is wrong.
    static String line(String what, Verdict verdict) {
        return switch (verdict) {
            case Verified verified -> what + ": ok";
            case Refuted refuted -> what + ": VIOLATED: " + refuted;
            case Undecided undecided -> what + ": undecided: " + undecided;
        };
    }

    /// Adds a verdict's fields: `verdict`, and `violation` or `code` and `why`.
    static ObjectNode put(ObjectNode line, Verdict verdict) {
        line.put("verdict", word(verdict));
        switch (verdict) {
            case Verified verified -> { }
            case Undecided undecided -> line.put("code", undecided.code()).put("why", undecided.why());
            case Refuted refuted -> violation(line.putObject("violation"), refuted);
        }
        return line;
    }

    static ObjectNode violation(ObjectNode line, Refuted refuted) {
        line.put("code", refuted.code()).put("what", refuted.what()).put("expected", refuted.expected())
                .put("got", refuted.got());
        Verdict.Place at = refuted.at();
        if (at != null) {
            line.put("topic", at.topic()).put("partition", at.partition()).put("offset", at.offset());
        }
        return line;
    }

    /// Ends a command whose result is one verdict.
    int end(String what, Verdict verdict, ObjectNode fields) {
        if (json) {
            ObjectNode line = put(object(), verdict);
            line.setAll(fields);
            print(line);
        } else {
            say(line(what, verdict));
        }
        return exitCode(verdict);
    }
}

package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import millrace.integrity.audit.AuditVerifier;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/// What an auditor sees while a command works.
class AuditConsoleTest {
    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();
    private long nanos = 7;
    private final AuditConsole console = new AuditConsole(
            new CommandLine(new AuditVerifyCommand()).setOut(new PrintWriter(out)).setErr(new PrintWriter(err)).getCommandSpec(), true,
            () -> nanos);

    @Test
    void saysHowFarItIsAndHowLongItWillTake() {
        Consumer<AuditVerifier.Progress> progress = console.progress();
        nanos += TimeUnit.MILLISECONDS.toNanos(1_900);
        progress.accept(new AuditVerifier.Progress(90, 1, 80, 171, 1_000));
        assertThat(err.toString()).as("not at once").isEmpty();
        nanos += TimeUnit.MILLISECONDS.toNanos(3_100);
        progress.accept(new AuditVerifier.Progress(120, 10, 120, 250, 1_000));
        progress.accept(new AuditVerifier.Progress(121, 10, 120, 251, 1_000));
        nanos += TimeUnit.SECONDS.toNanos(2);
        console.progress("answers", 140, 200);
        assertThat(err.toString().lines()).containsExactly(
                "audit: 120 leaves, 10 checkpoints, 120 completions, 25 %, 50 a second, 15 s left",
                "audit: 140 of 200 answers, 70 %, 20 a second, 3 s left");
        assertThat(out.toString()).as("results alone stand there").isEmpty();
    }

    @Test
    void saysNothingOfTheTimeLeftWhereNobodyKnowsIt() {
        nanos += TimeUnit.SECONDS.toNanos(3);
        console.progress().accept(new AuditVerifier.Progress(5, 0, 0, 0, 0));
        assertThat(err.toString().lines()).containsExactly("audit: 5 leaves, 0 checkpoints, 0 completions");
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.Callable;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.Manifest;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Spec;

/// Lists the batches of a directory, without asking the cluster.
@Command(
        name = "list",
        mixinStandardHelpOptions = true,
        description = "Lists the batches of a directory, the oldest first, without asking the cluster.",
        footer = {
            "",
            "Example:",
            "  millrace batch list --state data/batches",
            "",
            "Exit codes: 0 listed, 1 the directory cannot be read, 2 wrong usage."
        })
final class BatchListCommand implements Callable<Integer> {
    @Mixin
    BatchOptions options = new BatchOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchListCommand() {}

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        BatchStore store = options.existing();
        for (Manifest batch : store.list()) {
            BatchStatus ended = store.ended(batch);
            out.println("%s  %-11s  %s  %,9d lines  %s".formatted(batch.id(), ended == null ? "in_progress" : ended.state().word(),
                    Instant.ofEpochMilli(batch.createdMs()).truncatedTo(ChronoUnit.SECONDS), batch.lines(), batch.inputName()));
        }
        out.flush();
        return 0;
    }
}

package millrace.streams.cli;

import java.io.IOException;
import java.io.PrintWriter;
import java.time.Clock;
import java.util.concurrent.Callable;
import millrace.streams.batch.BatchRun;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.BatchWriter;
import millrace.streams.batch.Manifest;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Writes the answers of a batch.
@Command(
        name = "fetch",
        mixinStandardHelpOptions = true,
        description = "Writes the answers of a batch to a file, in the order of its lines, each line once.",
        footer = {
            "",
            "Examples:",
            "  millrace batch fetch batch_0123456789abcdef0123 --output answers.jsonl",
            "  millrace batch fetch batch_0123456789abcdef0123 --output answers.jsonl --errors errors.jsonl --wait",
            "",
            "The file is there whole or not at all. Of a batch that has expired or was cancelled it has the answers that came",
            "in time; every other line is an error, batch_expired or batch_cancelled.",
            "Exit codes: 0 written, 1 not settled yet or failed, 2 wrong usage."
        })
final class BatchFetchCommand implements Callable<Integer> {
    @Parameters(paramLabel = "ID", description = "The batch.")
    String id = "";

    @Option(names = "--output", required = true, paramLabel = "FILE", description = "Where the answers go; - is standard output.")
    String output = "";

    @Option(names = "--errors", paramLabel = "FILE", description = "Where lines without an answer go (default: to the output too).")
    @Nullable String errors;

    @Option(names = "--partial", description = "Writes what is there, also of a batch that is not settled.")
    boolean partial;

    @Option(names = "--wait", description = "Waits until every line is settled; sends again what a quota put off.")
    boolean wait;

    @Mixin
    BatchOptions options = new BatchOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchFetchCommand() {}

    @Override
    public Integer call() throws Exception {
        PrintWriter err = spec.commandLine().getErr();
        BatchStore store = options.existing();
        Manifest manifest = store.find(id);
        try (BatchTopics topics = new BatchTopics(options.client.load());
                BatchRun run = BatchRun.open(store, manifest, topics, Integer.MAX_VALUE, Clock.systemUTC());
                BatchOptions.StopSignal stop = new BatchOptions.StopSignal()) {
            if (wait) {
                run.work(BatchRun.Goal.SETTLED, stop, BatchOptions.progress(err));
            } else {
                run.collect();
            }
            BatchStatus status = run.status();
            err.println(BatchOptions.line(status));
            if (!status.state().isFinal() && !partial) {
                err.println("millrace: nothing written; --wait waits for the rest, --partial writes what is there");
                return 1;
            }
            BatchWriter.Counts counts = write(run);
            err.println("%,d answers and %,d errors written".formatted(counts.results(), counts.errors()));
            return 0;
        }
    }

    private BatchWriter.Counts write(BatchRun run) throws IOException {
        try (OutputFile results = OutputFile.open(output); OutputFile apart = errors == null ? null : OutputFile.open(errors)) {
            BatchWriter.Counts counts = run.write(results::write, apart == null ? results::write : apart::write);
            if (apart != null) {
                apart.commit();
            }
            results.commit();
            return counts;
        }
    }
}

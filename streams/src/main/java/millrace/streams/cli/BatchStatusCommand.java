package millrace.streams.cli;

import java.time.Clock;
import java.util.concurrent.Callable;
import millrace.streams.batch.BatchRun;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.Manifest;
import millrace.streams.openai.Json;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Reads the answers that are there and says how a batch stands.
@Command(
        name = "status",
        mixinStandardHelpOptions = true,
        description = "Reads the answers that are there by now and says how a batch stands.",
        footer = {
            "",
            "Examples:",
            "  millrace batch status batch_0123456789abcdef0123",
            "  millrace batch status batch_0123456789abcdef0123 --json",
            "",
            "Exit codes: 0 settled, 1 not yet or failed, 2 wrong usage."
        })
final class BatchStatusCommand implements Callable<Integer> {
    @Parameters(paramLabel = "ID", description = "The batch.")
    String id = "";

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Mixin
    BatchOptions options = new BatchOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchStatusCommand() {}

    @Override
    public Integer call() {
        BatchStore store = options.existing();
        Manifest manifest = store.find(id);
        BatchStatus status = store.ended(manifest);
        if (status == null) {
            try (BatchTopics topics = new BatchTopics(options.client.load());
                    BatchRun run = BatchRun.open(store, manifest, topics, Integer.MAX_VALUE, Clock.systemUTC())) {
                run.collect();
                status = run.status();
            }
        }
        spec.commandLine().getOut().println(json ? Json.write(status.toJson()) : BatchOptions.line(status));
        spec.commandLine().getOut().flush();
        return status.state().isFinal() ? 0 : 1;
    }
}

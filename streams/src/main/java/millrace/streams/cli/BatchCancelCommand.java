package millrace.streams.cli;

import java.time.Clock;
import java.util.concurrent.Callable;
import millrace.streams.batch.BatchException;
import millrace.streams.batch.BatchRun;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.Manifest;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Ends a batch before its time.
@Command(
        name = "cancel",
        mixinStandardHelpOptions = true,
        description = "Ends a batch: what is answered stays, the service is asked to end the rest.",
        footer = {
            "",
            "Example:",
            "  millrace batch cancel batch_0123456789abcdef0123",
            "",
            "Exit codes: 0 settled, or left to the process that works on it; 1 failed, 2 wrong usage."
        })
final class BatchCancelCommand implements Callable<Integer> {
    @Parameters(paramLabel = "ID", description = "The batch.")
    String id = "";

    @Mixin
    BatchOptions options = new BatchOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchCancelCommand() {}

    @Override
    public Integer call() {
        BatchStore store = options.existing();
        Manifest manifest = store.find(id);
        BatchStatus status = store.ended(manifest);
        if (status == null) {
            store.cancel(manifest, System.currentTimeMillis());
            try (BatchTopics topics = new BatchTopics(options.client.load());
                    BatchRun run = BatchRun.open(store, manifest, topics, Integer.MAX_VALUE, Clock.systemUTC());
                    BatchOptions.StopSignal stop = new BatchOptions.StopSignal()) {
                run.work(BatchRun.Goal.SETTLED, stop, BatchOptions.progress(spec.commandLine().getErr()));
                status = run.status();
            } catch (BatchException e) {
                if (!e.code().equals("BATCH_BUSY")) {
                    throw e;
                }
                spec.commandLine().getOut().println(manifest.id() + "  cancelling: the process that works on it ends it");
                spec.commandLine().getOut().flush();
                return 0;
            }
        }
        spec.commandLine().getOut().println(BatchOptions.line(status));
        spec.commandLine().getOut().flush();
        return status.state().isFinal() ? 0 : 1;
    }
}

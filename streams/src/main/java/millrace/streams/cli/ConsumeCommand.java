package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Completion;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.common.errors.WakeupException;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Prints committed completions as they arrive.
@Command(
        name = "consume",
        mixinStandardHelpOptions = true,
        description = "Prints completions as they are committed, until Ctrl-C.",
        footer = {
            "",
            "Examples:",
            "  millrace consume",
            "  millrace consume --from-beginning --json --max 10",
            "",
            "Exit codes: 0 ended as asked, 1 the cluster or the registry failed, 2 wrong usage."
        })
final class ConsumeCommand implements Callable<Integer> {
    @Option(names = "--from-beginning", description = "Starts with the oldest completion instead of the next.")
    boolean fromBeginning;

    @Option(names = "--max", paramLabel = "N", description = "Ends after N completions (default: never).")
    long max = Long.MAX_VALUE;

    @Option(names = "--idle", paramLabel = "SECONDS", description = "Ends when nothing came for this long (default: never).")
    long idleSeconds = Long.MAX_VALUE / 1_000_000_000L;

    @Option(names = "--json", description = "Prints each completion as one JSON object.")
    boolean json;

    @Mixin
    ClientOptions client = new ClientOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    ConsumeCommand() {}

    @Override
    public Integer call() throws Exception {
        ServiceConfig config = client.load();
        PrintWriter out = spec.commandLine().getOut();
        CountDownLatch closed = new CountDownLatch(1);
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                CompletionReader reader = new CompletionReader(config, registry, fromBeginning)) {
            Thread hook = new Thread(() -> {
                reader.wakeup();
                try {
                    closed.await(5, TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            Runtime.getRuntime().addShutdownHook(hook);
            try {
                follow(reader, out);
            } catch (WakeupException e) {
                // Ctrl-C: what was read has been printed.
                return 0;
            }
            Runtime.getRuntime().removeShutdownHook(hook);
            return 0;
        } finally {
            closed.countDown();
        }
    }

    private void follow(CompletionReader reader, PrintWriter out) {
        long seen = 0;
        long lastNanos = System.nanoTime();
        while (seen < max && System.nanoTime() - lastNanos < idleSeconds * 1_000_000_000L) {
            for (Completion completion : reader.poll(Duration.ofMillis(200), spec.commandLine().getErr()::println)) {
                if (seen == max) {
                    break;
                }
                out.println(json ? CompletionJson.line(completion) : line(completion));
                seen++;
                lastNanos = System.nanoTime();
            }
            out.flush();
        }
    }

    private static String line(Completion completion) {
        String answer = completion.getErrorCode() == null
                ? completion.getText()
                : completion.getErrorCode() + ": " + completion.getErrorMessage();
        return completion.getRequestId() + "\t" + completion.getFinishReason() + "\t" + completion.getAudit().getPartition() + "/"
                + completion.getAudit().getSeq() + "\t" + answer.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t");
    }
}

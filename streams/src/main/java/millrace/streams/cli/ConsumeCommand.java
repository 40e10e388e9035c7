package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.errors.WakeupException;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Prints committed completions as they arrive, or the previews of those that are being generated.
@Command(
        name = "consume",
        mixinStandardHelpOptions = true,
        description = {
            "Prints completions as they are committed, or previews as they come, until Ctrl-C.",
            "A line is: request id, finish reason, partition/sequence number of the leaf, text; with --deltas: request id, kind, text. Tabs"
                    + " part them; tab, newline and backslash in the text are written \\t, \\n and \\\\."},
        footer = {
            "",
            "Examples:",
            "  millrace consume",
            "  millrace consume --from-beginning --json --max 10",
            "  millrace consume --deltas --request q-17 --max 1",
            "",
            "Kinds of lines with --deltas: CONTENT, REASONING and TOOL_CALL have what is",
            "appended; GAP n: n deltas are missing here, also those that came before",
            "the command began; RESTART: all of this request so far is void, it begins",
            "again; END: the completion follows. Previews are not attested: the",
            "completion counts.",
            "",
            "Exit codes: 0 ended as asked, 1 the cluster or the registry failed, 2 wrong usage."
        })
final class ConsumeCommand implements Callable<Integer> {
    /// Requests whose previews are held apart at once; some hundred bytes each.
    private static final int REMEMBERED = 10_000;

    @Option(names = "--from-beginning", description = "Starts with the oldest record instead of the next.")
    boolean fromBeginning;

    @Option(names = "--deltas", description = "Prints previews of prompts that ask for them (preview, prompt --stream) instead of completions.")
    boolean deltas;

    @Option(names = "--request", paramLabel = "ID", description = "Only of this request. Repeatable (default: all).")
    Set<String> requests = new HashSet<>();

    @Option(names = "--max", paramLabel = "N", description = "Ends after N completions, or N previews that ended (default: never).")
    long max = Long.MAX_VALUE;

    @Option(names = "--idle", paramLabel = "SECONDS", description = "Ends when nothing came for this long (default: never).")
    long idleSeconds = Long.MAX_VALUE / 1_000_000_000L;

    @Option(names = "--json", description = "Prints each line as one JSON object.")
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
                RecordReader<?> reader = deltas
                        ? new RecordReader<>(config, registry, "deltas", Delta.class, fromBeginning)
                        : new RecordReader<>(config, registry, "completions", Completion.class, fromBeginning)) {
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

    private void follow(RecordReader<?> reader, PrintWriter out) {
        PreviewLines previews = new PreviewLines(json, REMEMBERED, out::println);
        long seen = 0;
        long lastNanos = System.nanoTime();
        while (seen < max && System.nanoTime() - lastNanos < idleSeconds * 1_000_000_000L) {
            for (SpecificRecord record : reader.poll(Duration.ofMillis(200), spec.commandLine().getErr()::println)) {
                if (seen == max) {
                    break;
                }
                if (!wanted(record)) {
                    continue;
                }
                if (record instanceof Delta delta) {
                    previews.take(delta);
                    seen = previews.ended();
                } else if (record instanceof Completion completion) {
                    out.println(json ? CompletionJson.line(completion) : line(completion));
                    seen++;
                }
                lastNanos = System.nanoTime();
            }
            out.flush();
        }
    }

    private boolean wanted(SpecificRecord record) {
        return requests.isEmpty() || requests.contains(record instanceof Delta delta
                ? delta.getRequestId()
                : ((Completion) record).getRequestId());
    }

    private static String line(Completion completion) {
        String answer = completion.getErrorCode() == null
                ? completion.getText()
                : completion.getErrorCode() + ": " + completion.getErrorMessage();
        return completion.getRequestId() + "\t" + completion.getFinishReason() + "\t" + completion.getAudit().getPartition() + "/"
                + completion.getAudit().getSeq() + "\t" + escaped(answer);
    }

    /// On one line, in one column.
    static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t");
    }
}

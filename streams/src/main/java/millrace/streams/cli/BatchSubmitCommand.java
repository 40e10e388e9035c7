package millrace.streams.cli;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.streams.batch.BatchRun;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.Endpoint;
import millrace.streams.batch.Manifest;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Sends a file of requests.
@Command(
        name = "submit",
        mixinStandardHelpOptions = true,
        description = "Sends a file of requests, one JSON object a line, and prints the batch's id.",
        footer = {
            "",
            "Examples:",
            "  millrace batch submit questions.jsonl --expires 2h",
            "  millrace batch submit questions.jsonl --wait --max-in-flight 500",
            "  generate-questions | millrace batch submit -",
            "",
            "The same file again goes on with the batch that it made before, and does nothing if all of it was sent; --new",
            "makes another batch of it. Lines that are no request do not stop the others: fetch gives each its reason.",
            "Exit codes: 0 sent (with --wait: settled), 1 failed, 2 wrong usage."
        })
final class BatchSubmitCommand implements Callable<Integer> {
    private static final Duration LONGEST = Duration.ofDays(6);

    @Parameters(paramLabel = "FILE", description = "The requests; - is standard input.")
    String file = "";

    @Option(names = "--expires", paramLabel = "SPAN", converter = TimeSpan.class,
            description = "After this a line that has no answer gets none: 90m, 24h, up to 6d (default: 24h).")
    Duration expires = Duration.ofHours(24);

    @Option(names = "--endpoint", paramLabel = "PATH", description = "The url of the lines (default: ${DEFAULT-VALUE}).")
    String endpoint = Endpoint.CHAT.path();

    @Option(names = "--tenant", paramLabel = "NAME", description = "The tenant that asks.")
    @Nullable String tenant;

    @Option(names = "--max-in-flight", paramLabel = "N",
            description = "The most prompts that wait for answers; with a quota, stay below it (default: no limit, they wait in their topic).")
    int maxInFlight = Integer.MAX_VALUE;

    @Option(names = "--wait", description = "Returns when every line is settled, not when all are sent.")
    boolean wait;

    @Option(names = "--new", description = "Makes another batch, also if one of the same file exists.")
    boolean another;

    @Mixin
    BatchOptions options = new BatchOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchSubmitCommand() {}

    @Override
    public Integer call() throws Exception {
        if (expires.compareTo(Duration.ofSeconds(1)) < 0 || expires.compareTo(LONGEST) > 0) {
            throw new ParameterException(spec.commandLine(), "--expires: expected 1s to 6d, got " + expires);
        }
        if (maxInFlight < 1) {
            throw new ParameterException(spec.commandLine(), "--max-in-flight: expected at least 1, got " + maxInFlight);
        }
        PrintWriter err = spec.commandLine().getErr();
        BatchStore store = options.store();
        try (BatchTopics topics = new BatchTopics(options.client.load())) {
            Manifest manifest = manifest(store, topics, err);
            try (BatchRun run = BatchRun.open(store, manifest, topics, maxInFlight, Clock.systemUTC());
                    BatchOptions.StopSignal stop = new BatchOptions.StopSignal()) {
                run.work(wait ? BatchRun.Goal.SETTLED : BatchRun.Goal.SENT, stop, BatchOptions.progress(err));
                BatchStatus status = run.status();
                err.println(BatchOptions.line(status));
                spec.commandLine().getOut().println(manifest.id());
                spec.commandLine().getOut().flush();
                return status.sent() && (!wait || status.state().isFinal()) ? 0 : 1;
            }
        }
    }

    private Manifest manifest(BatchStore store, BatchTopics topics, PrintWriter err) throws IOException {
        Endpoint of = Endpoint.of(endpoint);
        BatchStore.Input input;
        try (InputStream in = open()) {
            input = store.copy(in, file);
        }
        Manifest same = another ? null : store.same(input, tenant, of);
        if (same != null) {
            store.discard(input);
            err.println("the same file as " + same.id() + ": going on with it; --new makes another batch");
            return same;
        }
        long now = System.currentTimeMillis();
        return store.create(input, tenant, of, now, now + expires.toMillis(), Map.of(), topics.start());
    }

    private InputStream open() throws IOException {
        if (file.equals("-")) {
            return System.in;
        }
        Path path = Path.of(file);
        if (!Files.isReadable(path) || Files.isDirectory(path)) {
            throw new IllegalArgumentException(file + ": expected a readable file, got none; check the path, or use - for standard input");
        }
        return Files.newInputStream(path);
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import millrace.integrity.Checkpoint;
import millrace.integrity.FollowStateFile;
import millrace.integrity.LogVerifier;
import millrace.integrity.NoteSigner;
import millrace.integrity.SignedNote;
import millrace.integrity.Witness;
import millrace.integrity.audit.AuditFollower;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditReport;
import millrace.integrity.audit.AuditVerifier;
import millrace.integrity.audit.CosignatureTopic;
import millrace.integrity.audit.FollowOptions;
import millrace.schemas.AttestationRecord;
import millrace.schemas.SuspectRange;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit follow`: monitor and witness.
@Command(
        name = "follow",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Verifies like audit verify, and goes on as the log grows, until it sees a violation or is stopped. Prints",
            "faults, retractions, new epochs and other events as they come. With --state it remembers the newest",
            "checkpoints between runs: a log that was rewritten or cut off meanwhile is found. With --witness-key it",
            "cosigns every checkpoint that it found consistent and publishes it; what it signs it has written down",
            "before."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit follow --key log.pub --state monitor.state",
            "  millrace audit follow --key log.pub --state monitor.state --once --json",
            "  millrace audit keygen --witness --name witness.example.org witness.key",
            "  millrace audit follow --key log.pub --state witness.state --witness-key witness.key",
            "",
            "Exit codes: 0 ok until it ended, 1 violated, 2 cannot be decided, 3 usage or input/output."
        })
final class AuditFollowCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--state", paramLabel = "FILE",
            description = "Where to remember what was seen. Needed with --witness-key; keep it, and never run two on one.")
    @Nullable Path state;

    @Option(names = "--witness-key", paramLabel = "FILE", description = "Key of a witness, as audit keygen --witness makes it.")
    @Nullable Path witnessKey;

    @Option(names = "--cosignatures-topic", paramLabel = "TOPIC",
            description = "Topic that a witness publishes to (default: topics.cosignatures); made if it is missing.")
    @Nullable String cosignaturesTopic;

    @Option(names = "--completions-topic", paramLabel = "TOPIC",
            description = "Topic of the completions (default: topics.completions).")
    @Nullable String completionsTopic;

    @Option(names = "--skip-completions", description = "Follows the log alone.")
    boolean skipCompletions;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--once", description = "Looks once, and ends.")
    boolean once;

    @Option(names = "--for", paramLabel = "SPAN", description = "Ends after a time such as 90s, 10m or 24h.")
    @Nullable String span;

    @Option(names = "--settle-ms", paramLabel = "MS", defaultValue = "20000",
            description = "How long to wait for what one topic shows and another not yet (default: ${DEFAULT-VALUE}).")
    long settleMs;

    @Option(names = "--json", description = "Prints events and the final report as JSON objects, one a line.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditFollowCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> follow(console));
    }

    private int follow(AuditConsole console) throws IOException {
        if (log.keys.isEmpty()) {
            throw new IllegalArgumentException("--key: expected the public key of the log; who follows a log must know who signs it");
        }
        if (witnessKey != null && state == null) {
            throw new IllegalArgumentException("--witness-key: expected --state too; a witness must remember what it signed");
        }
        ServiceConfig config = log.client.load();
        String completions = skipCompletions ? null
                : completionsTopic == null ? config.string("topics.completions") : completionsTopic;
        AuditOptions options = log.options(
                config, completions, partition, Duration.ofMillis(Math.max(0, settleMs)), null);
        try (FollowStateFile file = state == null ? null : FollowStateFile.open(state)) {
            if (witnessKey == null || file == null) {
                return run(console, new FollowOptions(options, file, null, null, time(), () -> false));
            }
            Witness witness = new Witness(NoteSigner.load(witnessKey), file, Clock.systemUTC());
            String topic = cosignaturesTopic == null ? config.string("topics.cosignatures") : cosignaturesTopic;
            try (CosignatureTopic cosignatures = CosignatureTopic.open(topic, options)) {
                return run(console, new FollowOptions(options, file, witness, cosignatures, time(), () -> false));
            }
        }
    }

    private @Nullable Duration time() {
        return once ? Duration.ZERO : span == null ? null : AuditTime.span("--for", span);
    }

    /// Follows until the end, or until the process is asked to stop; then the report still comes.
    private int run(AuditConsole console, FollowOptions options) {
        AtomicBoolean stop = new AtomicBoolean();
        CountDownLatch ended = new CountDownLatch(1);
        Thread hook = new Thread(() -> {
            stop.set(true);
            try {
                if (!ended.await(5, TimeUnit.SECONDS)) {
                    console.note("stopped before all was looked at");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, "audit-stop");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            AuditReport report = AuditFollower.run(new FollowOptions(options.audit(), options.state(), options.witness(),
                    options.cosignatures(), options.run(), stop::get), listener(console));
            console.say(json ? report.json() : report.text().stripTrailing());
            return report.exitCode();
        } finally {
            ended.countDown();
            if (!stop.get()) {
                Runtime.getRuntime().removeShutdownHook(hook);
            }
        }
    }

    private AuditFollower.Listener listener(AuditConsole console) {
        var progress = console.progress();
        return new AuditFollower.Listener() {
            @Override
            public void event(LogVerifier.Checked leaf) {
                if (json) {
                    console.print(eventLine(leaf));
                } else {
                    console.say(eventText(leaf));
                }
            }

            @Override
            public void cosigned(SignedNote note) {
                Checkpoint head = Checkpoint.parse(note.text());
                if (json) {
                    console.print(AuditConsole.object().put("cosigned", head.origin()).put("size", head.size())
                            .put("root", head.root().hex()));
                } else {
                    console.say("cosigned %s, size %d".formatted(head.origin(), head.size()));
                }
            }

            @Override
            public void note(String line) {
                console.note(line);
            }

            @Override
            public void progress(AuditVerifier.Progress now) {
                progress.accept(now);
            }
        };
    }

    private static ObjectNode eventLine(LogVerifier.Checked leaf) {
        AttestationRecord record = leaf.record();
        ObjectNode line = AuditConsole.object().put("event", record.getEvent().toString())
                .put("origin", record.getLogOrigin()).put("seq", record.getSeq()).put("time_ms", record.getTimeMs())
                .put("verdict", record.getVerdict().toString());
        if (!record.getErrorCode().isEmpty()) {
            line.put("error_code", record.getErrorCode());
        }
        if (!record.getDetail().isEmpty()) {
            line.put("detail", record.getDetail());
        }
        SuspectRange suspect = record.getSuspect();
        if (suspect != null) {
            line.putObject("suspect").put("origin", suspect.getOrigin()).put("from_seq", suspect.getFromSeq())
                    .put("to_seq", suspect.getToSeq()).put("reason", suspect.getReason());
        }
        return line;
    }

    private static String eventText(LogVerifier.Checked leaf) {
        AttestationRecord record = leaf.record();
        SuspectRange suspect = record.getSuspect();
        return "%s %s, leaf %d of %s%s%s%s".formatted(Instant.ofEpochMilli(record.getTimeMs()), record.getEvent(),
                record.getSeq(), record.getLogOrigin(),
                record.getErrorCode().isEmpty() ? "" : ", " + record.getErrorCode(),
                suspect == null ? "" : ", leaves %d to %d of %s: %s".formatted(suspect.getFromSeq(), suspect.getToSeq(),
                        suspect.getOrigin(), suspect.getReason()),
                record.getDetail().isEmpty() ? "" : ", " + record.getDetail()).replaceAll("\\p{Cntrl}", "?");
    }
}

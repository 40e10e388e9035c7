package millrace.streams.cli;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.integrity.Origin;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.Schemas;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit retract`: withdraws leaves, or ends a log.
@Command(
        name = "retract",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Orders the service to append a leaf that withdraws others, and waits for it. Nothing is deleted: who reads the",
            "log learns that these answers are not to be relied on. With --new-epoch it ends the log instead and begins the",
            "next epoch."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit retract --partition 0 --from 120 --to 133 --reason OPERATOR",
            "  millrace audit retract --partition 0 --new-epoch --reason PARTITIONS_CHANGED",
            "",
            "Exit codes: 0 done, 1 refused by the service, 2 no answer in time or no log, 3 usage or input/output."
        })
final class AuditRetractCommand implements Callable<Integer> {
    @Option(names = "--partition", required = true, paramLabel = "P", description = "Partition of the audit topic.")
    int partition;

    @Option(names = "--from", paramLabel = "S", description = "Index of the first leaf.")
    @Nullable Long from;

    @Option(names = "--to", paramLabel = "S", description = "Index of the last leaf (default: the first).")
    @Nullable Long to;

    @Option(names = "--origin", paramLabel = "NAME", description = "The log, if it is not the newest of the partition.")
    @Nullable String origin;

    @Option(names = "--new-epoch", description = "Ends the log and begins the next epoch.")
    boolean newEpoch;

    @Option(names = "--reason", required = true, paramLabel = "CODE",
            description = "Why: WEIGHT, KV_PAGE, COMPUTE, CANARY, OPERATOR or a code of yours; of a new epoch OPERATOR or PARTITIONS_CHANGED.")
    String reason;

    @Option(names = "--timeout", paramLabel = "SECONDS", description = "How long to wait (default: ${DEFAULT-VALUE}).")
    int timeoutSeconds = 60;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Mixin
    ClientOptions client = new ClientOptions();

    @Mixin
    CommandConfig commandConfig = new CommandConfig();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec and reason
    AuditRetractCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> retract(console));
    }

    private int retract(AuditConsole console) throws IOException, InterruptedException {
        if (newEpoch == (from != null)) {
            throw new IllegalArgumentException("expected either --from or --new-epoch, got " + (newEpoch ? "both" : "neither"));
        }
        ServiceConfig config = commandConfig.over(client.load());
        String log = origin == null ? newest(config) : Origin.parse(origin).text();
        if (log.isEmpty()) {
            console.note("no leaf in partition %d of %s".formatted(partition, config.string("topics.audit")));
            return AuditCommand.UNDECIDED;
        }
        Control.Builder order = AuditEraseCommand.order(newEpoch ? ControlKind.NEW_EPOCH : ControlKind.RETRACT)
                .setOrigin(log).setReason(reason);
        if (from != null) {
            order.setFromSeq(from).setToSeq(to == null ? from : to);
        }
        return new AuditOrder(config, console, Duration.ofSeconds(timeoutSeconds)).give(Map.of(partition, order.build()));
    }

    private String newest(ServiceConfig config) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        String[] name = {""};
        TopicScan.read(new KafkaClients(config), config.string("topics.audit"), p -> p == partition,
                record -> name[0] = reader.read(record.value()).record().getLogOrigin());
        return name[0];
    }
}

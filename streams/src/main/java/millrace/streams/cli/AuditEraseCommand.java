package millrace.streams.cli;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import millrace.integrity.IntegrityException;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.Schemas;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit erase`: makes commitments unopenable, of one request or of a whole tenant.
@Command(
        name = "erase",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Orders the service to destroy the stored salt of one request, or the keys that all salts of a tenant are",
            "sealed under, and waits for the leaf that says so. The log still verifies. Completions keep text and salt",
            "until their topic deletes them: see docs/operations.md."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit erase --request-id r-17 --yes",
            "  millrace audit erase --tenant acme --yes",
            "",
            "Exit codes: 0 done, 1 refused by the service, 2 no answer in time or nothing found, 3 usage or input/output."
        })
final class AuditEraseCommand implements Callable<Integer> {
    /// What to erase.
    static final class Target {
        @Option(names = "--request-id", required = true, paramLabel = "ID", description = "The request whose salt to destroy.")
        @Nullable String requestId;

        @Option(names = "--tenant", required = true, paramLabel = "NAME",
                description = "The tenant whose keys to destroy; an empty text for prompts without one.")
        @Nullable String tenant;
    }

    @ArgGroup(multiplicity = "1")
    Target target = new Target();

    @Option(names = "--partition", paramLabel = "N", description = "With --request-id: only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--seq", paramLabel = "S", description = "With --request-id: only the leaf with this index.")
    @Nullable Long seq;

    @Option(names = "--yes", description = "Erases. Without it the command says what it would do, and does nothing.")
    boolean yes;

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

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditEraseCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> erase(console));
    }

    private int erase(AuditConsole console) throws IOException, InterruptedException {
        ServiceConfig config = commandConfig.over(client.load());
        Map<Integer, Control> orders;
        if (target.tenant != null) {
            orders = ofTenant(config, target.tenant);
            console.note("the keys of tenant \"%s\" in %d partitions: nobody will open its stored salts again"
                    .formatted(target.tenant, orders.size()));
        } else {
            List<AttestationRecord> leaves = leaves(config, String.valueOf(target.requestId));
            leaves.forEach(leaf -> console.note("leaf %d of %s".formatted(leaf.getSeq(), leaf.getLogOrigin())));
            if (leaves.isEmpty()) {
                console.note("no leaf of that request in " + config.string("topics.audit"));
                return AuditCommand.UNDECIDED;
            }
            if (leaves.size() > 1) {
                throw new IllegalArgumentException("--request-id: expected one leaf, got " + leaves.size()
                        + "; the id was used more than once: name one of them with --partition and --seq");
            }
            orders = ofRequest(leaves.getFirst());
        }
        if (!yes) {
            throw new IllegalArgumentException("nothing was erased; this cannot be undone: give --yes to do it");
        }
        return new AuditOrder(config, console, Duration.ofSeconds(timeoutSeconds)).give(orders);
    }

    private static Map<Integer, Control> ofTenant(ServiceConfig config, String tenant) {
        Map<Integer, Control> orders = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> reader = new KafkaClients(config).reader()) {
            for (PartitionInfo info : reader.partitionsFor(config.string("topics.control"))) {
                orders.put(info.partition(), order(ControlKind.ERASE_TENANT).setTenant(tenant).build());
            }
        }
        return orders;
    }

    private static Map<Integer, Control> ofRequest(AttestationRecord leaf) {
        return Map.of(leaf.getInPartition(), order(ControlKind.ERASE_REQUEST).setRequestId(leaf.getRequestId())
                .setOrigin(leaf.getLogOrigin()).setFromSeq(leaf.getSeq()).setToSeq(leaf.getSeq()).build());
    }

    static Control.Builder order(ControlKind kind) {
        return Control.newBuilder().setKind(kind).setIssuedMs(System.currentTimeMillis());
    }

    private List<AttestationRecord> leaves(ServiceConfig config, String requestId) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        List<AttestationRecord> found = new ArrayList<>();
        TopicScan.read(new KafkaClients(config), config.string("topics.audit"), p -> partition == null || partition == p, record -> {
            AttestationRecord leaf = read(reader, record);
            boolean answers = leaf.getEvent() == AuditEvent.INFERENCE
                    || leaf.getEvent() == AuditEvent.REFUSED && !leaf.getOutTopic().isEmpty();
            if (answers && leaf.getRequestId().equals(requestId) && (seq == null || seq == leaf.getSeq())) {
                found.add(leaf);
            }
        });
        return found;
    }

    private static AttestationRecord read(WireReader<AttestationRecord> reader, ConsumerRecord<byte[], byte[]> record) {
        try {
            return reader.read(record.value()).record();
        } catch (IntegrityException e) {
            throw new IntegrityException(e.code(), "%s-%d@%d: %s".formatted(
                    record.topic(), record.partition(), record.offset(), e.getMessage()), e);
        }
    }
}

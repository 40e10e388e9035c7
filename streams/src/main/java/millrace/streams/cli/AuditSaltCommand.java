package millrace.streams.cli;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.integrity.Buffers;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.TenantKey;
import millrace.integrity.WireReader;
import millrace.schemas.SaltRecord;
import millrace.schemas.Schemas;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit salt`: opens a stored salt, for who holds the audit key.
@Command(
        name = "salt",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Opens the stored salt of a request with the audit key and prints it, 64 hexadecimal digits. Who has it can check",
            "what the leaf commits to; treat it like the text itself. Needs the right to read the topic of the salts and the",
            "changelog of the tenants' keys."
        },
        footer = {
            "",
            "Example:",
            "  millrace audit salt --request-id r-17 --key audit.key",
            "",
            "Exit codes: 0 printed, 1 the record was changed, 2 erased or never stored, 3 usage or input/output."
        })
final class AuditSaltCommand implements Callable<Integer> {
    private static final int REF_BYTES = 16;

    @Option(names = "--request-id", required = true, paramLabel = "ID", description = "The request.")
    String requestId;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--seq", paramLabel = "S", description = "Only the leaf with this index.")
    @Nullable Long seq;

    @Option(names = "--key", required = true, paramLabel = "FILE", description = "The audit key's file.")
    Path key;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Mixin
    ClientOptions client = new ClientOptions();

    @Mixin
    CommandConfig commandConfig = new CommandConfig();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets the fields
    AuditSaltCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> open(console));
    }

    private int open(AuditConsole console) throws IOException {
        NoteSigner master = NoteSigner.load(key);
        ServiceConfig config = commandConfig.over(client.load());
        List<SaltRecord> records = records(config);
        if (records.isEmpty()) {
            console.note("no salt of that request in %s: it was erased, has expired, or was never stored"
                    .formatted(config.string("topics.salts")));
            return AuditCommand.UNDECIDED;
        }
        if (records.size() > 1) {
            records.forEach(record -> console.note("leaf %d of %s".formatted(record.getSeq(), record.getOrigin())));
            throw new IllegalArgumentException("--request-id: expected one salt, got " + records.size()
                    + "; the id was used more than once: name one of them with --partition and --seq");
        }
        SaltRecord record = records.getFirst();
        byte[] wrapped = wrappedKey(config, record);
        if (wrapped == null) {
            console.note("the key of that tenant is gone: it was erased");
            return AuditCommand.UNDECIDED;
        }
        String salt;
        try {
            salt = HexFormat.of().formatHex(TenantKey.unwrap(wrapped, Buffers.bytes(record.getKeyId()), master).open(record));
        } catch (IntegrityException e) {
            if (e.code().equals("TENANT_KEY_FOREIGN")) {
                throw e;
            }
            console.note(e.code() + ": " + e.getMessage());
            return AuditCommand.VIOLATED;
        }
        if (json) {
            console.print(AuditConsole.object().put("verdict", "ok").put("origin", record.getOrigin()).put("seq", record.getSeq())
                    .put("salt", salt));
        } else {
            console.say(salt);
        }
        return AuditCommand.OK;
    }

    /// Those of the request that were not erased.
    private List<SaltRecord> records(ServiceConfig config) {
        WireReader<SaltRecord> reader = new WireReader<>(Schemas.SALT, null);
        Map<ByteBuffer, SaltRecord> found = new LinkedHashMap<>();
        TopicScan.read(new KafkaClients(config), config.string("topics.salts"), p -> partition == null || partition == p, record -> {
            ByteBuffer name = ByteBuffer.wrap(record.key());
            found.remove(name);
            SaltRecord salt = record.value() == null ? null : reader.read(record.value()).record();
            if (salt != null && salt.getRequestId().equals(requestId) && (seq == null || seq == salt.getSeq())) {
                found.put(name, salt);
            }
        });
        return new ArrayList<>(found.values());
    }

    private byte @Nullable [] wrappedKey(ServiceConfig config, SaltRecord record) {
        String changelog = config.string("application.id") + "-tenant-keys-changelog";
        Map<ByteBuffer, byte[]> keys = new HashMap<>();
        int log = Origin.parse(record.getOrigin()).partition();
        TopicScan.read(new KafkaClients(config), changelog, p -> p == log, entry -> {
            ByteBuffer id = ByteBuffer.wrap(entry.key(), REF_BYTES, entry.key().length - REF_BYTES).slice();
            if (id.equals(record.getKeyId())) {
                if (entry.value() == null) {
                    keys.remove(ByteBuffer.wrap(entry.key()));
                } else {
                    keys.put(ByteBuffer.wrap(entry.key()), entry.value());
                }
            }
        });
        return keys.values().stream().findFirst().orElse(null);
    }
}

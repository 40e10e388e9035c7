package millrace.streams.cli;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteSigner;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditOptions;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Where the log is and who signs it; common to the commands that read a cluster.
final class AuditLogOptions {
    @Mixin
    ClientOptions client = new ClientOptions();

    @Option(names = "--topic", paramLabel = "TOPIC", description = "Audit topic (default: topics.audit).")
    @Nullable String topic;

    @Option(names = "--checkpoints-topic", paramLabel = "TOPIC",
            description = "Topic of the signed checkpoints (default: topics.checkpoints).")
    @Nullable String checkpointsTopic;

    @Option(names = "--key", paramLabel = "VKEY|FILE",
            description = "Public key of the log, name+id+base64, or a file of such lines. Repeatable. "
                    + "Without it roots are checked and signatures are not.")
    List<String> keys = new ArrayList<>();

    @Mixin
    CommandConfig commandConfig = new CommandConfig();

    AuditOptions options(
            ServiceConfig config, @Nullable String completions, @Nullable Integer partition, Duration settle,
            @Nullable IntFunction<Schema> resolver) throws IOException {
        return new AuditOptions(clientProperties(config), topic == null ? config.string("topics.audit") : topic,
                checkpointsTopic == null ? config.string("topics.checkpoints") : checkpointsTopic, completions,
                partition, keysOf("--key", NoteKey.Kind.LOG, keys), settle, AuditOptions.DEFAULT_STALL, resolver);
    }

    Map<String, Object> clientProperties(ServiceConfig config) throws IOException {
        Map<String, Object> properties = new HashMap<>(new KafkaClients(config).plain());
        properties.putAll(commandConfig.read());
        return properties;
    }

    /// Reads keys given as text or as files: lines of public keys, or a private key's file.
    ///
    /// @param option that gave them, for messages
    /// @param kind that each must be of
    static List<NoteVerifier> keysOf(String option, NoteKey.Kind kind, List<String> given) throws IOException {
        List<NoteVerifier> keys = new ArrayList<>();
        for (String key : given) {
            boolean isFile = Files.isRegularFile(Path.of(key));
            if (!isFile && key.chars().filter(c -> c == '+').count() < 2) {
                throw new IntegrityException("NOTE_KEY",
                        "%s: expected name+id+base64 or an existing file, got \"%s\"".formatted(option, key));
            }
            String text = isFile ? Files.readString(Path.of(key), StandardCharsets.UTF_8) : key;
            for (String line : text.lines().map(String::strip).toList()) {
                if (line.startsWith("PRIVATE+KEY+")) {
                    keys.add(isFile ? NoteSigner.load(Path.of(key)).verifier() : NoteSigner.parse(line).verifier());
                } else if (!line.isEmpty() && !line.startsWith("#")) {
                    keys.add(NoteVerifier.parse(line));
                }
            }
        }
        for (NoteVerifier key : keys) {
            if (key.kind() != kind) {
                throw new IntegrityException("NOTE_KEY_KIND", "%s: expected the key of a %s, got %s"
                        .formatted(option, kind == NoteKey.Kind.LOG ? "log" : "witness", key.vkey()));
            }
        }
        return keys;
    }
}

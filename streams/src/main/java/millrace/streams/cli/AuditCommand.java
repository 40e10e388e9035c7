package millrace.streams.cli;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.function.IntFunction;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.NoteVerifier;
import millrace.integrity.TlogProof;
import millrace.integrity.Verdict;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditProver;
import millrace.integrity.audit.AuditReport;
import millrace.integrity.audit.AuditVerifier;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.Schema;
import org.apache.kafka.common.KafkaException;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// The auditor's commands: a thin door to `millrace.integrity.audit`.
@Command(
        name = "audit",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Verifies the audit log of a cluster, from outside.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {"", "Exit codes: 0 ok, 1 violated, 2 cannot be decided, 3 usage or input/output."},
        subcommands = {AuditCommand.Verify.class, AuditCommand.Prove.class, AuditCommand.CheckProof.class, KeygenCommand.class})
final class AuditCommand implements Callable<Integer> {
    static final int USAGE = 3;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return USAGE;
    }

    /// Where the log is and who signs it; common to the commands that read a cluster.
    static final class LogOptions {
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

        @Option(names = "--command-config", paramLabel = "FILE",
                description = "Properties of the Kafka client, such as security.protocol; win over the configuration.")
        @Nullable Path commandConfig;

        AuditOptions options(
                ServiceConfig config, @Nullable String completions, @Nullable Integer partition, Duration settle,
                @Nullable IntFunction<Schema> resolver) throws IOException {
            return new AuditOptions(clientProperties(config), topic == null ? config.string("topics.audit") : topic,
                    checkpointsTopic == null ? config.string("topics.checkpoints") : checkpointsTopic, completions,
                    partition, keysOf(keys), settle, AuditOptions.DEFAULT_STALL, resolver);
        }

        private Map<String, Object> clientProperties(ServiceConfig config) throws IOException {
            Map<String, Object> properties = new HashMap<>(new KafkaClients(config).plain());
            if (commandConfig != null) {
                Properties file = new Properties();
                try (Reader reader = Files.newBufferedReader(commandConfig, StandardCharsets.UTF_8)) {
                    file.load(reader);
                }
                file.stringPropertyNames().forEach(name -> properties.put(name, file.getProperty(name)));
            }
            return properties;
        }
    }

    /// Reads keys given as text or as files: lines of public keys, or the private key file of a service.
    static List<NoteVerifier> keysOf(List<String> given) throws IOException {
        List<NoteVerifier> keys = new ArrayList<>();
        for (String key : given) {
            boolean isFile = Files.isRegularFile(Path.of(key));
            if (!isFile && key.chars().filter(c -> c == '+').count() < 2) {
                throw new IntegrityException("NOTE_KEY",
                        "--key: expected name+id+base64 or an existing file, got \"%s\"".formatted(key));
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
        return keys;
    }

    /// Runs a command's body and turns everything that is no verdict into exit code 3: 1 means that a log is violated,
    /// and so no fault of ours may end with it. What a user can mend takes one line.
    private static int guarded(CommandSpec spec, Callable<Integer> body) {
        try {
            return body.call();
        } catch (IntegrityException e) {
            spec.commandLine().getErr().println("millrace: " + e.code() + ": " + e.getMessage());
        } catch (NoSuchFileException e) {
            spec.commandLine().getErr().println("millrace: no such file: " + e.getMessage());
        } catch (IOException | KafkaException | IllegalArgumentException | IllegalStateException e) {
            spec.commandLine().getErr().println("millrace: " + (e.getMessage() == null ? e : e.getMessage()));
        } catch (OutOfMemoryError e) {
            spec.commandLine().getErr().println("millrace: out of memory: give the JVM more, or verify one --partition");
        } catch (Exception e) {
            e.printStackTrace(spec.commandLine().getErr());
        }
        spec.commandLine().getErr().flush();
        return USAGE;
    }

    /// `audit verify`.
    @Command(
            name = "verify",
            mixinStandardHelpOptions = true,
            exitCodeOnInvalidInput = USAGE,
            exitCodeOnExecutionException = USAGE,
            description = {
                "Reads the committed records of the audit topic, its checkpoints and the completions, and checks",
                "sequence, chain, leaf hashes, roots, signatures, and each completion against its leaf."
            },
            footer = {
                "",
                "Examples:",
                "  millrace audit verify --key log.pub",
                "  millrace audit verify --bootstrap broker:9092 --key example.com/log+0a1b2c3d+AQ... --json",
                "",
                "Exit codes: 0 ok, 1 violated, 2 cannot be decided, 3 usage or input/output."
            })
    static final class Verify implements Callable<Integer> {
        @Mixin
        LogOptions log = new LogOptions();

        @Option(names = "--completions-topic", paramLabel = "TOPIC",
                description = "Topic of the completions (default: topics.completions).")
        @Nullable String completionsTopic;

        @Option(names = "--skip-completions", description = "Checks the log alone.")
        boolean skipCompletions;

        @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
        @Nullable Integer partition;

        @Option(names = "--settle-ms", paramLabel = "MS", defaultValue = "20000",
                description = "How long to wait for what one topic shows and another not yet (default: ${DEFAULT-VALUE}).")
        long settleMs;

        @Option(names = "--json", description = "Prints the report as one JSON object.")
        boolean json;

        @Spec
        CommandSpec spec;

        @SuppressWarnings("NullAway.Init") // picocli sets spec
        Verify() {}

        @Override
        public Integer call() {
            return guarded(spec, this::verify);
        }

        private int verify() throws IOException {
            ServiceConfig config = log.client.load();
            String completions = skipCompletions ? null
                    : completionsTopic == null ? config.string("topics.completions") : completionsTopic;
            Duration settle = Duration.ofMillis(Math.max(0, settleMs));
            if (log.client.registry == null) {
                return report(log.options(config, completions, partition, settle, null));
            }
            try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry())) {
                return report(log.options(config, completions, partition, settle, registry::byId));
            }
        }

        private int report(AuditOptions options) {
            AuditReport report = AuditVerifier.run(options, progress -> {
                if (!json && progress.leaves() > 0) {
                    spec.commandLine().getErr().printf("audit: %d leaves, %d checkpoints, %d completions%n",
                            progress.leaves(), progress.checkpoints(), progress.completions());
                    spec.commandLine().getErr().flush();
                }
            });
            spec.commandLine().getOut().print(json ? report.json() + System.lineSeparator() : report.text());
            spec.commandLine().getOut().flush();
            return report.exitCode();
        }
    }

    /// `audit prove`.
    @Command(
            name = "prove",
            mixinStandardHelpOptions = true,
            exitCodeOnInvalidInput = USAGE,
            exitCodeOnExecutionException = USAGE,
            description = "Writes a proof that the log holds the leaf of a request, to be checked without a cluster.",
            footer = {"", "Example:", "  millrace audit prove --partition 0 --request-id r-17 --output r-17.proof"})
    static final class Prove implements Callable<Integer> {
        @Mixin
        LogOptions log = new LogOptions();

        @Option(names = "--partition", required = true, paramLabel = "N",
                description = "Partition of the audit topic; a completion states it.")
        int partition;

        @Option(names = "--request-id", required = true, paramLabel = "ID", description = "Request whose leaf to prove.")
        String requestId;

        @Option(names = {"-o", "--output"}, paramLabel = "FILE", description = "Where to write (default: standard output).")
        @Nullable Path output;

        @Spec
        CommandSpec spec;

        @SuppressWarnings("NullAway.Init") // picocli sets spec and requestId
        Prove() {}

        @Override
        public Integer call() {
            return guarded(spec, this::prove);
        }

        private int prove() throws IOException {
            ServiceConfig config = log.client.load();
            AuditOptions options = log.options(config, null, partition, Duration.ZERO, null);
            AuditProver.Proven proven =
                    AuditProver.prove(options, record -> record.getRequestId().equals(requestId));
            String text = proven.proof().encode();
            if (output == null) {
                spec.commandLine().getOut().print(text);
                spec.commandLine().getOut().flush();
            } else {
                Files.writeString(output, text, StandardCharsets.UTF_8);
            }
            spec.commandLine().getErr().printf("audit: %s, leaf %s%n", proven.place(), proven.leaf().hex());
            spec.commandLine().getErr().flush();
            return 0;
        }
    }

    /// `audit check-proof`.
    @Command(
            name = "check-proof",
            mixinStandardHelpOptions = true,
            exitCodeOnInvalidInput = USAGE,
            exitCodeOnExecutionException = USAGE,
            description = "Checks a proof without a cluster.",
            footer = {"", "Example:", "  millrace audit check-proof r-17.proof --leaf <64 hex digits> --key log.pub"})
    static final class CheckProof implements Callable<Integer> {
        @Parameters(index = "0", paramLabel = "FILE", description = "The proof.")
        Path file;

        @Option(names = "--leaf", required = true, paramLabel = "HEX",
                description = "Hash of the leaf: header attest-leaf of the completion, or its field audit.leaf.")
        String leaf;

        @Option(names = "--key", required = true, paramLabel = "VKEY|FILE", description = "Public key of the log. Repeatable.")
        List<String> keys = new ArrayList<>();

        @Spec
        CommandSpec spec;

        @SuppressWarnings("NullAway.Init") // picocli sets the fields
        CheckProof() {}

        @Override
        public Integer call() {
            return guarded(spec, this::check);
        }

        private int check() throws IOException {
            TlogProof proof = TlogProof.parse(Files.readString(file, StandardCharsets.UTF_8));
            Verdict verdict = proof.verify(Digest.ofHex(leaf), keysOf(keys));
            spec.commandLine().getOut().println(verdict.ok() ? "proof: ok" : "proof: VIOLATED: " + verdict);
            spec.commandLine().getOut().flush();
            return verdict.ok() ? 0 : 1;
        }
    }
}

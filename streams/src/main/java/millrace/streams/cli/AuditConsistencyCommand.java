package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.integrity.Checkpoint;
import millrace.integrity.ConsistencyText;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteVerifier;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditProver;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit consistency`: whether a log only grew between two checkpoints.
@Command(
        name = "consistency",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Checks that the log of the newer checkpoint begins with that of the older one: nothing was changed",
            "or dropped between them. The proof is read from a file, or made from the leaves in the cluster.",
            "Two checkpoints of one size with different roots need no proof: EQUIVOCATION."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit consistency --old kept.note --new today.note --key log.pub --output growth.proof",
            "  millrace audit consistency --old kept.note --new today.note --key log.pub --proof growth.proof",
            "",
            "Exit codes: 0 ok, 1 violated, 2 cannot be decided, 3 usage or input/output."
        })
final class AuditConsistencyCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--old", required = true, paramLabel = "FILE", description = "The older checkpoint, a signed note.")
    Path old;

    @Option(names = "--new", required = true, paramLabel = "FILE", description = "The newer checkpoint, a signed note.")
    Path newer;

    @Option(names = "--proof", paramLabel = "FILE",
            description = "Consistency proof, as this command writes it. Without it the leaves in the cluster decide.")
    @Nullable Path proof;

    @Option(names = {"-o", "--output"}, paramLabel = "FILE", description = "Where to write a proof made from the leaves.")
    @Nullable Path output;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets the fields
    AuditConsistencyCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> check(console));
    }

    private int check(AuditConsole console) throws IOException {
        List<NoteVerifier> keys = AuditLogOptions.keysOf("--key", NoteKey.Kind.LOG, log.keys);
        Checkpoint from = Checkpoint.parse(note(old).text());
        SignedNote head = note(newer);
        Checkpoint to = Checkpoint.parse(head.text());
        ObjectNode fields = AuditConsole.object().put("origin", to.origin()).put("old_size", from.size())
                .put("new_size", to.size()).put("signatures_checked", !keys.isEmpty());
        Verdict verdict = signatures(keys);
        if (verdict.ok()) {
            verdict = ConsistencyText.compare(from, to);
        }
        if (verdict instanceof Verdict.Undecided) {
            verdict = proof == null ? ofLeaves(console, from, head)
                    : ConsistencyText.parse(Files.readString(proof, StandardCharsets.UTF_8)).verify(from, to);
        }
        if (keys.isEmpty() && !json) {
            console.note("signatures NOT checked (no key given): anyone may have written these checkpoints");
        }
        return console.end("consistency of %d and %d leaves".formatted(from.size(), to.size()), verdict, fields);
    }

    private Verdict signatures(List<NoteVerifier> keys) throws IOException {
        for (Path file : keys.isEmpty() ? List.<Path>of() : List.of(old, newer)) {
            try {
                note(file).verify(keys);
            } catch (IntegrityException e) {
                return new Verdict.Refuted(e.code(), file.toString(), "a checkpoint that a known key signed", e.getMessage());
            }
        }
        return Verdict.VERIFIED;
    }

    private Verdict ofLeaves(AuditConsole console, Checkpoint from, SignedNote head) throws IOException {
        ServiceConfig config = log.client.load();
        AuditOptions options = log.options(config, null, null, Duration.ZERO, null);
        AuditProver.Grown grown = AuditProver.consistency(options, from, head, console.progress());
        if (output != null && grown.proof() != null) {
            Files.writeString(output, grown.proof().encode(), StandardCharsets.UTF_8);
        }
        return grown.verdict();
    }

    private static SignedNote note(Path file) throws IOException {
        return SignedNote.parse(Files.readString(file, StandardCharsets.UTF_8));
    }
}

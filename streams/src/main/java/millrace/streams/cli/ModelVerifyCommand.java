package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Callable;
import millrace.engine.DamagedTensor;
import millrace.engine.ModelManifest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;
import millrace.integrity.model.ModelBundle;
import millrace.integrity.model.ModelContents;
import millrace.integrity.model.ModelReport;
import millrace.integrity.model.SignedModel;
import millrace.integrity.model.TrustStore;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Tells whether a model is what somebody signed.
@Command(
        name = "verify",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Verifies the signature of a model and says of every file what it is.",
        footer = {
            "",
            "  ok        its bytes are the signed ones",
            "  mismatch  signed, with other bytes      missing  signed, and not there",
            "  unsigned  there, and not signed         ignored  left out of signatures on purpose",
            "",
            "Of a file that differs the tensors that are damaged are named, if integrity/tensors.json is the signed one.",
            "",
            "Bundles of model_signing 0.3.1 to 1.1 made with a key verify too.",
            "",
            "Exit codes: 0 ok, 1 violated, 2 cannot be decided (no bundle, an unknown key, a bundle of",
            "another kind), 3 usage or input/output.",
            "",
            "Examples:",
            "  millrace model verify DIR --key model.pub",
            "  millrace model verify DIR --key trusted-keys/ --signature DIR.sig --json"
        })
final class ModelVerifyCommand implements Callable<Integer> {
    private static final Set<String> UNDECIDED =
            Set.of("MODEL_BUNDLE_MISSING", "MODEL_BUNDLE_UNSUPPORTED", "MODEL_KEY_UNKNOWN");
    private static final Set<String> USAGE = Set.of("MODEL_KEY_FORMAT");

    @Parameters(paramLabel = "DIR", description = "The model's directory, or the one file that was signed.")
    Path directory;

    @Option(names = "--key", paramLabel = "PUB", required = true,
            description = "Public key in PEM, or a directory of them, with policy.json if there is one.")
    Path key;

    @Option(names = "--signature", paramLabel = "FILE", description = "The bundle (default: model.sig in the directory).")
    @Nullable Path signature;

    @Option(names = "--json", description = "One JSON object instead of text.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets directory, key and spec
    ModelVerifyCommand() {}

    @Override
    public Integer call() throws IOException {
        if (!Files.exists(directory)) {
            throw new IllegalArgumentException(directory + ": expected a model's directory, got nothing there; check the path");
        }
        Path file = signature == null ? directory.resolve(ModelBundle.FILE_NAME) : signature;
        SignedModel signed;
        try {
            signed = SignedModel.verify(ModelBundle.read(file), TrustStore.load(key), Instant.now());
        } catch (IntegrityException e) {
            return refused(e);
        }
        ByteProgress progress = new ByteProgress(spec.commandLine().getErr(), "hashed");
        ModelReport report = signed.check(ModelContents.of(directory), within(directory, file),
                Runtime.getRuntime().availableProcessors(), progress);
        progress.end();
        List<DamagedTensor> tensors = damaged(report);
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(JsonLines.mapper().writeValueAsString(json(signed, report, tensors)));
        } else {
            print(signed, report, tensors, out);
        }
        out.flush();
        return report.holds() ? 0 : 1;
    }

    /// The tensors behind files that differ, if the list of tensors is the signed one.
    private List<DamagedTensor> damaged(ModelReport report) throws IOException {
        List<String> files = report.files().stream().filter(one -> one.state() == ModelReport.State.MISMATCH)
                .map(ModelReport.FileReport::path).toList();
        boolean listed = report.files().stream()
                .anyMatch(one -> one.path().equals(ModelManifest.PATH) && one.state() == ModelReport.State.OK);
        return listed && !files.isEmpty() ? DamagedTensor.of(directory, files) : List.of();
    }

    /// The path of a bundle that lies in the model's own directory.
    static Set<String> within(Path directory, Path file) {
        Path root = directory.toAbsolutePath().normalize();
        Path path = file.toAbsolutePath().normalize();
        return path.startsWith(root) && !path.equals(root)
                ? Set.of(root.relativize(path).toString().replace(root.getFileSystem().getSeparator(), "/"))
                : Set.of();
    }

    private int refused(IntegrityException e) throws IOException {
        if (USAGE.contains(e.code())) {
            throw e;
        }
        boolean undecided = UNDECIDED.contains(e.code());
        PrintWriter out = spec.commandLine().getOut();
        String verdict = undecided ? "undecided" : "violated";
        if (json) {
            ObjectNode node = JsonLines.mapper().createObjectNode();
            node.put("verdict", verdict).put("code", e.code()).put("message", e.getMessage());
            out.println(JsonLines.mapper().writeValueAsString(node));
        } else {
            out.println(verdict + ": " + e.code() + ": " + e.getMessage());
        }
        out.flush();
        return undecided ? 2 : 1;
    }

    private static ObjectNode json(SignedModel signed, ModelReport report, List<DamagedTensor> tensors) {
        ObjectNode node = JsonLines.mapper().createObjectNode();
        node.put("verdict", report.holds() ? "ok" : "violated");
        report.files().stream().filter(one -> !one.code().isEmpty()).findFirst()
                .ifPresent(one -> node.put("code", one.code()).put("message", one.message()));
        node.put("model", signed.statement().model()).put("root", signed.statement().root().hex());
        node.put("key_hint", signed.keyHint()).put("key_file", signed.keySource());
        node.put("bundle_sha256", signed.bundleSha256().hex());
        node.put("serialization", signed.statement().shards() ? "shards" : "files");
        ArrayNode files = node.putArray("files");
        for (ModelReport.FileReport one : report.files()) {
            ObjectNode entry = files.addObject().put("path", one.path()).put("state", word(one.state()));
            if (one.bytes() >= 0) {
                entry.put("bytes", one.bytes());
            }
            if (!one.code().isEmpty()) {
                entry.put("code", one.code()).put("message", one.message());
            }
            for (DamagedTensor tensor : tensors) {
                if (tensor.file().equals(one.path())) {
                    ObjectNode damage = entry.withArray("tensors").addObject().put("name", tensor.name())
                            .put("begin", tensor.begin()).put("end", tensor.end());
                    tensor.blocks().forEach(damage.putArray("blocks")::add);
                }
            }
        }
        return node;
    }

    private static String word(ModelReport.State state) {
        return state.name().toLowerCase(Locale.ROOT);
    }

    private static void print(
            SignedModel signed, ModelReport report, List<DamagedTensor> tensors, PrintWriter out) {
        for (ModelReport.FileReport one : report.files()) {
            out.println(String.format(Locale.ROOT, "%-8s  %10s  %s", word(one.state()),
                    one.bytes() < 0 ? "" : ByteSize.text(one.bytes()), Shown.text(one.path())));
        }
        report.problems().forEach(out::println);
        for (DamagedTensor tensor : tensors) {
            out.println("%s: tensor %s: expected the listed bytes, got others in %d of its %d MiB, the first from byte %d on".formatted(
                    Shown.text(tensor.file()), Shown.text(tensor.name()), tensor.blocks().size(), tensor.blockCount(),
                    tensor.firstByte()));
        }
        out.println("model " + Shown.text(signed.statement().model()) + ", root " + signed.statement().root().hex());
        out.println("signed by the key " + signed.keyHint() + " of " + signed.keySource());
        out.println(report.holds() ? "ok" : "violated");
    }
}

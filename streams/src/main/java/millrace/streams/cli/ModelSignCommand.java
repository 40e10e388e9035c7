package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.Callable;
import millrace.engine.EngineConfig;
import millrace.engine.ModelManifest;
import millrace.integrity.DurableFile;
import millrace.integrity.model.BundleSigner;
import millrace.integrity.model.ModelBundle;
import millrace.integrity.model.ModelContents;
import millrace.integrity.model.ModelSigningKey;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Signs a model's directory.
@Command(
        name = "sign",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Lists every tensor of a model with its checksums, then signs the directory.",
        footer = {
            "",
            "The list is integrity/tensors.json: digests of every tensor, block by block, of packed",
            "ones also what they decode to, and a few prompts with the answers that this model gives.",
            "It is made by loading the model, and it is part of what is signed. The signature is a",
            "bundle in the OpenSSF model signing format, which model_signing verifies too:",
            "  model_signing verify key DIR --signature DIR/model.sig --public-key model.pub",
            "",
            "Whoever changes a file afterwards must sign again. Exit codes: 0 signed, 3 not.",
            "",
            "Examples:",
            "  millrace model keygen model.key > model.pub",
            "  millrace model sign DIR --key model.key",
            "  millrace model sign DIR --key model.key --shards --out DIR.sig"
        })
final class ModelSignCommand implements Callable<Integer> {
    @Parameters(paramLabel = "DIR", description = "Directory with a Hugging Face checkpoint.")
    Path directory;

    @Option(names = "--key", paramLabel = "FILE", required = true,
            description = "Private key in PEM, on P-256, P-384 or P-521, readable by its owner alone.")
    Path key;

    @Option(names = "--out", paramLabel = "FILE", description = "The bundle (default: model.sig in the directory).")
    @Nullable Path out;

    @Option(names = "--shards", description = "Signs pieces of 1 GB, which are hashed side by side: for large files.")
    boolean shards;

    @Option(names = "--no-tensors", description = "Leaves integrity/tensors.json as it is: for models that this machine cannot load.")
    boolean noTensors;

    @Option(names = "--json", description = "One JSON object instead of text.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets directory, key and spec
    ModelSignCommand() {}

    @Override
    public Integer call() throws IOException {
        PrintWriter err = spec.commandLine().getErr();
        if (!Files.isDirectory(directory)) {
            throw new IllegalArgumentException(directory + ": expected a model's directory, got none; check the path");
        }
        // Before the long work.
        ModelSigningKey signer = ModelSigningKey.load(key);
        Path bundle = out == null ? directory.resolve(ModelBundle.FILE_NAME) : out;
        ModelManifest.Written manifest = noTensors
                ? null
                : ModelManifest.write(EngineConfig.of(directory), Progress.lines(err));
        ByteProgress progress = new ByteProgress(err, "hashed");
        ModelContents contents = ModelContents.of(directory);
        String name = String.valueOf(directory.toAbsolutePath().normalize().getFileName());
        byte[] bytes = BundleSigner.sign(signer, name, contents, ModelVerifyCommand.within(directory, bundle),
                shards ? BundleSigner.SHARD_BYTES : 0, Runtime.getRuntime().availableProcessors(), progress);
        progress.end();
        DurableFile.write(bundle, bytes);
        report(signer, bundle, ModelBundle.parse(bytes, bundle.toString()), manifest);
        return 0;
    }

    private void report(
            ModelSigningKey signer, Path file, ModelBundle bundle, ModelManifest.@Nullable Written manifest) throws IOException {
        PrintWriter writer = spec.commandLine().getOut();
        if (json) {
            ObjectNode node = JsonLines.mapper().createObjectNode();
            node.put("directory", directory.toString()).put("bundle", file.toString());
            node.put("bundle_sha256", bundle.sha256().hex()).put("key_hint", signer.hint());
            if (manifest != null) {
                node.put("tensors", manifest.tensors()).put("packed_tensors", manifest.packed());
                node.put("golden", manifest.golden().size());
            }
            writer.println(JsonLines.mapper().writeValueAsString(node));
        } else {
            if (manifest != null) {
                writer.println(String.format(Locale.ROOT, "%s: %d tensors, %d of them packed, %d golden prompts",
                        ModelManifest.PATH, manifest.tensors(), manifest.packed(), manifest.golden().size()));
            }
            writer.println(file + ": signed by the key " + signer.hint());
            writer.println("serve it with -D engine.model.key=PUBLIC-KEY, which refuses any other file");
        }
        writer.flush();
    }
}

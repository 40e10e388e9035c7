package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.LongConsumer;
import millrace.engine.InvalidModelException;
import millrace.engine.LoadedFiles;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.WeightCheck;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.model.ModelBundle;
import millrace.integrity.model.ModelContents;
import millrace.integrity.model.ModelReport;
import millrace.integrity.model.SignedModel;
import millrace.integrity.model.TrustStore;

/// Compares what an engine has loaded with what somebody has signed.
///
/// Every file that was read must be signed with the very digest of what was read; every signed file must be there, and
/// nothing else. In the mode `require` the first problem stops the start; in `warn` all of them are logged and attested.
public final class ModelBundleCheck implements WeightCheck {
    private static final System.Logger LOG = System.getLogger(ModelBundleCheck.class.getName());

    private final String mode;
    private final Path keys;
    private final String signature;
    private final Clock clock;

    private ModelBundleCheck(String mode, Path keys, String signature, Clock clock) {
        this.mode = mode;
        this.keys = keys;
        this.signature = signature;
        this.clock = clock;
    }

    /// The check that a configuration asks for.
    public static WeightCheck of(ServiceConfig config) {
        return of(config.string("engine.model.verify"), config.string("engine.model.key"),
                config.string("engine.model.signature"));
    }

    /// @param mode `auto`, `require`, `warn` or `off`
    /// @param key a public key or a directory of them; empty for none
    /// @param signature the bundle; empty for `model.sig` in the model's directory
    public static WeightCheck of(String mode, String key, String signature) {
        return of(mode, key, signature, Clock.systemUTC());
    }

    static WeightCheck of(String mode, String key, String signature, Clock clock) {
        String effective = mode.equals("auto") ? key.isBlank() ? "off" : "require" : mode;
        if (effective.equals("off")) {
            return WeightCheck.NONE;
        }
        if (key.isBlank()) {
            throw new IllegalArgumentException("engine.model.key: expected a public key with engine.model.verify=" + mode
                    + ", got nothing; name the PEM file that the model is signed with, or a directory of them");
        }
        return new ModelBundleCheck(effective, Path.of(key), signature, clock);
    }

    @Override
    public ModelTrust check(LoadedFiles loaded) {
        Path file = signature.isBlank() ? loaded.model().resolve(ModelBundle.FILE_NAME) : Path.of(signature);
        SignedModel signed;
        ModelReport report;
        try {
            signed = SignedModel.verify(ModelBundle.read(file), TrustStore.load(keys), clock.instant());
            Loaded contents = new Loaded(loaded, ModelContents.of(loaded.model()));
            report = signed.checkRead(contents, own(loaded.model(), file), contents.digests::containsKey,
                    Runtime.getRuntime().availableProcessors(), SignedModel.Progress.NONE);
        } catch (IntegrityException e) {
            return refused(e.code(), e.getMessage(), 0, new ModelTrust(mode, false, "", "", "", List.of(problem(e))));
        } catch (IOException e) {
            throw new UncheckedIOException(loaded.model() + ": its files cannot be listed", e);
        }
        ModelTrust trust = new ModelTrust(mode, report.holds(), signed.statement().root().hex(), signed.bundleSha256().hex(),
                signed.keyHint(), report.problems());
        return report.files().stream().filter(one -> !one.code().isEmpty()).findFirst()
                .map(first -> refused(first.code(), first.message(), report.problems().size() - 1, trust))
                .orElse(trust);
    }

    private static String problem(IntegrityException e) {
        return e.code() + ": " + e.getMessage();
    }

    /// Stops the start, or says what is wrong and goes on with it known.
    private ModelTrust refused(String code, String message, int more, ModelTrust trust) {
        if (mode.equals("require")) {
            throw new InvalidModelException(code, message + (more > 0 ? "; and " + more
                    + " more, which `millrace model verify` lists" : ""));
        }
        trust.problems().forEach(problem -> LOG.log(System.Logger.Level.WARNING, "model signature: {0}", problem));
        return trust;
    }

    /// The bundle's own path, where it lies within the model.
    private static Set<String> own(Path model, Path bundle) {
        Path directory = model.toAbsolutePath().normalize();
        Path file = bundle.toAbsolutePath().normalize();
        return file.startsWith(directory)
                ? Set.of(directory.relativize(file).toString().replace(file.getFileSystem().getSeparator(), "/"))
                : Set.of();
    }

    /// A line for people: what was verified, or that nothing was.
    static String describe(ModelTrust trust) {
        if (trust.mode().equals("off")) {
            return "signature of the model: not asked for (engine.model.verify, engine.model.key)";
        }
        if (!trust.verified()) {
            return "signature of the model: NOT VERIFIED, and served all the same (engine.model.verify=" + trust.mode() + "): "
                    + String.join("; ", trust.problems());
        }
        return "signature of the model: every file verified, key " + trust.keyHint() + ", root " + trust.root();
    }

    /// Files of the directory by name; of those that were read, the digests of what was read.
    private static final class Loaded implements ModelContents {
        private final LoadedFiles loaded;
        private final ModelContents disk;
        private final SortedMap<String, Long> sizes;
        private final Map<String, ModelCard.FileDigest> digests = new HashMap<>();

        Loaded(LoadedFiles loaded, ModelContents disk) {
            this.loaded = loaded;
            this.disk = disk;
            sizes = new TreeMap<>(disk.sizes());
            for (ModelCard.FileDigest file : loaded.files()) {
                digests.put(file.name(), file);
                sizes.put(file.name(), file.bytes());
            }
        }

        @Override
        public SortedMap<String, Long> sizes() {
            return sizes;
        }

        @Override
        public String oddity(String path, boolean allowSymlinks) {
            return disk.oddity(path, allowSymlinks);
        }

        @Override
        public Digest sha256(String path, long start, long end, LongConsumer progress) {
            ModelCard.FileDigest file = digests.get(path);
            boolean whole = file != null && start == 0 && end == file.bytes();
            return Digest.ofHex(whole ? file.sha256() : loaded.sha256(path, start, end));
        }
    }
}

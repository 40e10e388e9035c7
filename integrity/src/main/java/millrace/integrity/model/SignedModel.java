package millrace.integrity.model;

import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.Signature;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.Predicate;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;
import millrace.integrity.model.ModelReport.FileReport;
import millrace.integrity.model.ModelReport.State;
import millrace.integrity.model.ModelStatement.Resource;

/// A statement that a trusted key has signed.
///
/// @param keyHint digest of the key's PEM text, 64 hexadecimal digits
/// @param keySource file that the key was read from
/// @param bundleSha256 of the bundle's file
public record SignedModel(ModelStatement statement, String keyHint, String keySource, Digest bundleSha256) {
    /// What never counts as part of a model, at the top of its directory.
    static final Set<String> NEVER = Set.of(".git", ".gitignore", ".gitattributes", ".github");

    /// Hears how far hashing is; called by several threads.
    @FunctionalInterface
    public interface Progress {
        Progress NONE = (done, total) -> {};

        void at(long done, long total);
    }

    /// Verifies the signature and reads what it covers, in this order.
    ///
    /// @throws IntegrityException `MODEL_KEY_UNKNOWN`, `MODEL_SIG_INVALID`, `MODEL_STATEMENT_INVALID`,
    ///         `MODEL_BUNDLE_UNSUPPORTED`, `MODEL_ROOT_MISMATCH`, `MODEL_KEY_REFUSED`
    public static SignedModel verify(ModelBundle bundle, TrustStore trust, Instant now) {
        TrustStore.Key key = trust.select(bundle);
        if (!holds(bundle, key)) {
            throw new IntegrityException("MODEL_SIG_INVALID",
                    "%s: expected a signature of its statement by the key %s, got another; fetch the bundle again, and do not use this model until it verifies"
                            .formatted(bundle.where(), key.hint()));
        }
        ModelStatement statement = ModelStatement.parse(bundle.payload(), bundle.where());
        TrustStore.admit(key, statement.model(), now);
        return new SignedModel(statement, key.hint(), key.source(), bundle.sha256());
    }

    private static boolean holds(ModelBundle bundle, TrustStore.Key key) {
        EcKeys.Curve curve = EcKeys.Curve.of(key.key()).orElseThrow();
        try {
            Signature signature = Signature.getInstance(curve.signature);
            signature.initVerify(key.key());
            signature.update(bundle.signedBytes());
            return signature.verify(bundle.signature());
        } catch (GeneralSecurityException malformed) {
            return false;
        }
    }

    /// Compares all files, hashing as many at once as there are threads.
    ///
    /// @param own files that belong to signing and not to the model: the bundle
    public ModelReport check(ModelContents contents, Set<String> own, int threads, Progress progress) throws IOException {
        return check(contents, own, path -> true, path -> false, threads, progress);
    }

    /// The same where a program reads some of the files only: others need to be there and are not hashed.
    ///
    /// @param read whether a file's bytes were read: then it must be signed, also if it is of an ignored name
    public ModelReport checkRead(
            ModelContents contents, Set<String> own, Predicate<String> read, int threads, Progress progress)
            throws IOException {
        return check(contents, own, read, read, threads, progress);
    }

    private ModelReport check(
            ModelContents contents,
            Set<String> own,
            Predicate<String> read,
            Predicate<String> used,
            int threads,
            Progress progress)
            throws IOException {
        SortedMap<String, Long> sizes = contents.sizes();
        Map<String, List<Resource>> files = new LinkedHashMap<>();
        statement.resources().forEach(one -> files.computeIfAbsent(one.path(), p -> new ArrayList<>()).add(one));
        List<Resource> hashed = statement.resources().stream()
                .filter(one -> sizes.containsKey(one.path()) && read.test(one.path())
                        && contents.oddity(one.path(), statement.allowSymlinks()).isEmpty())
                .toList();
        Map<String, Digest> digests = hash(contents, hashed, threads, progress);
        List<FileReport> reports = new ArrayList<>();
        files.forEach((path, pieces) -> reports.add(report(contents, path, pieces, read.test(path), digests)));
        for (Map.Entry<String, Long> file : sizes.entrySet()) {
            if (!files.containsKey(file.getKey())) {
                reports.add(extra(file.getKey(), file.getValue(), own, used));
            }
        }
        return new ModelReport(reports);
    }

    private static Map<String, Digest> hash(
            ModelContents contents, List<Resource> resources, int threads, Progress progress) throws IOException {
        SortedMap<String, Long> sizes = contents.sizes();
        long total = resources.stream().mapToLong(one -> end(one, sizes) - start(one, sizes)).sum();
        AtomicLong done = new AtomicLong();
        LongConsumer advance = bytes -> progress.at(done.addAndGet(bytes), total);
        List<Callable<Digest>> tasks = new ArrayList<>();
        for (Resource one : resources) {
            tasks.add(() -> contents.sha256(one.path(), start(one, sizes), end(one, sizes), advance));
        }
        List<Digest> results = Hashing.all(tasks, threads);
        Map<String, Digest> digests = new LinkedHashMap<>();
        for (int i = 0; i < results.size(); i++) {
            digests.put(resources.get(i).name(), results.get(i));
        }
        return digests;
    }

    /// Where a piece begins in the file that is there, which may be shorter than the signed one.
    private static long start(Resource one, SortedMap<String, Long> sizes) {
        return Math.min(one.start(), sizes.getOrDefault(one.path(), 0L));
    }

    private static long end(Resource one, SortedMap<String, Long> sizes) {
        long size = sizes.getOrDefault(one.path(), 0L);
        return one.whole() ? size : Math.min(one.end(), size);
    }

    private FileReport report(
            ModelContents contents, String path, List<Resource> pieces, boolean read, Map<String, Digest> digests) {
        Long size = contents.sizes().get(path);
        if (size == null) {
            return new FileReport(path, State.MISSING, -1, "MODEL_FILE_MISSING",
                    "%s: expected the signed file, got none; fetch the model again".formatted(Shown.text(path)));
        }
        String oddity = contents.oddity(path, statement.allowSymlinks());
        if (!oddity.isEmpty()) {
            return mismatch(path, size, "expected a file inside the model's directory, got " + oddity);
        }
        if (!read) {
            return new FileReport(path, State.UNREAD, size, "", "");
        }
        for (Resource piece : pieces) {
            Digest got = digests.get(piece.name());
            if (!piece.digest().equals(got)) {
                String place = piece.whole() ? "" : "bytes %d to %d: ".formatted(piece.start(), piece.end());
                return mismatch(path, size, "%sexpected sha256 %s, got %s".formatted(
                        place, piece.digest().hex(), got == null ? "none" : got.hex()));
            }
        }
        long end = pieces.stream().mapToLong(Resource::end).max().orElse(-1);
        if (end >= 0 && end != size) {
            return mismatch(path, size, "expected %d bytes, got %d".formatted(end, size));
        }
        return new FileReport(path, State.OK, size, "", "");
    }

    private static FileReport mismatch(String path, long size, String what) {
        return new FileReport(path, State.MISMATCH, size, "MODEL_FILE_MISMATCH",
                "%s: %s; fetch the file again".formatted(Shown.text(path), what));
    }

    private FileReport extra(String path, long size, Set<String> own, Predicate<String> used) {
        // Tools that sign in pieces list no piece of an empty file.
        boolean nothing = statement.shards() && size == 0;
        if (own.contains(path) || nothing || ignored(path) && !used.test(path)) {
            return new FileReport(path, State.IGNORED, size, "", "");
        }
        return new FileReport(path, State.UNSIGNED, size, "MODEL_FILE_UNSIGNED",
                "%s: expected signed files only, got one that the signature does not list; remove it, or sign the model again"
                        .formatted(Shown.text(path)));
    }

    private boolean ignored(String path) {
        String top = path.substring(0, path.indexOf('/') < 0 ? path.length() : path.indexOf('/'));
        return NEVER.contains(top)
                || statement.ignored().stream().anyMatch(one -> path.equals(one) || path.startsWith(one + "/"));
    }
}

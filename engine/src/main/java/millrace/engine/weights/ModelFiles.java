package millrace.engine.weights;

import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.IntConsumer;
import java.util.stream.Stream;
import millrace.engine.Golden;
import millrace.engine.InvalidModelException;
import millrace.engine.ModelCard;
import org.jspecify.annotations.Nullable;

/// One checkpoint directory as a name space of tensors and a handful of small files, with the digest of every byte.
///
/// Weights are one `model.safetensors`, or shards under `model.safetensors.index.json`; where both are there the index
/// wins. Small files are those of a fixed list, hashed when the directory is opened, so the model's digest does not
/// depend on who read what. Nothing else in the directory is opened. Safe for use by several threads until closed.
public final class ModelFiles implements AutoCloseable {
    public static final String CONFIG = "config.json";
    public static final String GENERATION_CONFIG = "generation_config.json";
    public static final String TOKENIZER = "tokenizer.json";
    public static final String TIKTOKEN = "tiktoken.model";
    public static final String TOKENIZER_CONFIG = "tokenizer_config.json";
    public static final String CHAT_TEMPLATE = "chat_template.jinja";
    public static final String WEIGHTS = "model.safetensors";
    public static final String INDEX = "model.safetensors.index.json";

    private static final System.Logger LOG = System.getLogger(ModelFiles.class.getName());
    private static final int MIB = 1 << 20;
    private static final int HASH_THREADS = Math.max(2, Runtime.getRuntime().availableProcessors());

    /// The small files: each with the most bytes it may have and the code of the refusal above it.
    private enum Small {
        CONFIG_JSON(CONFIG, 16, "CONFIG_LIMIT"),
        GENERATION_CONFIG_JSON(GENERATION_CONFIG, 16, "CONFIG_LIMIT"),
        INDEX_JSON(INDEX, 128, "IDX_LIMIT"),
        TOKENIZER_JSON(TOKENIZER, 64, "TOK_LIMIT"),
        TIKTOKEN_MODEL(TIKTOKEN, 64, "TOK_LIMIT"),
        TOKENIZER_CONFIG_JSON(TOKENIZER_CONFIG, 16, "TOK_LIMIT"),
        TEMPLATE(CHAT_TEMPLATE, 16, "TPL_LIMIT");

        private final String fileName;
        private final int maxMebibytes;
        private final String code;

        Small(String fileName, int maxMebibytes, String code) {
            this.fileName = fileName;
            this.maxMebibytes = maxMebibytes;
            this.code = code;
        }
    }

    private final Path directory;
    private final Path realDirectory;
    private final Arena arena = Arena.ofShared();
    private final Map<String, ModelCard.FileDigest> small = new TreeMap<>();
    private final Map<String, SafetensorsFile> weightFiles = new TreeMap<>();
    private final Map<String, Place> tensors = new LinkedHashMap<>();
    private @Nullable List<ModelCard.FileDigest> digests;
    private @Nullable ManifestFile manifest;

    /// A tensor and the file that holds it.
    private record Place(StoredTensor tensor, String file) {}

    private ModelFiles(Path directory, Path realDirectory) {
        this.directory = directory;
        this.realDirectory = realDirectory;
    }

    /// Maps the weights and checks every header; hashes the small files but not yet the weights.
    ///
    /// @throws InvalidModelException with a code of `ST_*`, `IDX_*`, `CONFIG_*`, `TOK_*` or `MODEL_*`
    public static ModelFiles open(Path dir) {
        if (!Files.isDirectory(dir)) {
            throw NoModel.at(dir);
        }
        ModelFiles files;
        try {
            files = new ModelFiles(dir, dir.toRealPath());
        } catch (IOException e) {
            throw unreadable(dir.toString(), e);
        }
        try {
            files.hashSmallFiles();
            files.manifest = ManifestFile.read(files.realDirectory);
            files.openWeights();
            return files;
        } catch (RuntimeException e) {
            files.close();
            throw e;
        }
    }

    // ---------------------------------------------------------------------------------------------- small files

    private void hashSmallFiles() {
        for (Small file : Small.values()) {
            if (Files.exists(directory.resolve(file.fileName))) {
                byte[] bytes = load(file);
                small.put(file.fileName, new ModelCard.FileDigest(file.fileName, bytes.length, Sha256.hex(bytes)));
            }
        }
        if (!small.containsKey(CONFIG)) {
            throw new InvalidModelException(
                    "MODEL_MISSING",
                    directory + ": expected " + CONFIG
                            + ", got a directory without it; point to a Hugging Face checkpoint");
        }
    }

    /// The bytes of a small file.
    ///
    /// @throws InvalidModelException `MODEL_MISSING` if it is not there, `MODEL_FILE_CHANGED` if it is no longer what
    ///         was hashed
    public byte[] read(String name) {
        byte[] bytes = readIfPresent(name);
        if (bytes == null) {
            throw new InvalidModelException(
                    "MODEL_MISSING", directory + ": expected " + name + ", got a directory without it; add the file");
        }
        return bytes;
    }

    /// The bytes of a small file, or null if the directory had none of that name when it was opened.
    public byte @Nullable [] readIfPresent(String name) {
        Small file = Stream.of(Small.values())
                .filter(s -> s.fileName.equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(name + " is not among the files of a model"));
        ModelCard.FileDigest digest = small.get(name);
        if (digest == null) {
            return null;
        }
        byte[] bytes = load(file);
        String now = Sha256.hex(bytes);
        if (!now.equals(digest.sha256())) {
            throw new InvalidModelException(
                    "MODEL_FILE_CHANGED",
                    name + ": expected sha256 " + digest.sha256() + " as at the start, got " + now
                            + "; do not write to a model directory in use, start again");
        }
        return bytes;
    }

    private byte[] load(Small file) {
        Path path = inside(file.fileName, "MODEL_PATH");
        long limit = (long) file.maxMebibytes * MIB;
        try (InputStream in = Files.newInputStream(path)) {
            // Bounded by the read itself: a size asked for beforehand may be stale or, for a pipe, zero.
            byte[] bytes = in.readNBytes((int) limit + 1);
            if (bytes.length > limit) {
                throw new InvalidModelException(
                        file.code,
                        file.fileName + ": expected at most " + file.maxMebibytes + " MiB, got more; restore the file");
            }
            return bytes;
        } catch (IOException e) {
            throw unreadable(file.fileName, e);
        }
    }

    // -------------------------------------------------------------------------------------------------- weights

    private void openWeights() {
        if (small.containsKey(INDEX)) {
            openShards(WeightIndex.parse(read(INDEX)));
        } else if (Files.exists(directory.resolve(WEIGHTS))) {
            SafetensorsFile file = SafetensorsFile.open(inside(WEIGHTS, "MODEL_PATH"), WEIGHTS, arena);
            weightFiles.put(WEIGHTS, file);
            file.tensors().forEach(t -> tensors.put(t.name(), new Place(t, WEIGHTS)));
        } else {
            throw NoModel.without(directory);
        }
    }

    private void openShards(Map<String, String> fileOfTensor) {
        for (String name : new TreeSet<>(fileOfTensor.values())) {
            Path path = inside(name, "IDX_PATH");
            if (!Files.exists(path)) {
                throw new InvalidModelException(
                        "IDX_INCOMPLETE",
                        INDEX + ": expected the shard " + name + ", got a directory without it; complete the download");
            }
            weightFiles.put(name, SafetensorsFile.open(path, name, arena));
        }
        Map<String, String> seen = new HashMap<>();
        weightFiles.forEach((name, file) -> addListed(name, file, fileOfTensor, seen));
        fileOfTensor.forEach((tensor, file) -> {
            if (!tensors.containsKey(tensor)) {
                throw new InvalidModelException(
                        "IDX_INCOMPLETE",
                        INDEX + ": expected tensor " + tensor + " in " + file + ", got "
                                + (seen.containsKey(tensor) ? "it in " + seen.get(tensor) : "a file without it")
                                + "; restore the checkpoint");
            }
        });
    }

    private void addListed(
            String name, SafetensorsFile file, Map<String, String> fileOfTensor, Map<String, String> seen) {
        int unlisted = 0;
        for (StoredTensor tensor : file.tensors()) {
            String other = seen.putIfAbsent(tensor.name(), name);
            if (other != null) {
                throw new InvalidModelException(
                        "IDX_INCOMPLETE",
                        INDEX + ": expected tensor " + tensor.name() + " once, got it in " + other + " and in " + name
                                + "; restore the checkpoint");
            }
            String mapped = fileOfTensor.get(tensor.name());
            if (mapped == null) {
                unlisted++;
            } else if (mapped.equals(name)) {
                tensors.put(tensor.name(), new Place(tensor, name));
            }
        }
        if (unlisted > 0) {
            LOG.log(Level.WARNING, "{0}: {1} tensors are not in the index and are ignored", name, unlisted);
        }
    }

    /// The path of a file of that name, which must be a plain name and, links followed, lie inside the directory.
    private Path inside(String name, String code) {
        if (!WeightIndex.isPlainName(name)) {
            throw new InvalidModelException(
                    code,
                    INDEX + ": expected plain file names, got " + Text.quote(name) + "; do not use this checkpoint");
        }
        Path path = directory.resolve(name);
        try {
            if (Files.exists(path) && !path.toRealPath().startsWith(realDirectory)) {
                throw new InvalidModelException(
                        code,
                        name + ": expected a file inside the model directory, got a link that leaves it;"
                                + " copy the file into the directory");
            }
            // A pipe would never end, or never begin.
            if (Files.exists(path) && !Files.isRegularFile(path)) {
                throw new InvalidModelException(
                        code, name + ": expected a regular file, got something else; restore the checkpoint");
            }
        } catch (IOException e) {
            throw unreadable(name, e);
        }
        return path;
    }

    /// Whether the weights have a tensor of that name.
    public boolean has(String tensor) {
        return tensors.containsKey(tensor);
    }

    /// The tensor of that name.
    ///
    /// @throws InvalidModelException `MODEL_TENSOR_MISSING`
    public StoredTensor tensor(String name) {
        return place(name).tensor;
    }

    private Place place(String name) {
        Place place = tensors.get(name);
        if (place == null) {
            throw new InvalidModelException(
                    "MODEL_TENSOR_MISSING",
                    directory + ": expected tensor " + name + ", got weights without it; complete the checkpoint");
        }
        return place;
    }

    /// Names of all tensors, in the order of the files.
    public Collection<String> tensorNames() {
        return Collections.unmodifiableSet(tensors.keySet());
    }

    public Path directory() {
        return directory;
    }

    // -------------------------------------------------------------------------------------------------- digests

    /// SHA-256 of every file that was read or mapped, in order of name; weights are hashed over the mapped bytes, that
    /// is over what is computed with. The first call reads all of them, as many files at a time as there are cores.
    public synchronized List<ModelCard.FileDigest> digests() {
        if (digests == null) {
            var all = new ArrayList<>(small.values());
            try (var pool = Executors.newFixedThreadPool(HASH_THREADS)) {
                List<Future<ModelCard.FileDigest>> running = weightFiles.values().stream()
                        .map(file -> pool.submit(file::digest))
                        .toList();
                for (Future<ModelCard.FileDigest> one : running) {
                    all.add(one.get());
                }
            } catch (ExecutionException e) {
                throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InvalidModelException(
                        "MODEL_UNREADABLE", directory + ": hashing was interrupted; start again", e);
            }
            all.sort(Comparator.comparing(ModelCard.FileDigest::name));
            digests = List.copyOf(all);
        }
        return digests;
    }

    /// Name of the file that holds a tensor.
    ///
    /// @throws InvalidModelException `MODEL_TENSOR_MISSING`
    public String fileOf(String tensor) {
        return place(tensor).file;
    }

    /// The digest of one file of weights, hashed now over the mapped bytes.
    ///
    /// @throws InvalidModelException `MODEL_FILE_CHANGED` for a file that was cut
    public ModelCard.FileDigest digestNow(String weightFile) {
        SafetensorsFile file = weightFiles.get(weightFile);
        if (file == null) {
            throw new IllegalArgumentException(weightFile + " is not among the weights of " + directory);
        }
        return file.digest();
    }

    /// Everything that was read, the manifest too: what must be vouched for. The manifest decides nothing that is
    /// computed, so [#modelDigest] is without it.
    public List<ModelCard.FileDigest> readFiles() {
        List<ModelCard.FileDigest> all = new ArrayList<>(digests());
        if (manifest != null) {
            all.add(manifest.digest());
            all.sort(Comparator.comparing(ModelCard.FileDigest::name));
        }
        return all;
    }

    /// SHA-256 of bytes `from` to `to` of a file of [#readFiles], the end excluded, over what was read or is mapped.
    public String sha256(String name, long from, long to) {
        SafetensorsFile weights = weightFiles.get(name);
        if (weights != null) {
            return weights.sha256(from, to);
        }
        byte[] bytes = manifest != null && name.equals(TensorManifest.PATH) ? manifest.bytes() : read(name);
        return Sha256.hex(Arrays.copyOfRange(bytes, Math.toIntExact(from), Math.toIntExact(to)));
    }

    // ------------------------------------------------------------------------------------------------- manifest

    /// What the directory says of its tensors, or null.
    public @Nullable TensorManifest manifest() {
        return manifest == null ? null : manifest.manifest();
    }

    /// Refuses a manifest of another model, and stored bytes that are not those that it lists. Hashes all files first.
    ///
    /// @throws InvalidModelException `BT_FOREIGN`, `MODEL_TENSOR_MISMATCH`
    public void requireListed() {
        if (manifest == null) {
            return;
        }
        digests();
        TensorManifest list = manifest.manifest();
        Set<String> there = new HashSet<>();
        for (SafetensorsFile file : weightFiles.values()) {
            file.requireListed(list);
            file.tensors().forEach(tensor -> there.add(tensor.name()));
        }
        list.tensors().stream().map(TensorManifest.Entry::name).filter(name -> !there.contains(name)).findFirst()
                .ifPresent(name -> {
                    throw SafetensorsFile.foreign(name, "no such tensor", "one");
                });
    }

    /// Refuses tensors whose bytes have changed since they were hashed: to be called when they have been read, before
    /// what came of them is used. Files that nobody has hashed yet are not compared.
    ///
    /// @param each runs a task for each of so many numbers
    /// @throws InvalidModelException `MODEL_FILE_CHANGED`
    public void requireUnchanged(Collection<String> names, BiConsumer<Integer, IntConsumer> each) {
        for (String name : names) {
            StoredTensor tensor = tensor(name);
            SafetensorsFile file = Objects.requireNonNull(weightFiles.get(fileOf(name)));
            int blocks = file.blocks(tensor);
            if (blocks > 0) {
                each.accept(blocks, block -> file.requireUnchanged(tensor, block));
            }
        }
    }

    /// A manifest of these files as they are.
    ///
    /// @param decoded says of a packed tensor what it decodes to; null of the others
    public TensorManifest list(Function<StoredTensor, TensorManifest.@Nullable Decoded> decoded, List<Golden> golden) {
        digests();
        List<TensorManifest.Entry> entries = new ArrayList<>();
        for (SafetensorsFile file : weightFiles.values()) {
            file.tensors().forEach(tensor -> entries.add(file.entry(tensor, decoded.apply(tensor))));
        }
        return TensorManifest.of(entries, golden);
    }

    /// `sha256:` and the digest, in hexadecimal, of the lines `<sha256>  <bytes>  <name>\n` in order of name.
    public String modelDigest() {
        var lines = new StringBuilder();
        for (ModelCard.FileDigest file : digests()) {
            lines.append(file.sha256()).append("  ").append(file.bytes()).append("  ").append(file.name()).append('\n');
        }
        return "sha256:" + Sha256.hex(lines.toString().getBytes(StandardCharsets.UTF_8));
    }

    /// SHA-256 of a file, hexadecimal.
    public static String sha256(Path file) {
        try (Arena mapped = Arena.ofShared();
                FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return Sha256.hex(channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), mapped));
        } catch (IOException e) {
            throw unreadable(file.toString(), e);
        }
    }

    /// Refuses a model that is not the pinned one.
    ///
    /// @param pinned a [#modelDigest()], with or without `sha256:`
    /// @throws InvalidModelException `MODEL_DIGEST_MISMATCH`
    public void requireDigest(String pinned) {
        String wanted = pinned.startsWith("sha256:") ? pinned : "sha256:" + pinned;
        String actual = modelDigest();
        if (!wanted.equalsIgnoreCase(actual)) {
            throw new InvalidModelException(
                    "MODEL_DIGEST_MISMATCH",
                    directory + ": expected the pinned digest " + wanted + ", got " + actual
                            + "; serve the pinned model, or pin this one after checking where it came from");
        }
    }

    /// Unmaps the weights: no [StoredTensor] of this may be used afterwards.
    @Override
    public void close() {
        if (arena.scope().isAlive()) {
            arena.close();
        }
    }

    static InvalidModelException unreadable(String name, IOException e) {
        return new InvalidModelException(
                "MODEL_UNREADABLE",
                name + ": expected a readable file, got " + e.getClass().getSimpleName() + " (" + e.getMessage()
                        + "); check its permissions and the disk",
                e);
    }
}

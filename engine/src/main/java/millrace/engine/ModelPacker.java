package millrace.engine;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.kernel.Backend;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.model.WeightTargets;
import millrace.engine.weights.JsonFiles;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.ShardWriter;

/// Writes a checkpoint anew in another weight format.
///
/// The new directory appears whole or not at all: it grows beside its place under another name and is renamed when
/// every file is on the disk and has been read back. A run that was interrupted is gone on with: finished files are kept
/// if they still have the digest that they were written with.
public final class ModelPacker {
    /// Formats that a checkpoint can be packed to.
    public static final List<String> FORMATS =
            EngineConfig.WEIGHT_FORMATS.stream().filter(format -> !format.equals("stored")).toList();

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MARK = "millrace-pack.lock";
    private static final long SHARD_BYTES = 512L << 20;
    private static final List<String> COPIED = List.of(
            ModelFiles.GENERATION_CONFIG,
            ModelFiles.TOKENIZER,
            ModelFiles.TIKTOKEN,
            ModelFiles.TOKENIZER_CONFIG,
            ModelFiles.CHAT_TEMPLATE);

    private final Path source;
    private final String format;
    private final Path target;
    private final Path partial;
    private final long shardBytes;
    private final Progress progress;

    private ModelPacker(Path source, String format, Path target, long shardBytes, Progress progress) {
        this.source = source;
        this.format = format;
        this.target = target.toAbsolutePath().normalize();
        this.partial = this.target.resolveSibling(this.target.getFileName() + ".partial");
        this.shardBytes = shardBytes;
        this.progress = progress;
    }

    /// Hears how far it is.
    @FunctionalInterface
    public interface Progress {
        /// @param done bytes of the source that are dealt with
        void at(long done, long total);
    }

    /// What one matrix became.
    ///
    /// @param escapes weights whose exponent its table lacks, in `packed`
    /// @param rawPanels panels that stayed in BF16, in `packed`
    /// @param exact whether its numbers are those of the source
    public record PackedMatrix(
            String name, String format, long weights, long bytes, long escapes, long rawPanels, boolean exact) {}

    /// What was written.
    ///
    /// @param sourceBytes of the weight files that were read
    /// @param bytes of the weight files that were written
    /// @param resumed files that an earlier run had finished
    public record Report(
            String format, long sourceBytes, long bytes, int files, int resumed, List<PackedMatrix> matrices) {
        public Report {
            matrices = List.copyOf(matrices);
        }

        /// Whether every number of the source came over.
        public boolean lossless() {
            return matrices.stream().allMatch(PackedMatrix::exact);
        }

        /// Bits that a weight takes in the files, all tensors of matrices together.
        public double bitsPerWeight() {
            long weights = matrices.stream().mapToLong(PackedMatrix::weights).sum();
            return 8.0 * matrices.stream().mapToLong(PackedMatrix::bytes).sum() / weights;
        }
    }

    /// Packs a model directory.
    ///
    /// @param format one of [#FORMATS]
    /// @param target a directory that is empty or not there
    /// @throws InvalidModelException for a checkpoint that is refused, `PACK_OUTPUT` for a target that is in use,
    ///         `PACK_VERIFY` if a written file does not read back as what was written
    public static Report pack(Path source, String format, Path target, Progress progress) {
        return pack(source, format, target, SHARD_BYTES, progress);
    }

    /// @param shardBytes a new file is begun rather than exceed this in the source; one tensor may
    static Report pack(Path source, String format, Path target, long shardBytes, Progress progress) {
        if (!FORMATS.contains(format)) {
            throw new IllegalArgumentException("format: expected one of " + FORMATS + ", got " + format);
        }
        try {
            return new ModelPacker(source, format, target, shardBytes, progress).pack();
        } catch (IOException e) {
            throw new UncheckedIOException(target + ": cannot be written: " + e.getMessage(), e);
        }
    }

    private Report pack() throws IOException {
        requireFree();
        try (ModelFiles files = ModelFiles.open(source);
                FileChannel claim = claim();
                Backend backend = Backend.open("auto", 0)) {
            assert claim.isOpen();
            ModelConfig config = ModelConfig.read(files).withDraft(files);
            TensorExpectation.check(config, files);
            files.requireListed();
            var linears = new LinearTensors(files, config.quantization());
            var writer = new PackedShards(files, backend.kernels(), WeightTargets.of(format), format.equals("bf16"));
            List<List<PackedShards.Entry>> shards = shards(config, files, linears);
            List<PackedShards.Shard> written = new ArrayList<>();
            long total = shards.stream().flatMap(List::stream).mapToLong(PackedShards.Entry::bytes).sum();
            long done = 0;
            int resumed = 0;
            String key = files.modelDigest() + " " + format + " " + shardBytes;
            progress.at(0, total);
            for (int s = 0; s < shards.size(); s++) {
                String name = ShardWriter.name(s, shards.size());
                PackedShards.Shard shard = writer.finished(partial, name, key);
                resumed += shard == null ? 0 : 1;
                written.add(shard == null ? writer.write(partial, name, key, shards.get(s)) : shard);
                done += shards.get(s).stream().mapToLong(PackedShards.Entry::bytes).sum();
                progress.at(done, total);
            }
            finish(files, written);
            return report(total, written, resumed);
        }
    }

    private void requireFree() throws IOException {
        if (Files.exists(target)) {
            boolean used = !Files.isDirectory(target);
            if (!used) {
                try (Stream<Path> entries = Files.list(target)) {
                    used = entries.findAny().isPresent();
                }
            }
            if (used) {
                throw new InvalidModelException(
                        "PACK_OUTPUT",
                        target + ": expected an empty directory or none, got one with files; name another place");
            }
        }
    }

    /// Takes the directory that is to grow, for this run alone; a mark in it says that it is one of ours.
    private FileChannel claim() throws IOException {
        Path mark = partial.resolve(MARK);
        if (Files.exists(partial) && !Files.exists(mark)) {
            throw new InvalidModelException(
                    "PACK_OUTPUT",
                    partial + ": expected nothing or what an interrupted run left, got something else;"
                            + " name another place, or move it away");
        }
        Files.createDirectories(partial);
        FileChannel channel = FileChannel.open(mark, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            if (channel.tryLock() != null) {
                return channel;
            }
        } catch (OverlappingFileLockException e) {
            // Another run of this process: said below.
        }
        channel.close();
        throw new InvalidModelException(
                "PACK_OUTPUT",
                partial + ": expected it free, got one that another run is writing to; wait for it, or name another place");
    }

    /// Matrices and all other tensors in the order of the model, cut into files by what they take in the source.
    private List<List<PackedShards.Entry>> shards(ModelConfig config, ModelFiles files, LinearTensors linears) {
        List<PackedShards.Entry> entries = new ArrayList<>();
        Set<String> used = new HashSet<>();
        for (TensorExpectation tensor : TensorExpectation.of(config)) {
            if (tensor.matrix()) {
                var linear = tensor.open(linears);
                entries.add(new PackedShards.Entry(tensor.name(), linear, linear.storedBytes()));
                used.addAll(linears.names(tensor.name()));
            } else {
                entries.add(new PackedShards.Entry(tensor.name(), null, files.tensor(tensor.name()).data().byteSize()));
                used.add(tensor.name());
            }
        }
        for (String name : files.tensorNames()) {
            if (!used.contains(name)) {
                entries.add(new PackedShards.Entry(name, null, files.tensor(name).data().byteSize()));
            }
        }
        return ShardWriter.shards(entries, PackedShards.Entry::bytes, shardBytes);
    }

    private void finish(ModelFiles files, List<PackedShards.Shard> shards) throws IOException {
        for (String name : COPIED) {
            byte[] bytes = files.readIfPresent(name);
            if (bytes != null) {
                durable(partial.resolve(name), bytes);
            }
        }
        ObjectNode config =
                (ObjectNode) JsonFiles.object(files.read(ModelFiles.CONFIG), ModelFiles.CONFIG, "CONFIG_JSON");
        if (config.path("text_config") instanceof ObjectNode text) {
            text.remove("quantization_config");
        }
        config.remove("quantization_config");
        if (!format.equals("bf16")) {
            config.putObject("quantization_config")
                    .put("quant_method", "millrace")
                    .put("version", 1)
                    .put("format", format);
        }
        durable(partial.resolve(ModelFiles.CONFIG), JSON.writerWithDefaultPrettyPrinter().writeValueAsBytes(config));
        if (shards.size() > 1) {
            Map<String, String> map = new LinkedHashMap<>();
            shards.forEach(shard -> shard.tensors().forEach(tensor -> map.put(tensor, shard.name())));
            long bytes = shards.stream().mapToLong(PackedShards.Shard::bytes).sum();
            durable(partial.resolve(ModelFiles.INDEX), ShardWriter.index(map, bytes));
        }
        deleteOthers(shards);
        try (ModelFiles packed = ModelFiles.open(partial)) {
            TensorExpectation.check(ModelConfig.read(packed).withDraft(packed), packed);
        }
        force(partial);
        Files.deleteIfExists(target);
        Files.move(partial, target, StandardCopyOption.ATOMIC_MOVE);
        Path parent = target.getParent();
        if (parent != null) {
            force(parent);
        }
    }

    /// Records of finished files, and what a run on another source may have left.
    private void deleteOthers(List<PackedShards.Shard> shards) throws IOException {
        Set<String> kept = new HashSet<>(COPIED);
        kept.add(ModelFiles.CONFIG);
        shards.forEach(shard -> kept.add(shard.name()));
        if (shards.size() > 1) {
            kept.add(ModelFiles.INDEX);
        }
        List<Path> found;
        try (Stream<Path> all = Files.list(partial)) {
            found = all.toList();
        }
        for (Path file : found) {
            if (!kept.contains(String.valueOf(file.getFileName()))) {
                Files.delete(file);
            }
        }
    }

    private static void force(Path directory) throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    private static void durable(Path file, byte[] bytes) throws IOException {
        try (FileChannel channel = FileChannel.open(
                file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            var buffer = java.nio.ByteBuffer.wrap(bytes);
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
            channel.force(true);
        }
    }

    private Report report(long sourceBytes, List<PackedShards.Shard> shards, int resumed) {
        List<PackedMatrix> matrices = new ArrayList<>();
        shards.forEach(shard -> matrices.addAll(shard.matrices()));
        long bytes = shards.stream().mapToLong(PackedShards.Shard::bytes).sum();
        return new Report(format, sourceBytes, bytes, shards.size(), resumed, matrices);
    }
}

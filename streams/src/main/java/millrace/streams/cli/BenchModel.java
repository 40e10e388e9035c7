package millrace.streams.cli;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import millrace.engine.DeveloperModels;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.streams.ScratchDirectory;
import millrace.streams.bench.EngineBench;
import org.jspecify.annotations.Nullable;

/// The model of a bench: a checkpoint's directory, a bundled model, or a random one that is written now and, unless it
/// is to be kept, deleted again.
record BenchModel(Path directory, String label, AutoCloseable scratch) implements AutoCloseable {
    private static final long SEED = 1;

    /// @param keep where a random model is written and stays; found there again, it is taken as it is
    static BenchModel of(String name, @Nullable Path keep, Consumer<String> progress) {
        if (!RandomSpec.isRandom(name)) {
            LocalModel local = LocalModel.of(name);
            Path last = Path.of(name).getFileName();
            return new BenchModel(local.directory(), last == null ? name : last.toString(), local);
        }
        RandomSpec spec = RandomSpec.parse(name);
        if (keep != null) {
            if (!Files.exists(keep.resolve("config.json"))) {
                requireDisk(name, spec, keep, usable(keep));
                write(keep, spec, name, progress);
            }
            return new BenchModel(keep, name, () -> {});
        }
        ScratchDirectory scratch = ScratchDirectory.create("millrace-bench-");
        try {
            requireDisk(name, spec, scratch.path(), usable(scratch.path()));
            Path directory = scratch.path().resolve(name.replace(':', '-'));
            write(directory, spec, name, progress);
            return new BenchModel(directory, name, scratch);
        } catch (RuntimeException e) {
            scratch.close();
            throw e;
        }
    }

    /// Refuses a random model whose weights certainly do not fit, before it is written.
    ///
    /// @param free bytes of memory
    /// @throws IllegalArgumentException that says what to set
    static void requireMemory(String name, List<EngineBench.Variant> variants, long free) {
        if (!RandomSpec.isRandom(name)) {
            return;
        }
        long needed = EngineBench.leastBytes(variants, DeveloperModels.size(RandomSpec.parse(name)).parameters());
        if (needed > free) {
            String formats = variants.stream().map(EngineBench.Variant::weights).distinct().collect(Collectors.joining(", "));
            String together = variants.size() > 1 ? ", at least two of them at a time" : "";
            throw new IllegalArgumentException("%s: memory: expected %s free for weights as %s%s, got %s; ".formatted(
                            name, gigabytes(needed), formats, together, gigabytes(free))
                    + "set fewer or smaller ones, as with --weights int4, or take a smaller model");
        }
    }

    /// Refuses a random model whose files do not fit, before they are written.
    static void requireDisk(String name, RandomSpec spec, Path directory, long free) {
        long needed = DeveloperModels.size(spec).bytes();
        if (needed > free) {
            throw new IllegalArgumentException("%s: %s: expected %s free for its weights in BF16, got %s; ".formatted(
                            name, directory, gigabytes(needed), gigabytes(free))
                    + "choose another disk, with --keep DIR or MILLRACE_JAVA_OPTS=-Djava.io.tmpdir=DIR, or take a smaller model");
        }
    }

    private static String gigabytes(long bytes) {
        return "%.2f GB".formatted(bytes / 1e9);
    }

    /// Bytes that can be written below a directory, which may not be there yet.
    private static long usable(Path directory) {
        Path there = directory.toAbsolutePath();
        while (!Files.exists(there)) {
            there = Objects.requireNonNull(there.getParent(), "the root is there");
        }
        try {
            return Files.getFileStore(there).getUsableSpace();
        } catch (IOException e) {
            throw new UncheckedIOException(directory + ": cannot tell how much room there is: " + e.getMessage(), e);
        }
    }

    private static void write(Path directory, RandomSpec spec, String name, Consumer<String> progress) {
        long start = System.nanoTime();
        try {
            long parameters = DeveloperModels.writeRandom(directory, SEED, spec);
            progress.accept("%s: %d parameters written to %s in %.1f s".formatted(
                    name, parameters, directory, (System.nanoTime() - start) / 1e9));
        } catch (IOException e) {
            throw new UncheckedIOException(name + ": cannot be written: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        try {
            scratch.close();
        } catch (Exception e) {
            throw new IllegalStateException(directory + ": cannot be removed: " + e.getMessage(), e);
        }
    }
}

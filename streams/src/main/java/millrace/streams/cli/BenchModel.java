package millrace.streams.cli;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import millrace.engine.DeveloperModels;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.streams.ScratchDirectory;
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
                write(keep, spec, name, progress);
            }
            return new BenchModel(keep, name, () -> {});
        }
        ScratchDirectory scratch = ScratchDirectory.create("millrace-bench-");
        try {
            Path directory = scratch.path().resolve(name.replace(':', '-'));
            write(directory, spec, name, progress);
            return new BenchModel(directory, name, scratch);
        } catch (RuntimeException e) {
            scratch.close();
            throw e;
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

package millrace.streams.cli;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Where batches are kept, and how the cluster is reached.
final class BatchOptions {
    @Option(names = "--state", paramLabel = "DIR", description = "Directory of the batches (default: ${DEFAULT-VALUE}).")
    Path state = Path.of("data", "batches");

    @Mixin
    ClientOptions client = new ClientOptions();

    /// The batches, which need not exist yet.
    BatchStore store() {
        return new BatchStore(state);
    }

    /// The batches that exist.
    BatchStore existing() {
        if (!Files.isDirectory(state)) {
            throw new IllegalArgumentException(state + ": expected a directory of batches, got none; --state names it, batch submit makes it");
        }
        return store();
    }

    /// One line about a batch.
    static String line(BatchStatus status) {
        return "%s  %s: %,d of %,d lines done%s".formatted(status.manifest().id(), status.state().word(),
                status.completed() + status.failed(), status.total(),
                (status.failed() > 0 ? ", %,d of them failed".formatted(status.failed()) : "")
                        + (status.sent() ? "" : ", %,d read".formatted(Math.min(status.sentLines(), status.total()))));
    }

    /// Tells how it goes, on standard error.
    static Consumer<BatchStatus> progress(PrintWriter err) {
        return status -> {
            err.println(line(status));
            err.flush();
        };
    }

    /// Becomes true when the process is told to stop; it then has a few seconds to write down where it is.
    static final class StopSignal implements BooleanSupplier, AutoCloseable {
        private static final long PATIENCE_MS = 5_000;

        private volatile boolean asked;
        private final CountDownLatch done = new CountDownLatch(1);
        private final Thread hook = new Thread(this::ask, "stop");

        StopSignal() {
            Runtime.getRuntime().addShutdownHook(hook);
        }

        private void ask() {
            asked = true;
            try {
                done.await(PATIENCE_MS, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public boolean getAsBoolean() {
            return asked;
        }

        @Override
        public void close() {
            done.countDown();
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException e) {
                // The process is ending: the hook is running, and has been told.
                asked = true;
            }
        }
    }
}

package millrace.streams;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.common.config.ConfigException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The quotas as they are now: those of the configuration, and where `quotas.file` names a file, what stands in it.
///
/// The file is looked at each second, by its bytes, since a mounted file may change without a newer time. One that cannot
/// be read stops the start; later it is an alarm, and what was read last stays in force.
final class QuotaFile implements Supplier<QuotaTable>, AutoCloseable {
    static final String KEY = "quotas.file";
    private static final Logger LOG = LoggerFactory.getLogger(QuotaFile.class);
    private static final int MOST_BYTES = 1 << 20;
    private static final long EVERY_MS = 1_000;

    private final QuotaTable everybody;
    private final @Nullable Path file;
    private final Consumer<String> alarm;
    private final @Nullable ScheduledExecutorService watcher;
    private byte[] bytes = {};
    private String problem = "";
    private volatile QuotaTable table;

    /// Reads the file, if there is one, and does not watch it.
    ///
    /// @param alarm gets the code where the file is bad later on
    /// @throws ConfigException if it cannot be read or is not understood
    QuotaFile(ServiceConfig config, Consumer<String> alarm) {
        this(config, alarm, false);
    }

    private QuotaFile(ServiceConfig config, Consumer<String> alarm, boolean watched) {
        this.everybody = QuotaTable.of(config);
        this.table = everybody;
        this.alarm = alarm;
        this.file = config.string(KEY).isBlank() ? null : Path.of(config.string(KEY));
        if (file != null) {
            try {
                bytes = read(file);
                table = everybody.with(bytes);
            } catch (IOException | IllegalArgumentException e) {
                throw new ConfigException("config key \"" + KEY + "\": " + file + ": " + reason(e));
            }
        }
        this.watcher = file == null || !watched ? null : Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task, "millrace-quotas");
            thread.setDaemon(true);
            return thread;
        });
    }

    /// Reads the file once.
    ///
    /// @throws ConfigException if the service cannot start with it
    static void check(ServiceConfig config) {
        new QuotaFile(config, code -> {}).close();
    }

    /// Reads the file and looks at it from now on.
    static QuotaFile watch(ServiceConfig config, Consumer<String> alarm) {
        QuotaFile quotas = new QuotaFile(config, alarm, true);
        if (quotas.watcher != null) {
            quotas.watcher.scheduleWithFixedDelay(quotas::look, EVERY_MS, EVERY_MS, TimeUnit.MILLISECONDS);
        }
        return quotas;
    }

    @Override
    public QuotaTable get() {
        return table;
    }

    /// Reads the file again if it has changed.
    void look() {
        if (file == null) {
            return;
        }
        try {
            byte[] now = read(file);
            if (Arrays.equals(now, bytes) && problem.isEmpty()) {
                return;
            }
            table = everybody.with(now);
            bytes = now;
            problem = "";
            LOG.info("quotas: read {} again: {} tenants have limits of their own", file, table.byTenant().size());
        } catch (IOException | IllegalArgumentException e) {
            String why = reason(e);
            if (!why.equals(problem)) {
                problem = why;
                LOG.warn("quotas: {}: {}; the quotas of before stay in force", file, why);
                alarm.accept("QUOTAS_INVALID");
            }
        }
    }

    private static byte[] read(Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            byte[] all = in.readNBytes(MOST_BYTES + 1);
            if (all.length > MOST_BYTES) {
                throw new IllegalArgumentException("expected at most " + MOST_BYTES + " bytes, got more");
            }
            return all;
        }
    }

    private static String reason(Exception e) {
        return e instanceof IOException ? "it cannot be read (" + e + ")" : String.valueOf(e.getMessage());
    }

    @Override
    public void close() {
        if (watcher != null) {
            watcher.shutdownNow();
        }
    }
}

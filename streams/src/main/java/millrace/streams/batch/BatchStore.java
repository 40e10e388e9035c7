package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// The directory of all batches: one directory each, named by the id.
public final class BatchStore {
    static final String INPUT = "input.jsonl";
    private static final String CANCELLED = "cancelled.json";
    private static final String FINAL = "final.json";
    private static final String RESULTS = "results.jsonl";
    private static final String ERRORS = "errors.jsonl";
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9_-]{1,64}");
    private static final int COPY_BYTES = 1 << 16;
    /// More lines than this are several batches: every line takes some 70 bytes of memory while it is worked on.
    private static final int MAX_LINES = 50_000_000;

    private final Path root;
    private final SecureRandom random = new SecureRandom();

    /// A copy of an input that is no batch yet.
    ///
    /// @param lines that are not blank
    public record Input(Path file, String name, String sha256, long bytes, int lines) {}

    public BatchStore(Path root) {
        this.root = root;
        try {
            Files.createDirectories(root);
        } catch (IOException e) {
            throw new UncheckedIOException(root + ": cannot be made: " + e.getMessage(), e);
        }
    }

    /// Copies an input, so that what is sent can be read again whatever becomes of the original.
    ///
    /// @throws BatchException `BATCH_FILE` if it has no lines
    public Input copy(InputStream in, String name) {
        Path file = root.resolve(".incoming-" + HexFormat.of().toHexDigits(random.nextLong()));
        try {
            Input input = copy(in, name, file);
            if (input.lines() == 0 || input.lines() > MAX_LINES) {
                throw new BatchException("BATCH_FILE", name + ": expected 1 to " + MAX_LINES + " lines with a request each, got " + input.lines());
            }
            return input;
        } catch (IOException e) {
            discard(file);
            throw new UncheckedIOException(name + ": cannot be copied to " + root + ": " + e.getMessage(), e);
        } catch (RuntimeException e) {
            discard(file);
            throw e;
        }
    }

    private static Input copy(InputStream in, String name, Path file) throws IOException {
        MessageDigest sha256 = sha256();
        long bytes = 0;
        int lines = 0;
        boolean blank = true;
        try (FileChannel out = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            byte[] buffer = new byte[COPY_BYTES];
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                sha256.update(buffer, 0, read);
                bytes += read;
                for (int i = 0; i < read; i++) {
                    byte b = buffer[i];
                    if (b == '\n') {
                        lines += blank ? 0 : 1;
                        blank = true;
                    } else if (b != ' ' && b != '\t' && b != '\r') {
                        blank = false;
                    }
                }
                Durable.writeAll(out, Arrays.copyOf(buffer, read));
            }
            out.force(true);
        }
        return new Input(file, name, HexFormat.of().formatHex(sha256.digest()), bytes, lines + (blank ? 0 : 1));
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /// Removes a copy that became no batch.
    public void discard(Input input) {
        discard(input.file());
    }

    private static void discard(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be removed: " + e.getMessage(), e);
        }
    }

    /// The latest batch of the same bytes, tenant and endpoint, or null.
    public @Nullable Manifest same(Input input, @Nullable String tenant, Endpoint endpoint) {
        return list().stream()
                .filter(batch -> batch.inputSha256().equals(input.sha256()) && Objects.equals(batch.tenant(), tenant)
                        && batch.endpoint() == endpoint)
                .max(Comparator.comparingLong(Manifest::createdMs))
                .orElse(null);
    }

    /// Makes a batch of an input. From here on it is there whole, whatever happens.
    ///
    /// @param start where the answers may begin
    public Manifest create(
            Input input, @Nullable String tenant, Endpoint endpoint, long createdMs, long expiresMs, Map<String, String> metadata,
            BatchTopics.Start start) {
        String id = "batch_" + HexFormat.of().toHexDigits(random.nextLong()) + HexFormat.of().toHexDigits((short) random.nextInt());
        Path making = root.resolve("." + id);
        Manifest manifest = new Manifest(id, tenant, endpoint, createdMs, expiresMs, input.name(), input.sha256(), input.bytes(),
                input.lines(), metadata, start.cluster(), start.completionsTopic(), start.positions());
        try {
            Files.createDirectory(making);
            Files.move(input.file(), making.resolve(INPUT), StandardCopyOption.ATOMIC_MOVE);
            manifest.write(making);
            Files.move(making, root.resolve(id), StandardCopyOption.ATOMIC_MOVE);
            Durable.syncDirectory(root);
        } catch (IOException e) {
            throw new UncheckedIOException(making + ": cannot be made: " + e.getMessage(), e);
        }
        return manifest;
    }

    /// All batches, the oldest first.
    public List<Manifest> list() {
        List<Manifest> all = new ArrayList<>();
        try (Stream<Path> directories = Files.list(root)) {
            for (Path directory : directories.toList()) {
                if (ID.matcher(directory.getFileName().toString()).matches() && Files.exists(directory.resolve(Manifest.FILE))) {
                    all.add(Manifest.read(directory));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(root + ": cannot be listed: " + e.getMessage(), e);
        }
        all.sort(Comparator.comparingLong(Manifest::createdMs).thenComparing(Manifest::id));
        return all;
    }

    /// The batch with this id.
    ///
    /// @throws BatchException `BATCH_UNKNOWN`
    public Manifest find(String id) {
        if (!ID.matcher(id).matches() || !Files.exists(root.resolve(id).resolve(Manifest.FILE))) {
            throw new BatchException("BATCH_UNKNOWN", "expected the id of a batch in " + root
                    + ", got another; `millrace batch list` shows them");
        }
        return Manifest.read(root.resolve(id));
    }

    Path directory(Manifest manifest) {
        return root.resolve(manifest.id());
    }

    /// Writes down that the batch is to end. What is answered already stays.
    public void cancel(Manifest manifest, long nowMs) {
        Path file = directory(manifest).resolve(CANCELLED);
        if (!Files.exists(file)) {
            Durable.replace(file, Json.object().put("at_ms", nowMs));
        }
    }

    /// When it was cancelled, milliseconds since the epoch; -1 if it was not.
    public long cancelledMs(Manifest manifest) {
        ObjectNode node = Durable.read(directory(manifest).resolve(CANCELLED));
        return node == null ? -1 : node.path("at_ms").asLong();
    }

    /// Writes down how it ended; from here on its answers are settled.
    void end(Manifest manifest, BatchStatus.State state, long nowMs, int completed, int failed) {
        Durable.replace(directory(manifest).resolve(FINAL), Json.object().put("state", state.name()).put("at_ms", nowMs)
                .put("completed", completed).put("failed", failed));
    }

    /// Writes the two files of [#results] and [#errors], each whole or not at all.
    void publish(Manifest manifest, BatchRun run) {
        Path results = directory(manifest).resolve(RESULTS);
        Path errors = directory(manifest).resolve(ERRORS);
        Path newResults = directory(manifest).resolve(RESULTS + ".tmp");
        Path newErrors = directory(manifest).resolve(ERRORS + ".tmp");
        try (Durable.Log good = new Durable.Log(newResults, 0); Durable.Log bad = new Durable.Log(newErrors, 0)) {
            run.write(line -> good.append(line(line)), line -> bad.append(line(line)));
            good.sync();
            bad.sync();
        }
        try {
            Files.move(newErrors, errors, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            Files.move(newResults, results, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            Durable.syncDirectory(directory(manifest));
        } catch (IOException e) {
            throw new UncheckedIOException(results + ": cannot be written: " + e.getMessage(), e);
        }
    }

    private static byte[] line(ObjectNode line) {
        return (Json.write(line) + "\n").getBytes(StandardCharsets.UTF_8);
    }

    /// The answers of a batch that was published; there once it is.
    public Path results(Manifest manifest) {
        return directory(manifest).resolve(RESULTS);
    }

    /// Its errors.
    public Path errors(Manifest manifest) {
        return directory(manifest).resolve(ERRORS);
    }

    /// How it ended, or null while it has not.
    public @Nullable BatchStatus ended(Manifest manifest) {
        ObjectNode node = Durable.read(directory(manifest).resolve(FINAL));
        return node == null ? null : new BatchStatus(manifest, BatchStatus.State.valueOf(node.path("state").asText()), manifest.lines(),
                node.path("completed").asInt(), node.path("failed").asInt(), Integer.MAX_VALUE, true, node.path("at_ms").asLong());
    }
}

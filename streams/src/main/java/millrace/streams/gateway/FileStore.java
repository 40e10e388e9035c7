package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// The files that were uploaded, each with its tenant: another tenant's file does not exist.
final class FileStore {
    private static final Pattern ID = Pattern.compile("file-[0-9a-f]{24}");
    private static final int NAME_CHARS = 255;

    /// One file.
    record Stored(String id, @Nullable String tenant, String name, long bytes, long createdSeconds, String purpose, Path content) {
        ObjectNode toJson() {
            return Json.object().put("id", id).put("object", "file").put("bytes", bytes).put("created_at", createdSeconds)
                    .put("filename", name).put("purpose", purpose).put("status", "processed");
        }
    }

    private final Path root;
    private final long mostBytes;
    private final SecureRandom random = new SecureRandom();

    FileStore(Path root, long mostBytes) throws IOException {
        this.root = Files.createDirectories(root);
        this.mostBytes = mostBytes;
    }

    /// Takes a file in.
    Stored put(InputStream content, String name, @Nullable String tenant) throws IOException {
        byte[] bytes = new byte[12];
        random.nextBytes(bytes);
        String id = "file-" + HexFormat.of().formatHex(bytes);
        Path making = root.resolve("." + id);
        try {
            long size = copy(content, making);
            long created = System.currentTimeMillis() / 1_000;
            String cut = name.length() > NAME_CHARS ? name.substring(0, NAME_CHARS) : name;
            Path file = root.resolve(id + ".jsonl");
            ObjectNode facts = Json.object().put("tenant", tenant).put("name", cut).put("bytes", size).put("created", created)
                    .put("purpose", "batch");
            Files.move(making, file, StandardCopyOption.ATOMIC_MOVE);
            Path temporary = root.resolve("." + id + ".json");
            Files.write(temporary, Json.bytes(facts));
            Files.move(temporary, root.resolve(id + ".json"), StandardCopyOption.ATOMIC_MOVE);
            return new Stored(id, tenant, cut, size, created, "batch", file);
        } finally {
            Files.deleteIfExists(making);
        }
    }

    private long copy(InputStream content, Path to) throws IOException {
        long size = 0;
        byte[] buffer = new byte[1 << 16];
        try (OutputStream out = Files.newOutputStream(to)) {
            for (int read = content.read(buffer); read >= 0; read = content.read(buffer)) {
                size += read;
                if (size > mostBytes) {
                    throw Http.tooLarge(mostBytes);
                }
                out.write(buffer, 0, read);
            }
        }
        return size;
    }

    /// The file, if it is the tenant's.
    ///
    /// @throws ApiException 404
    Stored find(String id, @Nullable String tenant) throws IOException {
        Path facts = root.resolve(id + ".json");
        if (ID.matcher(id).matches() && Files.exists(facts)) {
            Stored stored = read(id, facts);
            if (Objects.equals(stored.tenant(), tenant)) {
                return stored;
            }
        }
        throw ApiException.notFound("file_not_found", "id", "id: expected that of a file of yours, got another");
    }

    private Stored read(String id, Path facts) throws IOException {
        ObjectNode node = Json.read(Files.readAllBytes(facts));
        return new Stored(id, node.path("tenant").isTextual() ? node.path("tenant").textValue() : null, node.path("name").asText(),
                node.path("bytes").asLong(), node.path("created").asLong(), node.path("purpose").asText(), root.resolve(id + ".jsonl"));
    }

    /// The tenant's files, the newest first.
    List<Stored> list(@Nullable String tenant) throws IOException {
        List<Stored> all = new ArrayList<>();
        try (Stream<Path> files = Files.list(root)) {
            for (Path file : files.toList()) {
                String name = file.getFileName().toString();
                String id = name.endsWith(".json") ? name.substring(0, name.length() - 5) : "";
                if (ID.matcher(id).matches()) {
                    Stored stored = read(id, file);
                    if (Objects.equals(stored.tenant(), tenant)) {
                        all.add(stored);
                    }
                }
            }
        }
        all.sort(Comparator.comparingLong(Stored::createdSeconds).thenComparing(Stored::id).reversed());
        return all;
    }

    void delete(Stored stored) throws IOException {
        Files.deleteIfExists(root.resolve(stored.id() + ".json"));
        Files.deleteIfExists(stored.content());
    }
}

package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.UUID;

/// The id of this instance: a UUID in the state directory, so that a restart is the same member of the group.
///
/// Kafka Streams locks the directory, so two processes cannot share an id.
final class InstanceId {
    private static final String FILE = "instance.id";

    private InstanceId() {}

    static String of(Path stateDir) {
        Path file = stateDir.resolve(FILE);
        try {
            Files.createDirectories(stateDir);
            if (Files.exists(file)) {
                return UUID.fromString(Files.readString(file, StandardCharsets.US_ASCII).strip()).toString();
            }
            String id = UUID.randomUUID().toString();
            Path temporary = Files.writeString(stateDir.resolve(FILE + ".new"), id + "\n", StandardCharsets.US_ASCII);
            Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
            return id;
        } catch (IOException e) {
            throw new UncheckedIOException("state.dir " + stateDir + ": cannot be written; choose a directory that can", e);
        } catch (IllegalArgumentException e) {
            throw new IllegalStateException(file + ": expected a UUID; delete the file to get a new id", e);
        }
    }
}

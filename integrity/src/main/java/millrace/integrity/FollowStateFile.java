package millrace.integrity;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.jspecify.annotations.Nullable;

/// The file of a [FollowState]. It is replaced as a whole and reaches the disk before [#save] returns, so a crash leaves
/// the state before or the state after. One process at a time holds it.
public final class FollowStateFile implements AutoCloseable {
    private static final long MAX_BYTES = 64L << 20;

    private final Path file;
    private final FileChannel lockChannel;
    private FollowState state;

    private FollowStateFile(Path file, FileChannel lockChannel, FollowState state) {
        this.file = file;
        this.lockChannel = lockChannel;
        this.state = state;
    }

    /// Opens the file; where there is none the state is empty.
    ///
    /// @throws IntegrityException code `FOLLOW_STATE` if the file is damaged, `FOLLOW_STATE_BUSY` if another process has it
    public static FollowStateFile open(Path file) throws IOException {
        Path absolute = file.toAbsolutePath();
        Files.createDirectories(absolute.resolveSibling(""));
        FileChannel lock = FileChannel.open(absolute.resolveSibling(absolute.getFileName() + ".lock"),
                StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            if (tryLock(lock) == null) {
                throw new IntegrityException("FOLLOW_STATE_BUSY",
                        "state file %s: expected to be alone with it, got another process that holds it; a witness has one process"
                                .formatted(file));
            }
            return new FollowStateFile(absolute, lock, load(absolute));
        } catch (IOException | RuntimeException e) {
            lock.close();
            throw e;
        }
    }

    private static @Nullable FileLock tryLock(FileChannel channel) throws IOException {
        try {
            return channel.tryLock();
        } catch (OverlappingFileLockException inThisProcess) {
            return null;
        }
    }

    private static FollowState load(Path file) throws IOException {
        if (!Files.exists(file)) {
            return FollowState.EMPTY;
        }
        try {
            if (Files.size(file) > MAX_BYTES) {
                throw new IntegrityException("FOLLOW_STATE",
                        "follow state: expected at most %d bytes, got %d".formatted(MAX_BYTES, Files.size(file)));
            }
            return FollowState.parse(new String(Files.readAllBytes(file), StandardCharsets.UTF_8));
        } catch (IntegrityException e) {
            throw new IntegrityException("FOLLOW_STATE",
                    "state file %s: %s; restore it, or move it away: a witness then takes up what it has published itself"
                            .formatted(file, e.getMessage()), e);
        }
    }

    public FollowState state() {
        return state;
    }

    /// Writes a newer state. It is on the disk when this returns.
    public void save(FollowState next) throws IOException {
        DurableFile.write(file, next.encode().getBytes(StandardCharsets.UTF_8));
        state = next;
    }

    @Override
    public void close() throws IOException {
        lockChannel.close();
    }
}

package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// Files that survive the end of the process at any moment: replaced whole, or appended to and cut to a known length.
final class Durable {
    private Durable() {}

    /// Replaces a file: after a crash it has the old content or the new, and the new once this returned.
    static void replace(Path file, ObjectNode content) {
        Path temporary = file.resolveSibling(file.getFileName() + ".tmp");
        try {
            try (FileChannel channel = FileChannel.open(temporary,
                    StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
                writeAll(channel, (Json.write(content) + "\n").getBytes(StandardCharsets.UTF_8));
                channel.force(true);
            }
            Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            syncDirectory(file.toAbsolutePath().getParent());
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be written: " + e.getMessage(), e);
        }
    }

    /// What a file says, or null if there is none.
    static @Nullable ObjectNode read(Path file) {
        try {
            return Files.exists(file) ? Json.read(Files.readAllBytes(file)) : null;
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be read: " + e.getMessage(), e);
        }
    }

    /// Makes renames within a directory durable, where the system can do that.
    static void syncDirectory(@Nullable Path directory) {
        if (directory == null) {
            return;
        }
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        } catch (IOException e) {
            // A system that opens no directories orders renames by itself.
            return;
        }
    }

    static void writeAll(FileChannel channel, byte[] bytes) throws IOException {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
    }

    /// A file that only grows. What lies behind the length that it is opened with came from a process that ended before
    /// it could say so, and is cut off.
    static final class Log implements AutoCloseable {
        private static final int BUFFER_BYTES = 1 << 16;

        private final Path file;
        private final FileChannel channel;
        private final ByteBuffer buffer = ByteBuffer.allocate(BUFFER_BYTES);
        private long length;

        Log(Path file, long length) {
            this.file = file;
            this.length = length;
            try {
                channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
                if (channel.size() < length) {
                    throw new BatchException("BATCH_STATE", file + ": expected at least " + length + " bytes, got " + channel.size()
                            + "; the directory was changed by somebody else, restore it or submit the file anew");
                }
                channel.truncate(length);
                channel.position(length);
            } catch (IOException e) {
                throw new UncheckedIOException(file + ": cannot be opened: " + e.getMessage(), e);
            }
        }

        /// Length with what is still in memory, bytes.
        long length() {
            return length;
        }

        void append(byte[] bytes) {
            try {
                if (bytes.length > buffer.remaining()) {
                    drain();
                }
                if (bytes.length > buffer.capacity()) {
                    writeAll(channel, bytes);
                } else {
                    buffer.put(bytes);
                }
                length += bytes.length;
            } catch (IOException e) {
                throw new UncheckedIOException(file + ": cannot be written: " + e.getMessage(), e);
            }
        }

        /// What was appended before is on the disk when this returns.
        void sync() {
            try {
                drain();
                channel.force(false);
            } catch (IOException e) {
                throw new UncheckedIOException(file + ": cannot be written: " + e.getMessage(), e);
            }
        }

        byte[] read(long offset, int bytes) {
            try {
                drain();
                ByteBuffer into = ByteBuffer.allocate(bytes);
                while (into.hasRemaining()) {
                    if (channel.read(into, offset + into.position()) < 0) {
                        throw new BatchException("BATCH_STATE", file + ": ends before byte " + (offset + bytes)
                                + "; the directory was changed by somebody else");
                    }
                }
                return into.array();
            } catch (IOException e) {
                throw new UncheckedIOException(file + ": cannot be read: " + e.getMessage(), e);
            }
        }

        private void drain() throws IOException {
            buffer.flip();
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
            buffer.clear();
        }

        @Override
        public void close() {
            try {
                channel.close();
            } catch (IOException e) {
                throw new UncheckedIOException(file + ": cannot be closed: " + e.getMessage(), e);
            }
        }
    }
}

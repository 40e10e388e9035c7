package millrace.streams.batch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/// The lines of a file one after the other, whatever its size; a line that is too long is passed over, not kept.
final class InputLines implements AutoCloseable {
    private static final int BUFFER_BYTES = 1 << 16;

    /// One line.
    ///
    /// @param number from 1
    /// @param end offset of the byte after its newline
    /// @param bytes its content without the newline; null if it has more than the most
    record Line(int number, long end, byte @Nullable [] bytes) {
        boolean isBlank() {
            if (bytes == null) {
                return false;
            }
            for (byte b : bytes) {
                if (b != ' ' && b != '\t' && b != '\r') {
                    return false;
                }
            }
            return true;
        }
    }

    private final Path file;
    private final InputStream in;
    private final int mostBytes;
    private final byte[] buffer = new byte[BUFFER_BYTES];
    private int filled;
    private int at;
    private long offset;
    private int number;

    /// @param number of the line before the first that is read, 0 at the beginning
    /// @param offset where the first begins, bytes
    /// @param mostBytes the longest line that is kept
    InputLines(Path file, int number, long offset, int mostBytes) {
        this.file = file;
        this.number = number;
        this.offset = offset;
        this.mostBytes = mostBytes;
        try {
            in = Files.newInputStream(file);
            in.skipNBytes(offset);
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be read: " + e.getMessage(), e);
        }
    }

    /// The next line, or null at the end.
    @Nullable Line next() {
        ByteArrayOutputStream line = new ByteArrayOutputStream(512);
        boolean tooLong = false;
        boolean any = false;
        try {
            while (true) {
                if (at == filled) {
                    at = 0;
                    filled = in.read(buffer);
                    if (filled <= 0) {
                        filled = 0;
                        return any ? new Line(++number, offset, tooLong ? null : line.toByteArray()) : null;
                    }
                }
                any = true;
                int end = at;
                while (end < filled && buffer[end] != '\n') {
                    end++;
                }
                tooLong |= line.size() + (end - at) > mostBytes;
                if (!tooLong) {
                    line.write(buffer, at, end - at);
                }
                offset += end - at;
                at = end;
                if (end < filled) {
                    at++;
                    offset++;
                    return new Line(++number, offset, tooLong ? null : line.toByteArray());
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be read: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        try {
            in.close();
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be closed: " + e.getMessage(), e);
        }
    }
}

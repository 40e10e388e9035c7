package millrace.integrity;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.SecureRandom;

/// The file of a [NoteSigner]: one line, `PRIVATE+KEY+name+id+base64`, readable by its owner alone, see [OwnerOnly].
final class NoteKeyFile {
    private static final int MAX_BYTES = 4096;

    private NoteKeyFile() {}

    static NoteSigner load(Path file) throws IOException {
        OwnerOnly.require(file);
        long size = Files.size(file);
        if (size > MAX_BYTES) {
            throw new IntegrityException("KEY_FILE_FORMAT",
                    "key file %s: expected at most 4096 bytes, got %d".formatted(file, size));
        }
        String text = Files.readString(file, StandardCharsets.UTF_8);
        try {
            return NoteSigner.parse(text);
        } catch (IntegrityException e) {
            throw new IntegrityException("KEY_FILE_FORMAT", "key file %s: %s".formatted(file, e.getMessage()), e);
        }
    }

    static NoteSigner loadOrCreate(Path file, String name, NoteKey.Kind kind, SecureRandom random)
            throws IOException {
        try {
            return load(file);
        } catch (NoSuchFileException absent) {
            return create(file, name, kind, random);
        }
    }

    /// Of two processes that start together one creates and the other loads.
    private static NoteSigner create(Path file, String name, NoteKey.Kind kind, SecureRandom random)
            throws IOException {
        NoteSigner signer = NoteSigner.generate(name, kind, random);
        try {
            OwnerOnly.create(file, (signer.secretText() + "\n").getBytes(StandardCharsets.UTF_8));
            return signer;
        } catch (FileAlreadyExistsException another) {
            return load(file);
        }
    }
}

package millrace.streams;

import java.io.IOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import millrace.integrity.NoteSigner;
import org.jspecify.annotations.Nullable;

/// The audit keys that the configuration names.
final class AuditKeyFiles {
    private AuditKeyFiles() {}

    /// The key that signs.
    ///
    /// @param mayCreate whether a missing file is created
    static NoteSigner signer(ServiceConfig config, boolean mayCreate) {
        String configured = config.string("audit.key.file");
        Path file = configured.isBlank() ? Path.of(config.string("state.dir"), "audit.key") : Path.of(configured);
        try {
            return mayCreate
                    ? NoteSigner.loadOrCreate(file, config.string("audit.origin"), new SecureRandom())
                    : NoteSigner.load(file);
        } catch (IOException e) {
            throw new IllegalStateException("audit.key.file " + file + ": cannot be read (" + e
                    + "); make a key with `millrace audit keygen`, or point to the one you have", e);
        }
    }

    /// The key that signed before it, null where none is configured.
    static @Nullable NoteSigner previous(ServiceConfig config) {
        String file = config.string("audit.key.previous.file");
        try {
            return file.isBlank() ? null : NoteSigner.load(Path.of(file));
        } catch (IOException e) {
            throw new IllegalStateException("audit.key.previous.file " + file + ": cannot be read (" + e + "); give the file of the key"
                    + " that signed before, or leave the key out once the overlap is over", e);
        }
    }
}

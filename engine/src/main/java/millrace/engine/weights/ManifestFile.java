package millrace.engine.weights;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import millrace.engine.InvalidModelException;
import millrace.engine.ModelCard;
import org.jspecify.annotations.Nullable;

/// The manifest as it lies in a model's directory: its bytes once, digest and contents of the same reading.
///
/// @param digest of the file
record ManifestFile(TensorManifest manifest, ModelCard.FileDigest digest, byte[] bytes) {

    /// The manifest of a directory, or null where it has none.
    ///
    /// @param realDirectory the directory, links followed
    /// @throws InvalidModelException `BT_FORMAT`, `MODEL_PATH`, `MODEL_UNREADABLE`
    static @Nullable ManifestFile read(Path realDirectory) {
        Path path = realDirectory.resolve(TensorManifest.PATH);
        if (!Files.exists(path)) {
            return null;
        }
        try {
            if (!path.toRealPath().startsWith(realDirectory) || !Files.isRegularFile(path)) {
                throw new InvalidModelException("MODEL_PATH", TensorManifest.PATH
                        + ": expected a regular file inside the model directory, got something else; remove it");
            }
            byte[] bytes;
            try (InputStream in = Files.newInputStream(path)) {
                bytes = in.readNBytes(TensorManifest.MAX_BYTES + 1);
            }
            if (bytes.length > TensorManifest.MAX_BYTES) {
                throw new InvalidModelException("BT_FORMAT", TensorManifest.PATH + ": expected at most "
                        + (TensorManifest.MAX_BYTES >> 20) + " MiB, got more; sign the model again");
            }
            return new ManifestFile(TensorManifest.parse(bytes),
                    new ModelCard.FileDigest(TensorManifest.PATH, bytes.length, Sha256.hex(bytes)), bytes);
        } catch (IOException e) {
            throw ModelFiles.unreadable(TensorManifest.PATH, e);
        }
    }
}

package millrace.engine.weights;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import millrace.engine.InvalidModelException;

/// What is said where no checkpoint is: what else is there, and what to do.
final class NoModel {
    private NoModel() {}

    /// Why a path that is no directory is refused.
    static InvalidModelException at(Path dir) {
        if (!Files.exists(dir)) {
            return new InvalidModelException(
                    "MODEL_MISSING", dir + ": expected a model directory, got nothing there; check the path");
        }
        try (var arena = Arena.ofConfined()) {
            // Names a foreign format where the file is one; else the advice below is the right one.
            SafetensorsFile.open(dir, String.valueOf(dir.getFileName()), arena);
        } catch (InvalidModelException e) {
            if (e.code().equals("MODEL_FORMAT")) {
                return e;
            }
        }
        return new InvalidModelException(
                "MODEL_MISSING", dir + ": expected a model directory, got a file; give the directory that holds it");
    }

    /// Why a directory without weights is refused.
    static InvalidModelException without(Path directory) {
        try (Stream<Path> entries = Files.list(directory)) {
            String foreign = entries.map(p -> p.getFileName().toString())
                    .filter(n -> n.endsWith(".gguf") || SafetensorsFile.isPickleName(n))
                    .sorted()
                    .findFirst()
                    .orElse(null);
            if (foreign != null) {
                return new InvalidModelException(
                        "MODEL_FORMAT",
                        foreign + ": expected safetensors weights, got "
                                + (foreign.endsWith(".gguf") ? "a GGUF file" : "a pickle, which is never opened")
                                + "; convert the checkpoint to safetensors");
            }
        } catch (IOException e) {
            return ModelFiles.unreadable(directory.toString(), e);
        }
        return new InvalidModelException(
                "MODEL_MISSING",
                directory + ": expected " + ModelFiles.WEIGHTS + " or " + ModelFiles.INDEX + ", got neither; complete the download");
    }
}

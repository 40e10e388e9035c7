package millrace.streams.cli;

import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;

/// The folder that the running classes were built in.
final class Checkout {
    private Checkout() {}

    /// @throws IllegalArgumentException if the classes lie elsewhere
    static Path root() {
        Path place;
        try {
            place = Path.of(Checkout.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new IllegalStateException("the place of a class is a URI", e);
        }
        // streams/target/streams-….jar or streams/target/classes
        for (Path folder = place.getParent(); folder != null; folder = folder.getParent()) {
            if (Files.isRegularFile(folder.resolve("engine/src/main/cuda/port.h"))) {
                return folder;
            }
        }
        throw new IllegalArgumentException(
                place + ": expected it below a checkout of Millrace that was built, got none; run this from one");
    }
}

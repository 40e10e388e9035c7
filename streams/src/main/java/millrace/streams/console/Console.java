package millrace.streams.console;

import java.util.Map;

/// The read-only console.
public final class Console {
    Map<String, HttpDoor.Page> pages() {
        return Map.of();
    }
}

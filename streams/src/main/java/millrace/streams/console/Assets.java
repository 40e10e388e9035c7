package millrace.streams.console;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.TreeMap;
import millrace.integrity.Digest;

/// The console's files, out of the jar: read once, served from memory.
final class Assets {
    private static final String FOLDER = "web/";
    private static final Map<String, String> TYPES = Map.of(
            "html", "text/html; charset=utf-8", "css", "text/css; charset=utf-8", "js", "text/javascript; charset=utf-8",
            "svg", "image/svg+xml");
    private static final Map<String, String> FILES = Map.of(
            "/", "console.html", "/console/console.css", "console.css", "/console/console.js", "console.js",
            "/console/charts.js", "charts.js", "/console/verify.js", "verify.js", "/console/icon.svg", "icon.svg");

    private Assets() {}

    static Map<String, HttpDoor.Page> pages() {
        Map<String, HttpDoor.Page> pages = new TreeMap<>();
        FILES.forEach((path, file) -> {
            byte[] bytes = read(file);
            HttpDoor.Answer answer = new HttpDoor.Answer(
                    200, TYPES.get(file.substring(file.lastIndexOf('.') + 1)), bytes, "\"" + Digest.sha256(bytes).hex().substring(0, 32) + "\"");
            pages.put(path, query -> answer);
        });
        return pages;
    }

    private static byte[] read(String file) {
        try (InputStream in = Assets.class.getResourceAsStream(FOLDER + file)) {
            if (in == null) {
                throw new IllegalStateException("console: " + file + " is not in the jar: build it again");
            }
            return in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException("console: " + file + " cannot be read from the jar", e);
        }
    }
}

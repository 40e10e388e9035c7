package millrace.streams;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import java.util.stream.Stream;

/// A headless Chromium with one page, driven by the DevTools protocol over the JDK's WebSocket.
final class Chromium implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> NAMES = List.of("chromium", "chromium-browser", "google-chrome", "google-chrome-stable");
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final Process process;
    private final Path profile;
    private final HttpClient http = HttpClient.newHttpClient();
    private final AtomicInteger ids = new AtomicInteger();
    private final Map<Integer, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    /// What the page logged, threw, or was refused.
    final List<String> complaints = new CopyOnWriteArrayList<>();
    /// Every address that was asked for.
    final List<String> requests = new CopyOnWriteArrayList<>();
    private final WebSocket socket;
    private String session = "";

    /// The browser of this machine: `millrace.chromium`, or one of the usual names on the path.
    static Optional<Path> find() {
        String named = System.getProperty("millrace.chromium", "");
        if (!named.isEmpty()) {
            return Optional.of(Path.of(named));
        }
        return Stream.of(System.getenv().getOrDefault("PATH", "").split(":"))
                .flatMap(folder -> NAMES.stream().map(name -> Path.of(folder, name)))
                .filter(Files::isExecutable).findFirst();
    }

    Chromium(Path executable, Path profile) throws Exception {
        this.profile = profile;
        process = new ProcessBuilder(executable.toString(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                "--remote-debugging-port=0", "--user-data-dir=" + profile, "about:blank")
                .redirectErrorStream(true).start();
        String address = null;
        BufferedReader out = process.inputReader(StandardCharsets.UTF_8);
        List<String> said = new ArrayList<>();
        for (String line = out.readLine(); line != null && address == null; line = out.readLine()) {
            said.add(line);
            if (line.startsWith("DevTools listening on ")) {
                address = line.substring("DevTools listening on ".length()).strip();
                break;
            }
        }
        if (address == null) {
            throw new IOException("the browser did not start: " + said);
        }
        Thread.ofVirtual().start(() -> drain(out));
        socket = http.newWebSocketBuilder().buildAsync(URI.create(address), new Listener()).get(30, TimeUnit.SECONDS);
        String target = call("Target.createTarget", Map.of("url", "about:blank")).get("targetId").asText();
        session = call("Target.attachToTarget", Map.of("targetId", target, "flatten", true)).get("sessionId").asText();
        for (String domain : List.of("Page", "Runtime", "Network", "Log")) {
            call(domain + ".enable", Map.of());
        }
    }

    private static void drain(BufferedReader out) {
        try {
            while (out.readLine() != null) {
                // So that the browser never waits for its reader.
            }
        } catch (IOException e) {
            // It has ended.
        }
    }

    JsonNode call(String method, Map<String, ?> parameters) throws Exception {
        int id = ids.incrementAndGet();
        ObjectNode message = JSON.createObjectNode().put("id", id).put("method", method);
        message.set("params", JSON.valueToTree(parameters));
        if (!session.isEmpty()) {
            message.put("sessionId", session);
        }
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        waiting.put(id, answer);
        socket.sendText(message.toString(), true).get(30, TimeUnit.SECONDS);
        return answer.get(30, TimeUnit.SECONDS);
    }

    void size(int width, int height, boolean mobile) throws Exception {
        call("Emulation.setDeviceMetricsOverride", Map.of("width", width, "height", height, "deviceScaleFactor", 1, "mobile", mobile));
    }

    void media(String scheme, boolean reducedMotion) throws Exception {
        call("Emulation.setEmulatedMedia", Map.of("features", List.of(
                Map.of("name", "prefers-color-scheme", "value", scheme),
                Map.of("name", "prefers-reduced-motion", "value", reducedMotion ? "reduce" : "no-preference"))));
    }

    void open(String url) throws Exception {
        call("Page.navigate", Map.of("url", url));
    }

    /// The value of an expression; promises are awaited.
    JsonNode eval(String expression) throws Exception {
        JsonNode answer = call("Runtime.evaluate", Map.of("expression", expression, "awaitPromise", true, "returnByValue", true));
        if (answer.has("exceptionDetails")) {
            throw new IllegalStateException(expression + ": " + answer.get("exceptionDetails"));
        }
        return answer.get("result").path("value");
    }

    /// The value, once it is what is waited for; the last one that it was in any case.
    JsonNode until(String expression, Predicate<JsonNode> wanted) throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        JsonNode value = eval(expression);
        while (!wanted.test(value) && System.nanoTime() < until) {
            Thread.sleep(20);
            value = eval(expression);
        }
        return value;
    }

    void key(String key, String code, int number) throws Exception {
        for (String type : List.of("keyDown", "keyUp")) {
            Map<String, Object> event = new java.util.HashMap<>(Map.of(
                    "type", type, "key", key, "code", code, "windowsVirtualKeyCode", number));
            if (type.equals("keyDown") && key.equals("Enter")) {
                event.put("text", "\r");
            }
            call("Input.dispatchKeyEvent", event);
        }
    }

    byte[] screenshot(boolean wholePage) throws Exception {
        JsonNode size = eval("({width: innerWidth, height: " + (wholePage ? "document.documentElement.scrollHeight" : "innerHeight") + "})");
        JsonNode shot = call("Page.captureScreenshot", Map.of("format", "png", "captureBeyondViewport", true, "clip", Map.of(
                "x", 0, "y", 0, "width", size.get("width").asInt(), "height", size.get("height").asInt(), "scale", 1)));
        return Base64.getDecoder().decode(shot.get("data").asText());
    }

    private final class Listener implements WebSocket.Listener {
        private final StringBuilder parts = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
            parts.append(data);
            if (last) {
                String whole = parts.toString();
                parts.setLength(0);
                try {
                    take(JSON.readTree(whole));
                } catch (IOException e) {
                    complaints.add("a message that is no JSON: " + whole);
                }
            }
            from.request(1);
            return CompletableFuture.completedFuture(null);
        }

        private void take(JsonNode message) {
            if (message.has("id")) {
                CompletableFuture<JsonNode> waits = waiting.remove(message.get("id").asInt());
                if (message.has("error")) {
                    waits.completeExceptionally(new IllegalStateException(message.get("error").toString()));
                } else {
                    waits.complete(message.get("result"));
                }
                return;
            }
            JsonNode parameters = message.path("params");
            switch (message.path("method").asText()) {
                case "Network.requestWillBeSent" -> requests.add(parameters.at("/request/url").asText());
                case "Runtime.exceptionThrown" -> complaints.add(parameters.get("exceptionDetails").toString());
                case "Runtime.consoleAPICalled" -> complaints.add(parameters.get("args").toString());
                case "Log.entryAdded" -> complaints.add(parameters.get("entry").toString());
                default -> { }
            }
        }
    }

    @Override
    public void close() {
        socket.abort();
        http.shutdownNow();
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
            // Links that lead out of the profile, which whoever deletes it would warn of.
            for (String link : List.of("SingletonLock", "SingletonSocket", "SingletonCookie")) {
                Files.deleteIfExists(profile.resolve(link));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IOException e) {
            complaints.add(e.toString());
        }
    }
}

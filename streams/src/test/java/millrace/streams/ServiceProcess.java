package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/// `millrace serve` in a JVM of its own, which a test may kill.
final class ServiceProcess implements AutoCloseable {
    private final Process process;
    private final Path log;
    private final int logBegin;

    /// @param directory gets the service's log; not its state
    /// @param jvmFlags beside those that every run has
    static ServiceProcess start(Path directory, Map<String, String> settings, String... jvmFlags) {
        return start(directory, settings, Map.of(), jvmFlags);
    }

    /// @param environment variables beside those of this process
    static ServiceProcess start(Path directory, Map<String, String> settings, Map<String, String> environment, String... jvmFlags) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m", "-XX:+UseSerialGC",
                "--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED",
                "--sun-misc-unsafe-memory-access=allow", "-Djava.io.tmpdir=" + directory));
        command.addAll(List.of(jvmFlags));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), "millrace.streams.cli.Main", "serve"));
        settings.forEach((key, value) -> command.addAll(List.of("-D", key + "=" + value)));
        Path log = directory.resolve("service.log");
        try {
            int begin = Files.exists(log) ? (int) Files.size(log) : 0;
            ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
            builder.environment().putAll(environment);
            return new ServiceProcess(builder.start(), log, begin);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private ServiceProcess(Process process, Path log, int logBegin) {
        this.process = process;
        this.log = log;
        this.logBegin = logBegin;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /// Seconds of CPU that it has used: what a start takes on a machine that does nothing else.
    double cpuSeconds() {
        return process.info().totalCpuDuration().orElse(Duration.ZERO).toMillis() / 1e3;
    }

    long pid() {
        return process.pid();
    }

    /// SIGKILL: no shutdown hook, no flush.
    void kill() {
        process.destroyForcibly();
        exitCode();
    }

    /// SIGTERM; returns the exit code.
    int stop() {
        process.destroy();
        return exitCode();
    }

    int exitCode() {
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the service did not end within 60 s:\n" + tail());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        return process.exitValue();
    }

    /// Sends a signal by its name.
    void signal(String name) {
        try {
            if (new ProcessBuilder("kill", "-" + name, Long.toString(pid())).inheritIO().start().waitFor() != 0) {
                throw new IllegalStateException("kill -" + name + " " + pid() + " failed");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /// Until this process has said a line.
    void await(String line, Duration patience) {
        long until = System.nanoTime() + patience.toNanos();
        while (!said().lines().toList().contains(line)) {
            if (!isAlive() || System.nanoTime() > until) {
                throw new IllegalStateException("the service did not say \"" + line + "\" within " + patience + ":\n" + tail());
            }
            ClusterClient.sleep(50);
        }
    }

    /// What this process has said, without those before it.
    String said() {
        try {
            byte[] all = Files.readAllBytes(log);
            return new String(all, logBegin, all.length - logBegin, StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// The largest of a metric's samples, NaN if there is none; the process has a `health.port`.
    ///
    /// @param name as in Prometheus' form
    double metric(String name) {
        String said = "health and metrics on ";
        String at = said().lines().filter(line -> line.startsWith(said)).findFirst().orElseThrow().substring(said.length());
        HttpRequest request = HttpRequest.newBuilder(URI.create(at + "/metrics")).timeout(Duration.ofSeconds(20)).build();
        try (HttpClient http = HttpClient.newHttpClient()) {
            return http.send(request, HttpResponse.BodyHandlers.ofString()).body().lines()
                    .filter(line -> line.startsWith(name + " ") || line.startsWith(name + "{"))
                    .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
                    .filter(value -> !Double.isNaN(value)).max().orElse(Double.NaN);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /// The end of what the service said.
    String tail() {
        try {
            List<String> lines = Files.readString(log, StandardCharsets.UTF_8).lines().toList();
            return lines.subList(Math.max(0, lines.size() - 60), lines.size()).stream().collect(Collectors.joining("\n"));
        } catch (IOException e) {
            return e.toString();
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}

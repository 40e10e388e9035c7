package millrace.streams.cli;

import java.io.PrintWriter;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import millrace.streams.ServiceConfig;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Serves the OpenAI interface until it is told to stop.
@Command(
        name = "gateway",
        mixinStandardHelpOptions = true,
        description = "Serves the OpenAI HTTP interface over the topics of a running service, until SIGTERM or Ctrl-C.",
        footer = {
            "",
            "Examples:",
            "  millrace gateway",
            "  millrace gateway --port 8000 --api-keys keys.txt -D kafka.bootstrap.servers=b1:9092 \\",
            "      -D schema.registry.url=http://registry:8081",
            "  curl -s http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\",
            "      -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is 81 plus 19?\"}]}'",
            "",
            "docs/gateway.md lists what a request may say. Plain HTTP: beyond one machine put a proxy with TLS before it.",
            "Exit codes: 0 stopped, 1 could not start, 2 wrong usage."
        })
final class GatewayCommand implements Callable<Integer> {
    @Option(names = "--host", paramLabel = "ADDRESS", description = "Address to bind (default: gateway.host, 127.0.0.1).")
    @Nullable String host;

    @Option(names = "--port", paramLabel = "PORT", description = "Port to bind, 0 for any (default: gateway.port, 8000).")
    @Nullable Integer port;

    @Option(names = "--api-keys", paramLabel = "FILE",
            description = "Lines of TENANT KEY, mode 0600 (default: gateway.api.keys.file; without one nobody is asked for a key).")
    @Nullable String keys;

    @Mixin
    ClientOptions client = new ClientOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    GatewayCommand() {}

    @Override
    public Integer call() throws Exception {
        PrintWriter err = spec.commandLine().getErr();
        Map<String, String> given = new HashMap<>();
        put(given, "gateway.host", host);
        put(given, "gateway.port", port == null ? null : port.toString());
        put(given, "gateway.api.keys.file", keys);
        ServiceConfig config = client.load().with(given);
        CountDownLatch stop = new CountDownLatch(1);
        CountDownLatch stopped = new CountDownLatch(1);
        try (Gateway gateway = Gateway.start(GatewayConfig.of(config))) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                stop.countDown();
                try {
                    stopped.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                // A signal is how it is told to stop.
                Runtime.getRuntime().halt(0);
            }, "stop"));
            err.println("gateway on http://" + config.string("gateway.host") + ":" + gateway.port() + "/v1");
            if (config.string("gateway.api.keys.file").isBlank()) {
                err.println("no API key is asked for");
            }
            err.flush();
            stop.await();
            err.println("stopping: no new requests are taken in");
            err.flush();
        } finally {
            stopped.countDown();
        }
        return 0;
    }

    private static void put(Map<String, String> given, String key, @Nullable String value) {
        if (value != null) {
            given.put(key, value);
        }
    }
}

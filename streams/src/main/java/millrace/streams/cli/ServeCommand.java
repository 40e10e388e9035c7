package millrace.streams.cli;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import millrace.engine.Engine;
import millrace.engine.TextEngine;
import millrace.streams.InferenceService;
import millrace.streams.ModelBundleCheck;
import millrace.streams.Models;
import millrace.streams.ServiceConfig;
import millrace.streams.StandIn;
import millrace.streams.embedded.EmbeddedCluster;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Runs the service until it is told to stop.
@Command(
        name = "serve",
        mixinStandardHelpOptions = true,
        description = "Serves prompts from a Kafka topic until SIGTERM or Ctrl-C.",
        footer = {
            "",
            "Examples:",
            "  millrace serve --embedded -D engine.model=glm-tiny",
            "  millrace serve --config service.properties",
            "  millrace serve -D kafka.bootstrap.servers=b1:9092,b2:9092 -D schema.registry.url=http://registry:8081 \\",
            "      -D engine.model=/models/GLM-4.5-Air -D engine.kv.bytes=8589934592",
            "  millrace serve --config service.properties -D engine.backend=cuda -D engine.cuda.device=1",
            "",
            "Any Kafka client property goes under kafka., for example -D kafka.security.protocol=SASL_SSL.",
            "Exit codes: 0 stopped, 1 could not start or had to stop, 2 wrong usage."
        })
final class ServeCommand implements Callable<Integer> {
    /// How long a service that has failed may take to stop in order.
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(90);

    @Option(names = "--embedded", description = "Brings a broker and a schema registry along, with data in embedded.dir.")
    boolean embedded;

    @Mixin
    ConfigOptions options = new ConfigOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    ServeCommand() {}

    @Override
    public Integer call() throws Exception {
        PrintWriter err = spec.commandLine().getErr();
        ServiceConfig config = options.load(Map.of());
        Consumer<String> story = LogFormat.apply(config, line -> say(err, line));
        StandIn.requireAllowed(config);
        CountDownLatch stopped = new CountDownLatch(1);
        Running running = new Running();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stopOnSignal(running, stopped), "shutdown"));
        try (EmbeddedCluster cluster = embedded ? start(config, story) : null) {
            ServiceConfig complete = cluster == null ? config : config.withDefaults(cluster.serviceConfig());
            if (!complete.isSet("kafka.bootstrap.servers") || !complete.isSet("schema.registry.url")) {
                throw new IllegalArgumentException("kafka.bootstrap.servers and schema.registry.url: expected both; set them in the"
                        + " config file or by -D, or give --embedded");
            }
            try (InferenceService service = InferenceService.start(
                    complete, ServeCommand::open, embedded, story, running::mustStop)) {
                running.started(service);
                Throwable fatal = service.run();
                if (fatal != null) {
                    story.accept("stopping: " + fatal.getMessage());
                    endForSure();
                    return 1;
                }
                story.accept("stopping: no new prompts are taken in");
            }
            story.accept("stopped");
            running.well();
            return 0;
        } finally {
            stopped.countDown();
        }
    }

    /// Whatever keeps the process from stopping in order, such as a kernel that never returns: it ends, so that whoever
    /// watches it starts another one. Whoever holds its partitions then resumes what is pending.
    private static void endForSure() {
        Thread.ofPlatform().daemon().name("last-resort").start(() -> {
            try {
                Thread.sleep(STOP_PATIENCE);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
            Runtime.getRuntime().halt(1);
        });
    }

    /// A signal is how a service is told to stop, so a stop that went well ends with 0 and not with the signal's number.
    private static void stopOnSignal(Running running, CountDownLatch stopped) {
        if (stopped.getCount() == 0) {
            return;
        }
        running.stop();
        try {
            stopped.await();
            if (running.ranWell()) {
                Runtime.getRuntime().halt(0);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void say(PrintWriter err, String line) {
        err.println(line);
        err.flush();
    }

    private static EmbeddedCluster start(ServiceConfig config, Consumer<String> story) {
        EmbeddedCluster cluster = EmbeddedCluster.start(
                Path.of(config.string("embedded.dir")), config.string("embedded.host"),
                config.integer("embedded.port"), config.integer("embedded.registry.port"));
        story.accept("embedded broker " + cluster.bootstrap() + ", schema registry " + cluster.registryUrl()
                + ", data in " + config.string("embedded.dir"));
        return cluster;
    }

    static TextEngine open(ServiceConfig config) {
        Path scratch = Path.of(config.string("state.dir"), "models");
        return Engine.open(
                config.engine(Models.directory(config.string("engine.model"), scratch)), ModelBundleCheck.of(config));
    }

    /// Hands a stop to the service, also one that comes before it has started.
    private static final class Running {
        private @Nullable InferenceService service;
        private boolean stop;
        private boolean well;

        synchronized void well() {
            well = true;
        }

        synchronized boolean ranWell() {
            return well;
        }

        synchronized void started(InferenceService started) {
            service = started;
            if (stop) {
                started.stop();
            }
        }

        synchronized boolean mustStop() {
            return stop;
        }

        synchronized void stop() {
            stop = true;
            if (service != null) {
                service.stop();
            }
        }
    }
}

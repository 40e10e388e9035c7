package millrace.streams.bench;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.Prompt;
import millrace.streams.InferenceService;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.DeltaListener;
import millrace.streams.client.MillraceClient;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;

/// From the moment that the engine has chosen a token to the listener of a client, and to the socket of a client of the gateway.
/// Broker, service, gateway and clients share one JVM.
public final class PreviewBench {
    private static final long PATIENCE_S = 300;

    /// @param first the first token of each prompt
    /// @param every the last token of each delta
    /// @param gatewayFirst the first token of each streamed answer of the gateway
    /// @param gatewayEvery the last token of each of its events
    public record Result(Spread first, Spread every, long deltas, long tokens, long lost, Spread gatewayFirst, Spread gatewayEvery) {}

    /// How long tokens took.
    private static final class Arrivals {
        private final Queue<Long> first = new ConcurrentLinkedQueue<>();
        private final Queue<Long> every = new ConcurrentLinkedQueue<>();
        private final AtomicLong lost = new AtomicLong();

        Spread firstSpread() {
            return spread(first);
        }

        Spread everySpread() {
            return spread(every);
        }

        private static Spread spread(Queue<Long> nanos) {
            return Spread.ofNanos(nanos.stream().mapToLong(Long::longValue).toArray());
        }
    }

    private final Duration step;
    private final int tokens;
    private final int concurrency;
    private final int prompts;
    private final Map<String, Long> chosenNanos = new ConcurrentHashMap<>();

    public PreviewBench(Duration step, int tokens, int concurrency, int prompts) {
        this.step = step;
        this.tokens = tokens;
        this.concurrency = concurrency;
        this.prompts = prompts;
    }

    public Result run(Map<String, String> overrides) throws Exception {
        // As in a process of its own; here the registry has the first server.
        Gateway.prepareProcess();
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = BenchCluster.settings(cluster, state);
            settings.put("gateway.port", "0");
            settings.put("gateway.dir", state.path().resolve("gateway").toString());
            settings.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new PacedEngine(step, Integer.MAX_VALUE, this::chosen), true, line -> {});
                    MillraceClient client = MillraceClient.open(ClientConfig.of(config));
                    Gateway gateway = Gateway.start(GatewayConfig.of(config))) {
                topics(client, "warm");
                gateway(gateway.port(), "warm");
                Arrivals topics = topics(client, "run");
                Arrivals streams = gateway(gateway.port(), "run");
                return new Result(topics.firstSpread(), topics.everySpread(), topics.every.size(), (long) prompts * tokens, topics.lost.get(),
                        streams.firstSpread(), streams.everySpread());
            }
        }
    }

    private void chosen(String word) {
        chosenNanos.put(word, System.nanoTime());
    }

    /// One streamed answer after the other on each of some sockets.
    private Arrivals gateway(int port, String prefix) throws IOException, InterruptedException {
        Arrivals arrivals = new Arrivals();
        List<Future<?>> streams = new ArrayList<>();
        // The clients' own threads never wait for one another.
        try (ExecutorService executor = Executors.newFixedThreadPool(concurrency)) {
            for (int i = 0; i < prompts; i++) {
                String name = prefix + i;
                String words = words(name + "-");
                streams.add(executor.submit(() -> {
                    boolean[] begun = {false};
                    SseReader.read(port, words, Duration.ofSeconds(PATIENCE_S), (text, at) -> {
                        long nanos = at - chosenNanos.get(text.substring(text.lastIndexOf(' ') + 1));
                        arrivals.every.add(nanos);
                        if (!begun[0]) {
                            begun[0] = true;
                            arrivals.first.add(nanos);
                        }
                    });
                    return null;
                }));
            }
            for (Future<?> stream : streams) {
                stream.get();
            }
        } catch (ExecutionException e) {
            throw new IOException("bench preview: a streamed answer of the gateway failed: " + e.getCause().getMessage(), e.getCause());
        }
        return arrivals;
    }

    /// As many words as an answer shall have tokens.
    private String words(String stem) {
        return IntStream.range(0, tokens).mapToObj(i -> stem + i).collect(Collectors.joining(" "));
    }

    private Arrivals topics(MillraceClient client, String prefix) throws InterruptedException {
        Arrivals arrivals = new Arrivals();
        Semaphore slots = new Semaphore(concurrency);
        CountDownLatch ended = new CountDownLatch(prompts);
        String words = words("word");
        for (int i = 0; i < prompts; i++) {
            slots.acquire();
            Prompt prompt = Prompt.newBuilder().setRequestId(prefix + "-" + i).setPrompt(words).build();
            client.send(prompt, new DeltaListener() {
                @Override
                public void onDelta(Delta delta) {
                    if (delta.getKind() == DeltaKind.CONTENT) {
                        Instant now = Instant.now();
                        long nanos = (now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000 - delta.getSampledUs()) * 1_000;
                        arrivals.every.add(nanos);
                        if (delta.getSeq() == 0) {
                            arrivals.first.add(nanos);
                        }
                    }
                }

                @Override
                public void onGap(long count) {
                    arrivals.lost.addAndGet(count);
                }
            }).completion().whenComplete((completion, problem) -> {
                slots.release();
                ended.countDown();
            });
        }
        if (!ended.await(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(ended.getCount() + " prompts were not answered within " + PATIENCE_S + " s");
        }
        return arrivals;
    }
}

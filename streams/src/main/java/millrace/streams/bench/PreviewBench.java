package millrace.streams.bench;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
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

/// From the moment that the engine has chosen a token to the listener of a client. Broker, service and client share one JVM.
public final class PreviewBench {
    private static final long PATIENCE_S = 300;

    /// @param first the first token of each prompt
    /// @param every the last token of each delta
    public record Result(Spread first, Spread every, long deltas, long tokens, long lost) {}

    private final Duration step;
    private final int tokens;
    private final int concurrency;
    private final int prompts;

    public PreviewBench(Duration step, int tokens, int concurrency, int prompts) {
        this.step = step;
        this.tokens = tokens;
        this.concurrency = concurrency;
        this.prompts = prompts;
    }

    public Result run(Map<String, String> overrides) throws InterruptedException {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = BenchCluster.settings(cluster, state);
            settings.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new PacedEngine(step), true, line -> {});
                    MillraceClient client = MillraceClient.open(ClientConfig.of(config))) {
                round(client, "warm");
                return round(client, "run");
            }
        }
    }

    private Result round(MillraceClient client, String prefix) throws InterruptedException {
        Queue<Long> first = new ConcurrentLinkedQueue<>();
        Queue<Long> every = new ConcurrentLinkedQueue<>();
        AtomicLong lost = new AtomicLong();
        Semaphore slots = new Semaphore(concurrency);
        CountDownLatch ended = new CountDownLatch(prompts);
        String words = IntStream.range(0, tokens).mapToObj(i -> "word" + i).collect(Collectors.joining(" "));
        for (int i = 0; i < prompts; i++) {
            slots.acquire();
            Prompt prompt = Prompt.newBuilder().setRequestId(prefix + "-" + i).setPrompt(words).build();
            client.send(prompt, new DeltaListener() {
                @Override
                public void onDelta(Delta delta) {
                    if (delta.getKind() == DeltaKind.CONTENT) {
                        Instant now = Instant.now();
                        long nanos = (now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000 - delta.getSampledUs()) * 1_000;
                        every.add(nanos);
                        if (delta.getSeq() == 0) {
                            first.add(nanos);
                        }
                    }
                }

                @Override
                public void onGap(long count) {
                    lost.addAndGet(count);
                }
            }).completion().whenComplete((completion, problem) -> {
                slots.release();
                ended.countDown();
            });
        }
        if (!ended.await(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(ended.getCount() + " prompts were not answered within " + PATIENCE_S + " s");
        }
        return new Result(spread(first), spread(every), every.size(), (long) prompts * tokens, lost.get());
    }

    private static Spread spread(Queue<Long> nanos) {
        return Spread.ofNanos(nanos.stream().mapToLong(Long::longValue).toArray());
    }
}

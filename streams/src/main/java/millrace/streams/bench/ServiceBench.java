package millrace.streams.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Consumer;
import millrace.schemas.Prompt;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/// What the service adds around the engine: decoding, validation, pending store, attestation, Merkle log, two sinks,
/// exactly once. Broker, service, producer and a `read_committed` consumer share one JVM, as in the demo.
public final class ServiceBench {
    /// @param direct producer to consumer without the service, at the same rate
    /// @param service producer to committed completion
    /// @param burstPerSecond prompts per second over a burst, from the first send to the last committed completion
    /// @param burstCpuMicros processor time of the whole JVM per prompt of the burst, broker and clients included
    public record Result(Spread direct, Spread service, double burstPerSecond, double burstCpuMicros, int burst) {}

    private final int ratePerSecond;
    private final int prompts;
    private final int burst;
    private final Consumer<String> progress;

    public ServiceBench(int ratePerSecond, int prompts, int burst, Consumer<String> progress) {
        this.ratePerSecond = ratePerSecond;
        this.prompts = prompts;
        this.burst = burst;
        this.progress = progress;
    }

    public Result run(Map<String, String> overrides) {
        try (ScratchDirectory state = ScratchDirectory.create("millrace-bench-");
                EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = BenchCluster.settings(cluster, state);
            settings.put("inflight.max", "2048");
            settings.put("topics.partitions", "4");
            settings.putAll(overrides);
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new NoOpEngine(), true, line -> {})) {
                return measure(config);
            }
        }
    }

    private Result measure(ServiceConfig config) {
        KafkaClients clients = new KafkaClients(config);
        String in = config.string("topics.prompts");
        String out = config.string("topics.completions");
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaProducer<byte[], byte[]> producer = clients.producer();
                ArrivalWatch input = new ArrivalWatch(clients, in);
                ArrivalWatch output = new ArrivalWatch(clients, out)) {
            AvroEncoder<Prompt> encoder =
                    AvroEncoder.open(registry, Prompt.class, in + "-value", AvroSerdeConfig.of(config.registry()));
            progress.accept("warm-up");
            steady(producer, encoder, in, input, output, "warm", 300, 200);
            flood(producer, encoder, in, output, "heat", burst);
            progress.accept(prompts + " prompts at " + ratePerSecond + "/s");
            Spread[] steady = steady(producer, encoder, in, input, output, "rate", prompts, ratePerSecond);
            progress.accept("burst of " + burst);
            long cpuNanos = cpuNanos();
            double perSecond = flood(producer, encoder, in, output, "burst", burst);
            return new Result(steady[0], steady[1], perSecond, (cpuNanos() - cpuNanos) / 1e3 / burst, burst);
        }
    }

    private static long cpuNanos() {
        return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime();
    }

    private static Spread[] steady(
            KafkaProducer<byte[], byte[]> producer, AvroEncoder<Prompt> encoder, String topic,
            ArrivalWatch input, ArrivalWatch output, String prefix, int count, int rate) {
        long[] sent = new long[count];
        input.expect(prefix, count);
        output.expect(prefix, count);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long due = start + i * 1_000_000_000L / rate;
            while (System.nanoTime() < due) {
                Thread.onSpinWait();
                if (due - System.nanoTime() > 2_000_000) {
                    java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
                }
            }
            sent[i] = System.nanoTime();
            producer.send(record(encoder, topic, prefix + "-" + i));
        }
        return new Spread[] {
            Spread.ofNanos(input.latencies(prefix, sent)), Spread.ofNanos(output.latencies(prefix, sent))
        };
    }

    private static double flood(
            KafkaProducer<byte[], byte[]> producer, AvroEncoder<Prompt> encoder, String topic, ArrivalWatch output, String prefix, int count) {
        output.expect(prefix, count);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            producer.send(record(encoder, topic, prefix + "-" + i));
        }
        long end = output.lastArrival(prefix);
        return count / ((end - start) / 1e9);
    }

    private static ProducerRecord<byte[], byte[]> record(AvroEncoder<Prompt> encoder, String topic, String id) {
        Prompt prompt = Prompt.newBuilder().setRequestId(id).setPrompt("What is the two-letter code for France? " + id).build();
        return new ProducerRecord<>(topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(prompt));
    }
}

package millrace.streams.drill;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.KafkaClients;
import millrace.streams.PromptKey;
import millrace.streams.ServiceConfig;
import millrace.streams.demo.Question;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// An outside client that sends numbered prompts at a steady rate, an open loop, and reads what is committed of them:
/// completions, leaves, dead letters. It outlives whatever a drill does to the cluster.
public final class DrillLoad implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DrillLoad.class);
    /// Longer than any fault of a drill: a record that was given up may be in the topic all the same, and nobody knows.
    private static final Duration DELIVERY = Duration.ofMinutes(20);
    /// After the last outcome that was missing: a second one that comes later is found, too.
    private static final Duration SETTLE = Duration.ofSeconds(2);
    private static final int QUESTIONS = 256;

    private final ServiceConfig config;
    private final DrillSettings settings;
    private final SchemaRegistryClient registry;
    private final KafkaProducer<byte[], byte[]> producer;
    private final AvroEncoder<Prompt> encoder;
    private final AvroDecoder<Completion> completions;
    private final AvroDecoder<AttestationRecord> leaves;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final DrillTally tally = new DrillTally();
    private final List<Question> questions = Question.of("glm-tiny", QUESTIONS);
    private final Thread sender = new Thread(this::send, "drill-send");
    private final Thread reader = new Thread(this::read, "drill-read");
    private volatile boolean sendingEnds;
    private volatile boolean readingEnds;

    private DrillLoad(ServiceConfig config, DrillSettings settings) {
        this.config = config;
        this.settings = settings;
        registry = SchemaRegistryClient.open(config.registry());
        AvroSerdeConfig serde = AvroSerdeConfig.of(config.registry());
        encoder = AvroEncoder.open(registry, Prompt.class, config.string("topics.prompts") + "-value", serde);
        completions = new AvroDecoder<>(registry, Completion.class);
        leaves = new AvroDecoder<>(registry, AttestationRecord.class);
        completions.warm(config.string("topics.completions") + "-value");
        leaves.warm(config.string("topics.audit") + "-value");
        Map<String, String> patient = new HashMap<>(Map.of(
                "kafka." + ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, Long.toString(DELIVERY.toMillis()),
                "kafka." + ProducerConfig.MAX_BLOCK_MS_CONFIG, Long.toString(DELIVERY.toMillis())));
        producer = new KafkaClients(config.with(patient)).producer();
        consumer = new KafkaClients(config).reader();
        List<TopicPartition> all = new ArrayList<>();
        for (String key : List.of("topics.completions", "topics.audit", "topics.dlq")) {
            consumer.partitionsFor(config.string(key)).forEach(p -> all.add(new TopicPartition(p.topic(), p.partition())));
        }
        consumer.assign(all);
        consumer.seekToEnd(all);
        // A seek is lazy: what is committed from now on is read.
        all.forEach(consumer::position);
    }

    /// Begins to send and to read. The topics exist.
    public static DrillLoad start(ServiceConfig config, DrillSettings settings) {
        DrillLoad load = new DrillLoad(config, settings);
        load.sender.start();
        load.reader.start();
        return load;
    }

    private void send() {
        long start = System.nanoTime();
        for (int number = 0; !sendingEnds; number++) {
            long due = start + (long) (number / settings.perSecond() * 1e9);
            while (System.nanoTime() < due && !sendingEnds) {
                LockSupport.parkNanos(Math.min(50_000_000L, due - System.nanoTime()));
            }
            if (sendingEnds) {
                return;
            }
            boolean poison = settings.poisonEvery() > 0 && number % settings.poisonEvery() == settings.poisonEvery() - 1;
            send(settings.run() + "-" + number, number, poison, due);
        }
    }

    private void send(String id, int number, boolean poison, long due) {
        byte[] key = id.getBytes(StandardCharsets.UTF_8);
        byte[] value = key;
        if (!poison) {
            Prompt prompt = prompt(id, number);
            key = PromptKey.of(prompt);
            value = encoder.encode(prompt);
        }
        tally.sends(id, poison, due);
        producer.send(new ProducerRecord<>(config.string("topics.prompts"), key, value), (at, failure) -> {
            if (failure == null) {
                tally.acknowledged(id, at.partition(), at.offset(), System.nanoTime());
            } else {
                LOG.warn("drill: {} was not sent: {}", id, failure.toString());
                tally.notSent(id);
            }
        });
    }

    private Prompt prompt(String id, int number) {
        Prompt prompt = questions.get(number % questions.size()).event(id);
        prompt.setReturnTokenIds(false);
        prompt.setSampling(Sampling.newBuilder().setMaxTokens(settings.maxTokens()).build());
        if (settings.sessions() > 0) {
            prompt.setSessionId(settings.run() + "-session-" + number % settings.sessions());
        }
        return prompt;
    }

    private void read() {
        while (!readingEnds) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                try {
                    take(record);
                } catch (DecodeException e) {
                    LOG.warn("drill: {}/{}@{}: {}", record.topic(), record.partition(), record.offset(), e.getMessage());
                }
            }
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record) {
        long now = System.nanoTime();
        if (record.topic().equals(config.string("topics.completions"))) {
            Completion completion = completions.decode(record.value());
            boolean failure = completion.getFinishReason() == FinishReason.failed || completion.getFinishReason() == FinishReason.rejected;
            tally.outcome(completion.getRequestId(), record.partition(), failure, now);
        } else if (record.topic().equals(config.string("topics.audit"))) {
            AttestationRecord leaf = leaves.decode(record.value());
            if (leaf.getInOffset() >= 0 && leaf.getInTopic().equals(config.string("topics.prompts"))) {
                tally.leaf(leaf.getInPartition(), leaf.getInOffset(), leaf.getInstanceId());
            }
        } else if (record.value() != null) {
            tally.outcome(new String(record.value(), StandardCharsets.UTF_8), record.partition(), false, now);
        }
    }

    /// Records that the cluster has acknowledged.
    public int sent() {
        return tally.count();
    }

    /// Records with an outcome.
    public int answered() {
        return tally.answers();
    }

    /// Records that the cluster did not take.
    public int refused() {
        return tally.refused();
    }

    /// What is known so far.
    public DrillReport soFar() {
        return tally.report(System.nanoTime());
    }

    /// Sends nothing more, waits for what is outstanding, and says what came of all of it.
    ///
    /// @param patience how long an outcome may take after the last prompt
    public DrillReport finish(Duration patience) throws InterruptedException {
        sendingEnds = true;
        sender.join();
        producer.flush();
        long until = System.nanoTime() + patience.toNanos();
        while (!tally.isComplete() && System.nanoTime() < until) {
            Thread.sleep(50);
        }
        Thread.sleep(SETTLE);
        return tally.report(System.nanoTime());
    }

    @Override
    public void close() {
        sendingEnds = true;
        readingEnds = true;
        try {
            // Not for ever: without brokers a send may wait for the length of its delivery.
            sender.join(2_000);
            reader.join(2_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        producer.close(Duration.ZERO);
        if (!reader.isAlive()) {
            consumer.close();
        }
        registry.close();
    }
}

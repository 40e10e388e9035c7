package millrace.streams.simulation;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import millrace.streams.TopologyParts;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsMetrics;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;

/// One partition's processors and stores, as Kafka Streams runs them.
final class Task {
    private static final long RETENTION_MS = Duration.ofDays(31).toMillis();

    /// What the task asks of the process that it runs in.
    interface Host {
        Broker broker();

        Broker.Transaction transaction();

        /// The wall clock's time.
        long nowMs();

        /// The time that timers go by, see SteadyTime.
        long steadyMs();

        Bug bug();

        /// Called before each record that is sent.
        ///
        /// @throws RuntimeException where sending fails
        void beforeSend();
    }

    private static final class Timer {
        final long intervalMs;
        final Punctuator action;
        long nextMs;

        Timer(long intervalMs, long nextMs, Punctuator action) {
            this.intervalMs = intervalMs;
            this.nextMs = nextMs;
            this.action = action;
        }
    }

    final int partition;
    final int generation;
    private final Host host;
    private final TopologyParts parts;
    private final Map<String, Processor<Object, Object, Object, Object>> processors = new TreeMap<>();
    private final Map<String, StateStore> stores = new HashMap<>();
    private final List<Timer> timers = new ArrayList<>();
    /// Changes that a bug holds back until the next transaction.
    private final List<Runnable> late = new ArrayList<>();
    private @Nullable RecordMetadata current;
    private boolean restarted;
    private int changes;
    long position;
    /// Of the orders.
    long orders;
    /// Of the cancellations.
    long cancels;
    boolean commitRequested;

    Task(Host host, TopologyParts parts, int partition, int generation) {
        this.host = host;
        this.parts = parts;
        this.partition = partition;
        this.generation = generation;
        parts.nodes().forEach(node -> processors.put(node.name(), node.supplier().get()));
    }

    /// Restores the stores to what is committed and initializes the processors; the same ones after [#close()].
    void open() {
        stores.clear();
        timers.clear();
        late.clear();
        commitRequested = false;
        position = host.broker().committedOffset(partition);
        orders = host.broker().committedOrders(partition);
        cancels = host.broker().committedCancels(partition);
        restarted = position > 0;
        for (TopologyParts.Store store : parts.stores()) {
            restore(store);
        }
        List<Processor<Object, Object, Object, Object>> open = new ArrayList<>();
        try {
            for (TopologyParts.Node node : parts.nodes()) {
                Processor<Object, Object, Object, Object> processor = processors.get(node.name());
                processor.init(new Context(node.name()));
                open.add(processor);
            }
        } catch (RuntimeException e) {
            open.forEach(Processor::close);
            throw e;
        }
    }

    private void restore(TopologyParts.Store store) {
        String name = store.name();
        List<Broker.Placed> changelog = host.broker().changelog(name, partition).committed();
        if (store.window()) {
            MapWindowStore window = new MapWindowStore(name, RETENTION_MS, (key, value) -> changed(name, key, value));
            changelog.forEach(change -> window.restore(change.entry().key(), change.entry().value()));
            stores.put(name, window);
        } else {
            MapStore map = new MapStore(name, (key, value) -> changed(name, key, value));
            changelog.forEach(change -> map.restore(change.entry().key(), change.entry().value()));
            stores.put(name, map);
        }
    }

    private void changed(String store, Bytes key, byte @Nullable [] value) {
        Bug bug = host.bug();
        boolean lost = bug == Bug.KEEPS_PROMPTS_IN_MEMORY && store.equals("pending")
                || bug == Bug.FORGETS_WHAT_WAS_SEEN && store.equals("seen")
                || bug == Bug.FORGETS_CANCELLATIONS && store.equals("cancelled")
                || bug == Bug.FORGETS_WHO_WROTE && store.equals("tlog") && key.get()[0] == 4
                || bug == Bug.SKIPS_SAVING_THE_LOG && store.equals("tlog") && ++changes % 3 == 0;
        if (lost) {
            return;
        }
        if (bug == Bug.DELETES_PENDING_LATE && store.equals("pending") && value == null) {
            late.add(() -> log(store, key, null));
            return;
        }
        log(store, key, value);
    }

    private void log(String store, Bytes key, byte @Nullable [] value) {
        host.broker().changelog(store, partition).append(new Broker.Entry(key.get(), value, null, host.nowMs(), host.transaction()));
    }

    void process(Broker.Placed record) {
        Broker.Entry entry = record.entry();
        current = new Metadata(TopologyParts.PROMPTS, partition, record.offset());
        position = record.offset() + 1;
        if (host.bug() == Bug.LOGS_PROMPTS && entry.value() != null) {
            LoggerFactory.getLogger(LogCapture.LOGGER).debug("read {}", new String(entry.value(), StandardCharsets.ISO_8859_1));
        }
        hand(parts.source(), entry, new RecordHeaders(entry.headers()));
    }

    void order(Broker.Placed record) {
        current = new Metadata(TopologyParts.CONTROL, partition, record.offset());
        orders = record.offset() + 1;
        hand(parts.ordersSource(), record.entry(), new RecordHeaders());
    }

    void cancel(Broker.Placed record) {
        current = new Metadata(TopologyParts.CANCELS, partition, record.offset());
        cancels = record.offset() + 1;
        hand(parts.cancelsSource(), record.entry(), new RecordHeaders());
    }

    private void hand(String source, Broker.Entry entry, RecordHeaders headers) {
        Record<Object, Object> input = new Record<>(entry.key(), entry.value(), entry.timestampMs(), headers);
        parts.nodes().stream().filter(node -> node.parents().contains(source))
                .forEach(node -> processors.get(node.name()).process(input));
        current = null;
    }

    /// Calls whoever wants to be called at this time.
    void punctuate() {
        long now = host.steadyMs();
        for (Timer timer : List.copyOf(timers)) {
            if (timer.nextMs <= now) {
                long missed = (now - timer.nextMs) / timer.intervalMs;
                timer.nextMs += (missed + 1) * timer.intervalMs;
                timer.action.punctuate(now);
            }
        }
    }

    /// After a commit.
    void committed() {
        commitRequested = false;
        late.forEach(Runnable::run);
        late.clear();
    }

    void close() {
        processors.values().forEach(Processor::close);
    }

    int pending() {
        return stores.get("pending") instanceof MapStore pending ? pending.size() : 0;
    }

    private record Metadata(String topic, int partition, long offset) implements RecordMetadata {}

    private void send(TopologyParts.Sink sink, Record<?, ?> record) {
        Bug bug = host.bug();
        host.beforeSend();
        Set<Integer> to = sink.partitioner().partitions(
                sink.topic(), record.key(), record.value(), record.headers(), Broker.PARTITIONS).orElseThrow();
        byte[] key = sink.key().serialize(sink.topic(), record.key());
        byte[] value = sink.value().serialize(sink.topic(), record.value());
        boolean audit = sink.topic().equals(TopologyParts.AUDIT);
        if (bug == Bug.LOSES_A_LEAF && audit && ++changes % 5 == 0) {
            return;
        }
        boolean outside = bug == Bug.AUDITS_OUTSIDE_THE_TRANSACTION && audit
                || bug == Bug.SIGNS_TOO_EARLY && sink.topic().equals(TopologyParts.CHECKPOINTS);
        for (int partition : to) {
            host.broker().log(sink.topic(), partition).append(new Broker.Entry(
                    key, value, record.headers(), record.timestamp(), outside ? null : host.transaction()));
        }
    }

    /// One processor's view of the task.
    private final class Context implements ProcessorContext<Object, Object> {
        private final String node;

        Context(String node) {
            this.node = node;
        }

        @Override
        public <K, V> void forward(Record<K, V> record) {
            int times = host.bug() == Bug.HANDS_ON_TWICE_AFTER_RESTART && restarted && node.equals("inference") ? 2 : 1;
            restarted &= times == 1;
            for (int i = 0; i < times; i++) {
                parts.nodes().stream().filter(child -> child.parents().contains(node)).forEach(child -> to(child, record));
                parts.sinks().stream().filter(sink -> sink.parents().contains(node)).forEach(sink -> send(sink, record));
            }
        }

        @SuppressWarnings("unchecked")
        private void to(TopologyParts.Node child, Record<?, ?> record) {
            processors.get(child.name()).process((Record<Object, Object>) record);
        }

        @Override
        public <K, V> void forward(Record<K, V> record, String child) {
            parts.nodes().stream().filter(n -> n.name().equals(child)).forEach(n -> to(n, record));
            parts.sinks().stream().filter(sink -> sink.name().equals(child)).forEach(sink -> send(sink, record));
        }

        @Override
        public TaskId taskId() {
            return new TaskId(0, partition);
        }

        @Override
        public Optional<RecordMetadata> recordMetadata() {
            return Optional.ofNullable(current);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <S extends StateStore> S getStateStore(String name) {
            return (S) stores.get(name);
        }

        @Override
        public Cancellable schedule(Duration interval, PunctuationType type, Punctuator callback) {
            Timer timer = new Timer(interval.toMillis(), host.steadyMs() + interval.toMillis(), callback);
            timers.add(timer);
            return () -> timers.remove(timer);
        }

        @Override
        public Cancellable schedule(Instant start, Duration interval, PunctuationType type, Punctuator callback) {
            return schedule(interval, type, callback);
        }

        @Override
        public void commit() {
            commitRequested = true;
        }

        @Override
        public long currentSystemTimeMs() {
            return host.steadyMs();
        }

        @Override
        public long currentStreamTimeMs() {
            return host.nowMs();
        }

        @Override
        public String applicationId() {
            return "simulation";
        }

        @Override
        public Serde<?> keySerde() {
            throw new UnsupportedOperationException("every node names its own");
        }

        @Override
        public Serde<?> valueSerde() {
            throw new UnsupportedOperationException("every node names its own");
        }

        @Override
        public File stateDir() {
            throw new UnsupportedOperationException("stores are in memory");
        }

        @Override
        public StreamsMetrics metrics() {
            throw new UnsupportedOperationException("the service has its own");
        }

        @Override
        public Map<String, Object> appConfigs() {
            return Map.of();
        }

        @Override
        public Map<String, Object> appConfigsWithPrefix(String prefix) {
            return Map.of();
        }
    }
}

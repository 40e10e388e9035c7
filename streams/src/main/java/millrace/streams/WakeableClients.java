package millrace.streams;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.internals.AsyncKafkaConsumer;
import org.apache.kafka.clients.consumer.internals.StreamsRebalanceData;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.apache.kafka.streams.internals.ConsumerWrapper;
import org.jspecify.annotations.Nullable;

/// Kafka clients for Streams whose main consumer can be woken by a finished result and held back by a full engine.
///
/// Streams sleeps in `poll` for up to 100 ms. A result that is finished meanwhile would wait for it: `Poll.signal`
/// ends the poll early. And `process` cannot refuse a record: `Poll.hold` pauses the partitions that Streams itself
/// has not paused, so that a backlog stays in Kafka.
///
/// What a signal announces is taken by a timer of Streams, and timers fire at most once a [#TICK]. A signal that comes within a
/// tick of their last round finds them not yet due, so polls stay short until they are.
final class WakeableClients implements KafkaClientSupplier {
    /// How often timers that are due in every round may fire: Streams counts milliseconds.
    static final Duration TICK = Duration.ofMillis(1);

    private final Map<String, Poll> byThread = new ConcurrentHashMap<>();
    private final Set<String> neverHeld;
    private volatile boolean stopping;

    WakeableClients() {
        this(Set.of());
    }

    /// @param neverHeld topics that a full engine does not hold back
    WakeableClients(Set<String> neverHeld) {
        this.neverHeld = Set.copyOf(neverHeld);
    }

    /// The poll of the calling stream thread; on any other thread (topology tests) one that wakes and pauses nobody.
    Poll ofCurrentThread() {
        return byThread.computeIfAbsent(Thread.currentThread().getName(), name -> new Poll(null, neverHeld));
    }

    /// Holds back every thread's partitions for good: nothing more is taken in. For a draining stop.
    void holdAll() {
        stopping = true;
        byThread.values().forEach(poll -> {
            poll.stopping = true;
            poll.signal();
        });
    }

    /// Whether nothing more is to be begun. Any thread.
    boolean stopping() {
        return stopping;
    }

    /// One main consumer's `poll`, as seen by the processors of its thread and by the engine.
    static final class Poll {
        private final @Nullable Consumer<byte[], byte[]> consumer;
        private final Set<String> neverHeld;
        private final Object lock = new Object();
        private final Set<TopicPartition> held = new HashSet<>();
        private final Set<TopicPartition> pausedByStreams = new HashSet<>();
        private boolean inPoll;
        private boolean signalled;
        private boolean woken;
        /// When a round of timers can take what the last signal announced, by `System.nanoTime()`. Stream thread.
        private long timersDueNanos;
        private boolean timersOwed;
        private final Set<Object> holders = new HashSet<>();
        private volatile boolean stopping;
        private volatile long deadlineNanos;

        private Poll(@Nullable Consumer<byte[], byte[]> consumer, Set<String> neverHeld) {
            this.consumer = consumer;
            this.neverHeld = neverHeld;
        }

        /// Ends the running or the next poll early. Any thread.
        void signal() {
            synchronized (lock) {
                signalled = true;
                if (inPoll && !woken && consumer != null) {
                    woken = true;
                    consumer.wakeup();
                }
            }
        }

        /// Whether `holder` wants partitions to be held back from the next poll on: they are while anyone does. Stream
        /// thread.
        void hold(Object holder, boolean value) {
            if (value) {
                holders.add(holder);
            } else {
                holders.remove(holder);
            }
        }

        /// Whether anybody wants partitions to be held back. Stream thread.
        boolean holds() {
            return stopping || !holders.isEmpty();
        }

        /// The next poll returns at this time of `System.nanoTime()` at the latest; 0 for no limit. Stream thread.
        void deadline(long nanos) {
            deadlineNanos = nanos;
        }

        private ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> consumer, Duration timeout) {
            Duration wait = timeout;
            long began = System.nanoTime();
            long deadline = deadlineNanos;
            if (deadline != 0) {
                long left = Math.max(0, deadline - began);
                wait = left < wait.toNanos() ? Duration.ofNanos(left) : wait;
            }
            holdOrResume(consumer);
            synchronized (lock) {
                if (signalled) {
                    wait = Duration.ZERO;
                    owe(began);
                } else if (timersOwed) {
                    wait = wait.compareTo(TICK) < 0 ? wait : TICK;
                }
                signalled = false;
                inPoll = true;
            }
            ConsumerRecords<byte[], byte[]> records = ConsumerRecords.empty();
            boolean interrupted = false;
            try {
                records = consumer.poll(wait);
            } catch (WakeupException e) {
                interrupted = true;
            }
            boolean wakeupLeft;
            synchronized (lock) {
                inPoll = false;
                if (signalled) {
                    owe(began);
                }
                signalled = false;
                wakeupLeft = woken && !interrupted;
                woken = false;
            }
            timersOwed &= System.nanoTime() - timersDueNanos < 0;
            return wakeupLeft ? merge(records, swallowWakeup(consumer)) : records;
        }

        /// The last round of timers came before this poll began, so a tick after that all are due again.
        private void owe(long pollBeganNanos) {
            timersOwed = true;
            timersDueNanos = pollBeganNanos + TICK.toNanos();
        }

        /// A wake-up that came after poll had its records would hit the next commit; it is taken out here.
        private static ConsumerRecords<byte[], byte[]> swallowWakeup(Consumer<byte[], byte[]> consumer) {
            try {
                return consumer.poll(Duration.ZERO);
            } catch (WakeupException e) {
                return ConsumerRecords.empty();
            }
        }

        private static ConsumerRecords<byte[], byte[]> merge(
                ConsumerRecords<byte[], byte[]> first, ConsumerRecords<byte[], byte[]> second) {
            if (second.isEmpty()) {
                return first;
            }
            Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> all = new java.util.HashMap<>();
            for (ConsumerRecords<byte[], byte[]> part : List.of(first, second)) {
                for (TopicPartition partition : part.partitions()) {
                    all.computeIfAbsent(partition, p -> new ArrayList<>()).addAll(part.records(partition));
                }
            }
            Map<TopicPartition, org.apache.kafka.clients.consumer.OffsetAndMetadata> next =
                    new java.util.HashMap<>(first.nextOffsets());
            next.putAll(second.nextOffsets());
            return new ConsumerRecords<>(all, next);
        }

        private void holdOrResume(Consumer<byte[], byte[]> consumer) {
            // A partition that was taken away and given back is no longer paused.
            pausedByStreams.retainAll(consumer.paused());
            if (holds()) {
                Set<TopicPartition> more = new HashSet<>(consumer.assignment());
                more.removeAll(consumer.paused());
                more.removeIf(partition -> neverHeld.contains(partition.topic()));
                if (!more.isEmpty()) {
                    consumer.pause(more);
                    held.addAll(more);
                }
            } else if (!held.isEmpty()) {
                Set<TopicPartition> again = new HashSet<>(held);
                again.retainAll(consumer.assignment());
                again.removeAll(pausedByStreams);
                consumer.resume(again);
                held.clear();
            }
        }

        private void streamsPauses(Collection<TopicPartition> partitions) {
            pausedByStreams.addAll(partitions);
        }

        /// What Streams may really resume now: not what is held back.
        private Collection<TopicPartition> streamsResumes(Collection<TopicPartition> partitions) {
            pausedByStreams.removeAll(partitions);
            if (!holds()) {
                return partitions;
            }
            Set<TopicPartition> free = new HashSet<>(partitions);
            free.removeIf(partition -> !neverHeld.contains(partition.topic()));
            partitions.stream().filter(partition -> !free.contains(partition)).forEach(held::add);
            return free;
        }
    }

    @Override
    public Admin getAdmin(Map<String, Object> config) {
        return Admin.create(config);
    }

    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> config) {
        return getRestoreConsumer(config);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
        return wrap(
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer()),
                String.valueOf(config.get("client.id")));
    }

    /// @param clientId the stream thread's name and `-consumer`
    Consumer<byte[], byte[]> wrap(Consumer<byte[], byte[]> consumer, String clientId) {
        return proxy(consumer, register(consumer, clientId));
    }

    private Poll register(Consumer<byte[], byte[]> consumer, String clientId) {
        Poll poll = new Poll(consumer, neverHeld);
        byThread.put(clientId.substring(0, clientId.length() - "-consumer".length()), poll);
        return poll;
    }

    /// The same around the consumer of the streams protocol, which Kafka Streams makes itself: the hook that it has for
    /// its own tests puts this one around it. See docs/adr/0045.
    public static final class Wrapper extends ConsumerWrapper {
        /// Configuration key under which the consumer's properties hold the [WakeableClients].
        static final String CLIENTS = "millrace.wakeable.clients";

        private @Nullable Poll poll;

        /// Streams makes it by reflection.
        public Wrapper() {}

        @Override
        public void wrapConsumer(
                AsyncKafkaConsumer<byte[], byte[]> consumer, Map<String, Object> config, Optional<StreamsRebalanceData> data) {
            super.wrapConsumer(consumer, config, data);
            WakeableClients clients = (WakeableClients) Objects.requireNonNull(config.get(CLIENTS), CLIENTS);
            poll = clients.register(consumer, String.valueOf(config.get("client.id")));
        }

        private Poll around() {
            return Objects.requireNonNull(poll, "Streams wraps a consumer before it uses it");
        }

        @Override
        public ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
            return around().poll(delegate, timeout);
        }

        @Override
        public void pause(Collection<TopicPartition> partitions) {
            around().streamsPauses(partitions);
            super.pause(partitions);
        }

        @Override
        public void resume(Collection<TopicPartition> partitions) {
            super.resume(around().streamsResumes(partitions));
        }
    }

    /// A proxy, since `Consumer` has some fifty methods of which three matter here.
    @SuppressWarnings("unchecked")
    private static Consumer<byte[], byte[]> proxy(Consumer<byte[], byte[]> consumer, Poll poll) {
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(
                WakeableClients.class.getClassLoader(), new Class<?>[] {Consumer.class}, (self, method, arguments) -> {
                    Object[] passed = arguments;
                    switch (method.getName()) {
                        case "poll" -> {
                            return poll.poll(consumer, (Duration) arguments[0]);
                        }
                        case "pause" -> poll.streamsPauses((Collection<TopicPartition>) arguments[0]);
                        case "resume" -> passed = new Object[] {
                            poll.streamsResumes((Collection<TopicPartition>) arguments[0])
                        };
                        default -> {}
                    }
                    try {
                        return method.invoke(consumer, passed);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }
}

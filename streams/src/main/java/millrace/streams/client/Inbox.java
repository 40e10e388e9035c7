package millrace.streams.client;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.RegistryException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.WakeupException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The reading half of a client: one thread that reads committed completions, and deltas once somebody wants them, and hands each
/// to the request that waits for it.
///
/// Nothing of others is decoded: a record's key says whether it can be for anybody here. A record that cannot be read is passed
/// over; one whose schema the registry does not give at the moment is kept and tried again.
final class Inbox implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Inbox.class);
    private static final Duration POLL = Duration.ofMillis(500);
    private static final Duration TOPIC_PATIENCE = Duration.ofSeconds(5);
    private static final long MAX_BACKOFF_MS = 5_000;
    private static final long DELTAS_RETRY_NANOS = 30_000_000_000L;
    private static final int MOST_UNREAD = 10_000;

    private final Consumer<byte[], byte[]> consumer;
    private final AvroDecoder<Completion> completions;
    private final AvroDecoder<Delta> deltas;
    private final String completionsTopic;
    private final String deltasTopic;
    private final Map<Request.Name, Request> waiting = new ConcurrentHashMap<>();
    private final Map<ByteBuffer, Integer> keys = new ConcurrentHashMap<>();
    /// Numbers of the partitions that are read.
    private final Set<Integer> partitions = ConcurrentHashMap.newKeySet();
    private final Queue<Runnable> errands = new ConcurrentLinkedQueue<>();
    /// What needs a schema that the registry is being asked for.
    private final ArrayDeque<ConsumerRecord<byte[], byte[]>> unread = new ArrayDeque<>();
    private final Set<Integer> asking = ConcurrentHashMap.newKeySet();
    private final Set<Integer> answered = ConcurrentHashMap.newKeySet();
    private final Thread thread = Thread.ofPlatform().name("millrace-client").daemon().unstarted(this::run);
    private volatile boolean readsDeltas;
    private volatile long deltasTriedNanos = System.nanoTime() - DELTAS_RETRY_NANOS;
    private volatile String trouble = "";
    private volatile boolean closing;
    private long backoffMs;

    Inbox(
            Consumer<byte[], byte[]> consumer,
            AvroDecoder<Completion> completions,
            AvroDecoder<Delta> deltas,
            String completionsTopic,
            String deltasTopic) {
        this.consumer = consumer;
        this.completions = completions;
        this.deltas = deltas;
        this.completionsTopic = completionsTopic;
        this.deltasTopic = deltasTopic;
    }

    /// Takes the place from which completions are read, which is now, and begins to read.
    ///
    /// @throws ClientException `CLIENT_OPEN` when the topic is not there
    void start(Duration patience) {
        List<TopicPartition> all = partitionsOf(completionsTopic, patience);
        if (all.isEmpty()) {
            throw new ClientException("CLIENT_OPEN", "topic " + completionsTopic + ": expected one that exists, got none within "
                    + patience + "; is the service running on this cluster?", null);
        }
        readFromNow(all, patience);
        all.forEach(partition -> partitions.add(partition.partition()));
        thread.start();
    }

    private List<TopicPartition> partitionsOf(String topic, Duration patience) {
        List<PartitionInfo> infos = consumer.partitionsFor(topic, patience);
        return infos == null ? List.of() : infos.stream().map(info -> new TopicPartition(topic, info.partition())).toList();
    }

    private void readFromNow(List<TopicPartition> more, Duration patience) {
        Set<TopicPartition> all = new HashSet<>(consumer.assignment());
        all.addAll(more);
        consumer.assign(all);
        consumer.seekToEnd(more);
        // A seek is lazy: without this the place would be taken after the prompt was sent.
        more.forEach(partition -> consumer.position(partition, patience));
    }

    /// @return false when a request of this name waits already
    boolean expect(Request request) {
        keys.merge(request.keyBuffer(), 1, Integer::sum);
        if (waiting.putIfAbsent(request.name(), request) == null) {
            return true;
        }
        forgetKey(request);
        return false;
    }

    void forget(Request request) {
        if (waiting.remove(request.name(), request)) {
            forgetKey(request);
        }
    }

    private void forgetKey(Request request) {
        keys.computeIfPresent(request.keyBuffer(), (key, count) -> count == 1 ? null : count - 1);
    }

    int size() {
        return waiting.size();
    }

    /// What went wrong last while reading, empty when nothing does.
    String trouble() {
        return trouble;
    }

    /// A prompt went to this partition: its answer comes to the same one.
    void sentTo(int partition) {
        if (partitions.add(partition)) {
            // A partition that was added later: all that is in it came after this client began.
            errand(() -> readFromBeginning(partition));
        }
    }

    private void readFromBeginning(int partition) {
        List<TopicPartition> more = new ArrayList<>(List.of(new TopicPartition(completionsTopic, partition)));
        if (readsDeltas) {
            more.add(new TopicPartition(deltasTopic, partition));
        }
        more.removeAll(consumer.assignment());
        Set<TopicPartition> all = new HashSet<>(consumer.assignment());
        all.addAll(more);
        consumer.assign(all);
        consumer.seekToBeginning(more);
    }

    /// Makes sure that deltas are read from now on, if they can be: a client without them still gets its completions.
    synchronized void wantDeltas() {
        if (readsDeltas || System.nanoTime() - deltasTriedNanos < DELTAS_RETRY_NANOS) {
            return;
        }
        CompletableFuture<Void> done = new CompletableFuture<>();
        errand(() -> {
            try {
                beginDeltas();
                done.complete(null);
            } catch (WakeupException e) {
                throw e;
            } catch (RuntimeException e) {
                done.completeExceptionally(e);
            }
        });
        try {
            done.get(TOPIC_PATIENCE.toMillis() * 2, TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException e) {
            LOG.warn("previews are not read: topic {}: {}", deltasTopic, String.valueOf(e.getCause() == null ? e : e.getCause()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void beginDeltas() {
        if (readsDeltas) {
            return;
        }
        deltasTriedNanos = System.nanoTime();
        List<TopicPartition> all = partitionsOf(deltasTopic, TOPIC_PATIENCE);
        if (all.isEmpty()) {
            throw new KafkaException("it does not exist");
        }
        try {
            readFromNow(all, TOPIC_PATIENCE);
            readsDeltas = true;
        } finally {
            if (!readsDeltas) {
                endDeltas();
            }
        }
    }

    private void endDeltas() {
        readsDeltas = false;
        Set<TopicPartition> all = new HashSet<>(consumer.assignment());
        all.removeIf(partition -> partition.topic().equals(deltasTopic));
        consumer.assign(all);
    }

    private void errand(Runnable errand) {
        errands.add(errand);
        consumer.wakeup();
    }

    private void run() {
        try {
            while (!closing) {
                turn();
            }
        } catch (InterruptException e) {
            LOG.debug("the reading thread was interrupted");
        } catch (RuntimeException | Error e) {
            LOG.error("the client stopped reading", e);
            trouble = "the client stopped reading: " + e;
        } finally {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(2)));
        }
    }

    private void turn() {
        try {
            runErrands();
            retryUnread();
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(unread.isEmpty() ? POLL : Duration.ofMillis(100))) {
                take(record, false);
            }
            trouble = "";
            backoffMs = 0;
        } catch (WakeupException e) {
            // There is an errand, or the end.
        } catch (InterruptException e) {
            throw e;
        } catch (TopicAuthorizationException e) {
            if (e.unauthorizedTopics().contains(deltasTopic)) {
                endDeltas();
                LOG.warn("previews are not read: {}", e.getMessage());
            } else {
                pauseAfter(e);
            }
        } catch (KafkaException e) {
            pauseAfter(e);
        }
    }

    /// Requests keep waiting: a cluster that comes back answers them.
    private void pauseAfter(KafkaException e) {
        trouble = e.toString();
        backoffMs = Math.min(MAX_BACKOFF_MS, backoffMs == 0 ? 100 : backoffMs * 2);
        LOG.warn("reading failed, trying again in {} ms: {}", backoffMs, e.toString());
        try {
            Thread.sleep(backoffMs);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new InterruptException(interrupted);
        }
    }

    private void runErrands() {
        for (Runnable next = errands.peek(); next != null; next = errands.peek()) {
            // A wake-up may end it early; then it is still there and runs again.
            next.run();
            errands.remove();
        }
    }

    private void retryUnread() {
        for (int i = unread.size(); i > 0; i--) {
            take(unread.remove(), true);
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record, boolean again) {
        byte[] key = record.key();
        if (key == null || !keys.containsKey(ByteBuffer.wrap(key))) {
            return;
        }
        boolean preview = record.topic().equals(deltasTopic);
        AvroDecoder<?> decoder = preview ? deltas : completions;
        OptionalInt unknown = decoder.unknownId(record.value());
        // Deltas stay in order: behind one that waits, all wait.
        boolean behind = preview && !again && !unread.isEmpty();
        if (behind || unknown.isPresent() && !answered.contains(unknown.getAsInt())) {
            unknown.ifPresent(id -> ask(decoder, id));
            if (unread.size() < MOST_UNREAD) {
                unread.add(record);
            }
            return;
        }
        try {
            if (preview) {
                preview(deltas.decode(record.value()));
            } else {
                complete(completions.decode(record.value()));
            }
        } catch (DecodeException | RegistryException e) {
            LOG.debug("{}/{}/{}: {}", record.topic(), record.partition(), record.offset(), e.getMessage());
        }
    }

    /// Asks the registry on a thread of its own: reading goes on meanwhile.
    private void ask(AvroDecoder<?> decoder, int id) {
        if (asking.add(id)) {
            Thread.ofVirtual().name("millrace-client-schema").start(() -> {
                try {
                    decoder.fetch(id);
                    answered.add(id);
                } catch (RegistryException e) {
                    trouble = e.getMessage();
                } finally {
                    asking.remove(id);
                }
            });
        }
    }

    private void complete(Completion answer) {
        Request request = waiting.get(new Request.Name(answer.getTenant(), answer.getRequestId()));
        if (request != null) {
            forget(request);
            request.complete(answer);
        }
    }

    private void preview(Delta delta) {
        Request request = waiting.get(new Request.Name(delta.getTenant(), delta.getRequestId()));
        if (request != null) {
            request.preview(delta);
        }
    }

    /// Gives up everybody who waits.
    void failAll(ClientException why) {
        for (Request request : List.copyOf(waiting.values())) {
            forget(request);
            request.fail(why);
        }
    }

    @Nullable Request waiting(Request.Name name) {
        return waiting.get(name);
    }

    @Override
    public void close() {
        closing = true;
        consumer.wakeup();
        if (!thread.isAlive()) {
            if (thread.getState() == Thread.State.NEW) {
                consumer.close();
            }
            return;
        }
        try {
            thread.join(Duration.ofSeconds(10));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

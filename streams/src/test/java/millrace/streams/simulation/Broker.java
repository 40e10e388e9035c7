package millrace.streams.simulation;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import millrace.integrity.Digest;
import org.apache.kafka.common.header.Headers;
import org.jspecify.annotations.Nullable;

/// A broker in memory: logs, transactions, committed offsets, and who owns which partition.
///
/// What is appended in a transaction is in the log at once, and a `read_committed` reader sees it, in its place, once the
/// transaction is committed; it never reads past an open one. An owner is known by its generation: a commit that brings
/// an old one is refused, which is how exactly-once fences a process that was thought dead.
final class Broker {
    static final int PARTITIONS = 3;

    enum State {
        OPEN,
        COMMITTED,
        ABORTED
    }

    /// One transaction of one process.
    static final class Transaction {
        final String owner;
        State state = State.OPEN;
        /// When it was committed, in nanoseconds of the time that passes.
        long committedAtNanos;
        private final Map<Integer, Long> offsets = new HashMap<>();
        private final Map<Integer, Long> orders = new HashMap<>();
        private final Map<Integer, Long> cancels = new HashMap<>();
        private final Set<Log> logs = new LinkedHashSet<>();

        Transaction(String owner) {
            this.owner = owner;
        }

        /// Says that everything before `next` of this partition of the prompts was consumed.
        void consumed(int partition, long next) {
            offsets.put(partition, next);
        }

        /// The same of the orders.
        void ordersConsumed(int partition, long next) {
            orders.put(partition, next);
        }

        /// The same of the cancellations.
        void cancelsConsumed(int partition, long next) {
            cancels.put(partition, next);
        }
    }

    /// @param transaction null where it was appended without one
    record Entry(
            byte @Nullable [] key, byte @Nullable [] value, @Nullable Headers headers, long timestampMs,
            @Nullable Transaction transaction) {
        boolean isOpen() {
            return transaction != null && transaction.state == State.OPEN;
        }

        boolean isCommitted() {
            return transaction == null || transaction.state == State.COMMITTED;
        }
    }

    /// An entry with its offset.
    record Placed(long offset, Entry entry) {}

    /// One partition of a topic.
    static final class Log {
        final List<Entry> entries = new ArrayList<>();

        void append(Entry entry) {
            entries.add(entry);
            if (entry.transaction != null) {
                entry.transaction.logs.add(this);
            }
        }

        /// What a `read_committed` reader sees.
        List<Placed> committed() {
            List<Placed> seen = new ArrayList<>();
            for (int offset = 0; offset < entries.size(); offset++) {
                Entry entry = entries.get(offset);
                if (entry.isOpen()) {
                    break;
                }
                if (entry.isCommitted()) {
                    seen.add(new Placed(offset, entry));
                }
            }
            return seen;
        }

        /// What is committed, behind open transactions too: what a reader will have seen once they end.
        List<Placed> settled() {
            List<Placed> seen = new ArrayList<>();
            for (int offset = 0; offset < entries.size(); offset++) {
                if (entries.get(offset).isCommitted()) {
                    seen.add(new Placed(offset, entries.get(offset)));
                }
            }
            return seen;
        }

        boolean hasOpen() {
            return entries.stream().anyMatch(Entry::isOpen);
        }
    }

    private final Map<String, Log> logs = new TreeMap<>();
    private final long[] committedOffsets = new long[PARTITIONS];
    private final long[] committedOrders = new long[PARTITIONS];
    private final long[] committedCancels = new long[PARTITIONS];
    private final int[] generations = new int[PARTITIONS];

    Log log(String topic, int partition) {
        return logs.computeIfAbsent(topic + "/" + partition, name -> new Log());
    }

    Log changelog(String store, int partition) {
        return log("changelog-" + store, partition);
    }

    /// Whether a transaction is open that wrote to a changelog of this partition: a restore waits for its end.
    boolean isUnsettled(int partition) {
        return logs.entrySet().stream()
                .anyMatch(e -> e.getKey().startsWith("changelog-") && e.getKey().endsWith("/" + partition) && e.getValue().hasOpen());
    }

    /// Gives the partition to a new owner.
    ///
    /// @return the owner's generation
    int assign(int partition) {
        return ++generations[partition];
    }

    boolean isOwner(int partition, int generation) {
        return generations[partition] == generation;
    }

    long committedOffset(int partition) {
        return committedOffsets[partition];
    }

    /// The same of the orders.
    long committedOrders(int partition) {
        return committedOrders[partition];
    }

    /// The same of the cancellations.
    long committedCancels(int partition) {
        return committedCancels[partition];
    }

    void commit(Transaction transaction, long nowNanos) {
        transaction.state = State.COMMITTED;
        transaction.committedAtNanos = nowNanos;
        transaction.logs.forEach(Broker::marker);
        transaction.offsets.forEach((partition, next) -> committedOffsets[partition] = next);
        transaction.orders.forEach((partition, next) -> committedOrders[partition] = next);
        transaction.cancels.forEach((partition, next) -> committedCancels[partition] = next);
    }

    void abort(Transaction transaction) {
        transaction.state = State.ABORTED;
        transaction.logs.forEach(Broker::marker);
    }

    /// The end of a transaction takes an offset of its own, in every log that it wrote to.
    private static void marker(Log log) {
        Transaction none = new Transaction("marker");
        none.state = State.ABORTED;
        log.entries.add(new Entry(null, null, null, 0, none));
    }

    /// Digest of everything that was ever appended, with what became of it.
    Digest digest() {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        logs.forEach((name, log) -> {
            all.writeBytes(name.getBytes(StandardCharsets.UTF_8));
            for (Entry entry : log.entries) {
                all.write(entry.isCommitted() ? 1 : 0);
                all.writeBytes(Digest.sha256(entry.value() == null ? new byte[0] : entry.value()).bytes());
            }
        });
        return Digest.sha256(all.toByteArray());
    }
}

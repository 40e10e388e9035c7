package millrace.streams;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import millrace.integrity.Digest;
import millrace.integrity.TreeState;
import millrace.schemas.PruneMark;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;

/// Marks of one log's tree, taken once a day, so that the log can say where it may begin before its topic deletes what is older.
///
/// A mark is due when the one before it is nearly as old as the topic's records become: all leaves between the two are younger
/// than the one before, so what can be deleted by then is covered by a mark that was stated already. The first mark is that of the
/// empty log; where a log was there before its marks, its first is due at once, which states nothing but the truth.
///
/// Stored in the log's store: key `[u8 2] [i64 time]`, milliseconds since the epoch, big-endian; value a [TreeState]. Key
/// `[u8 3]`: the index that was stated last, i64.
final class PruneMarks {
    static final Duration EVERY = Duration.ofDays(1);
    /// How long before leaves can be deleted the log says so; more than a day, since marks are a day apart.
    static final Duration MARGIN = Duration.ofDays(2);
    private static final byte MARK = 2;
    private static final Bytes STATED = Bytes.wrap(new byte[] {3});

    private final KeyValueStore<Bytes, byte[]> store;
    private final @Nullable Duration retention;
    private long lastMs = Long.MIN_VALUE;

    private record Mark(long takenMs, TreeState tree) {}

    /// @param retention how long the topic keeps leaves; null for ever
    PruneMarks(KeyValueStore<Bytes, byte[]> store, @Nullable Duration retention) {
        this.store = store;
        this.retention = retention;
        List<Mark> kept = marks();
        if (!kept.isEmpty()) {
            lastMs = kept.getLast().takenMs;
        }
    }

    /// Takes a mark if a day has passed since the last, and says whether it did.
    boolean take(TreeState log, long nowMs) {
        if (retention == null || lastMs != Long.MIN_VALUE && nowMs - lastMs < EVERY.toMillis()) {
            return false;
        }
        List<Mark> kept = marks();
        if (!kept.isEmpty() && kept.getLast().tree.size() == log.size() && kept.getLast().tree.origin().equals(log.origin())) {
            store.delete(key(kept.getLast().takenMs)); // nothing has come since: it stands for a later time
        }
        store.put(key(nowMs), log.encode());
        lastMs = nowMs;
        return true;
    }

    /// The newest mark that is due and was not stated; null if there is none.
    @Nullable PruneMark due(TreeState log, long nowMs) {
        if (retention == null || lastMs == Long.MIN_VALUE) {
            return null;
        }
        long limit = nowMs - retention.minus(MARGIN).toMillis();
        TreeState due = null;
        long beforeMs = Long.MIN_VALUE;
        for (Mark mark : marks()) {
            if (beforeMs <= limit && mark.tree.origin().equals(log.origin()) && mark.tree.size() > stated()) {
                due = mark.tree;
            }
            beforeMs = mark.takenMs;
        }
        return due == null ? null : new PruneMark(due.size(), due.lastLeaf().toHash(),
                due.frontier().nodes().stream().map(Digest::toHash).toList());
    }

    /// The mark was stated in the log: those before it are not needed any more.
    void stated(PruneMark stated) {
        store.put(STATED, ByteBuffer.allocate(Long.BYTES).putLong(stated.getMinIndex()).array());
        marks().stream().filter(mark -> mark.tree.size() < stated.getMinIndex()).forEach(mark -> store.delete(key(mark.takenMs)));
    }

    /// The log has ended; its marks are of no use for the next.
    void clear() {
        marks().forEach(mark -> store.delete(key(mark.takenMs)));
        store.delete(STATED);
        lastMs = Long.MIN_VALUE;
    }

    private long stated() {
        byte[] kept = store.get(STATED);
        return kept == null ? 0 : ByteBuffer.wrap(kept).getLong();
    }

    private static Bytes key(long timeMs) {
        return Bytes.wrap(ByteBuffer.allocate(1 + Long.BYTES).put(MARK).putLong(timeMs).array());
    }

    /// Oldest first.
    private List<Mark> marks() {
        List<Mark> found = new ArrayList<>();
        try (KeyValueIterator<Bytes, byte[]> all = store.range(key(0), key(Long.MAX_VALUE))) {
            while (all.hasNext()) {
                KeyValue<Bytes, byte[]> entry = all.next();
                found.add(new Mark(ByteBuffer.wrap(entry.key.get()).getLong(1), TreeState.decode(entry.value)));
            }
        }
        return found;
    }
}

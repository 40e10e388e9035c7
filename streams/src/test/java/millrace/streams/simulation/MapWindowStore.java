package millrace.streams.simulation;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.jspecify.annotations.Nullable;

/// A window store in memory that tells every change to its changelog. As Kafka's own it forgets by the newest time that
/// it was ever given: what comes with a time older than that by the retention is not kept.
final class MapWindowStore implements WindowStore<Bytes, byte[]> {
    private final String name;
    private final long retentionMs;
    private final TreeMap<Bytes, TreeMap<Long, byte[]>> entries = new TreeMap<>();
    private final BiConsumer<Bytes, byte @Nullable []> changelog;
    private long newestMs;

    MapWindowStore(String name, long retentionMs, BiConsumer<Bytes, byte @Nullable []> changelog) {
        this.name = name;
        this.retentionMs = retentionMs;
        this.changelog = changelog;
    }

    /// Takes a change up from the changelog.
    void restore(byte[] key, byte @Nullable [] value) {
        long time = ByteBuffer.wrap(key).getLong(key.length - Long.BYTES);
        set(Bytes.wrap(Arrays.copyOf(key, key.length - Long.BYTES)), value, time);
    }

    private boolean set(Bytes key, byte @Nullable [] value, long timeMs) {
        newestMs = Math.max(newestMs, timeMs);
        if (timeMs <= newestMs - retentionMs) {
            return false;
        }
        NavigableMap<Long, byte[]> times = entries.computeIfAbsent(key, k -> new TreeMap<>());
        if (value == null) {
            times.remove(timeMs);
        } else {
            times.put(timeMs, value);
        }
        return true;
    }

    @Override
    public void put(Bytes key, byte @Nullable [] value, long timeMs) {
        if (set(key, value, timeMs)) {
            byte[] full = ByteBuffer.allocate(key.get().length + Long.BYTES).put(key.get()).putLong(timeMs).array();
            changelog.accept(Bytes.wrap(full), value);
        }
    }

    @Override
    public byte @Nullable [] fetch(Bytes key, long timeMs) {
        return entries.getOrDefault(key, new TreeMap<>()).get(timeMs);
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long fromMs, long toMs) {
        List<KeyValue<Long, byte[]>> found = new ArrayList<>();
        long oldest = Math.max(fromMs, newestMs - retentionMs + 1);
        if (oldest <= toMs) {
            entries.getOrDefault(key, new TreeMap<>()).subMap(oldest, true, toMs, true)
                    .forEach((time, value) -> found.add(KeyValue.pair(time, value)));
        }
        return new Times(found);
    }

    private static final class Times extends MapStore.Entries<Long> implements WindowStoreIterator<byte[]> {
        Times(List<KeyValue<Long, byte[]>> entries) {
            super(entries);
        }
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes from, Bytes to, long fromMs, long toMs) {
        throw new UnsupportedOperationException("the service reads one key at a time");
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long fromMs, long toMs) {
        throw new UnsupportedOperationException("the service reads one key at a time");
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        throw new UnsupportedOperationException("the service reads one key at a time");
    }

    /// Latest first, as far as the caller cares for: the latest alone.
    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        List<KeyValue<Windowed<Bytes>, byte[]>> latest = new ArrayList<>();
        entries.forEach((key, times) -> {
            Map.Entry<Long, byte[]> last = times.lastEntry();
            if (last != null && (latest.isEmpty() || latest.getFirst().key.window().start() < last.getKey())) {
                Windowed<Bytes> at = new Windowed<>(key, new TimeWindow(last.getKey(), last.getKey() + 1));
                latest.clear();
                latest.add(KeyValue.pair(at, last.getValue()));
            }
        });
        return new MapStore.Entries<>(latest);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {}

    @Override
    public void close() {}

    @Override
    public boolean persistent() {
        return false;
    }

    @Override
    public boolean isOpen() {
        return true;
    }
}

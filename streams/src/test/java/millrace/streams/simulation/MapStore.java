package millrace.streams.simulation;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;

/// A key-value store in memory that tells every change to its changelog.
final class MapStore implements KeyValueStore<Bytes, byte[]> {
    private final String name;
    private final TreeMap<Bytes, byte[]> entries = new TreeMap<>();
    private final BiConsumer<Bytes, byte @Nullable []> changelog;

    /// @param changelog gets key and value; null for a value that is gone
    MapStore(String name, BiConsumer<Bytes, byte @Nullable []> changelog) {
        this.name = name;
        this.changelog = changelog;
    }

    /// Takes a change up from the changelog.
    void restore(byte[] key, byte @Nullable [] value) {
        set(Bytes.wrap(key), value);
    }

    private void set(Bytes key, byte @Nullable [] value) {
        if (value == null) {
            entries.remove(key);
        } else {
            entries.put(key, value);
        }
    }

    int size() {
        return entries.size();
    }

    @Override
    public void put(Bytes key, byte @Nullable [] value) {
        set(key, value);
        changelog.accept(key, value);
    }

    @Override
    public byte @Nullable [] putIfAbsent(Bytes key, byte[] value) {
        byte[] before = entries.get(key);
        if (before == null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> all) {
        all.forEach(entry -> put(entry.key, entry.value));
    }

    @Override
    public byte @Nullable [] delete(Bytes key) {
        byte[] before = entries.get(key);
        put(key, null);
        return before;
    }

    @Override
    public byte @Nullable [] get(Bytes key) {
        return entries.get(key);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return iterate(entries.subMap(from, true, to, true));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return iterate(entries);
    }

    private static KeyValueIterator<Bytes, byte[]> iterate(Map<Bytes, byte[]> entries) {
        List<KeyValue<Bytes, byte[]>> copy = new ArrayList<>();
        entries.forEach((key, value) -> copy.add(KeyValue.pair(key, value)));
        return new Entries<>(copy);
    }

    /// Walks over a copy, so that the store may change meanwhile.
    static class Entries<K> implements KeyValueIterator<K, byte[]> {
        private final List<KeyValue<K, byte[]>> entries;
        private int next;

        Entries(List<KeyValue<K, byte[]>> entries) {
            this.entries = entries;
        }

        @Override
        public K peekNextKey() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return entries.get(next).key;
        }

        @Override
        public boolean hasNext() {
            return next < entries.size();
        }

        @Override
        public KeyValue<K, byte[]> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return entries.get(next++);
        }

        @Override
        public void close() {}
    }

    @Override
    public long approximateNumEntries() {
        return entries.size();
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

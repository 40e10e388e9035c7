package millrace.streams;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.TenantKey;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The tenants' keys of one partition, in the task's store: made when a tenant first asks, and destroyed when it is erased.
///
/// The store's key is the tenant's pseudonym (16 bytes) and the key's id (8 bytes); its value is the wrapped key, see
/// [TenantKey]. The store changes in the transaction of the leaves, and only the task that owns the log writes it, so no two
/// instances ever make a key for one tenant of one partition.
final class TenantKeys {
    static final String STORE = "tenant-keys";
    private static final int REF_BYTES = 16;
    private static final Logger LOG = LoggerFactory.getLogger(TenantKeys.class);

    private final KeyValueStore<Bytes, byte[]> store;
    private final NoteSigner master;
    private final SecureRandom random;
    private final Map<String, TenantKey> opened = new HashMap<>();

    /// Opens the store. Keys that the previous audit key wrapped are wrapped anew, under the pseudonym that the audit key gives
    /// now; keys of any other audit key cannot be opened again and are destroyed.
    ///
    /// @param previous the audit key before this one, where there is one
    TenantKeys(KeyValueStore<Bytes, byte[]> store, NoteSigner master, @Nullable NoteSigner previous, SecureRandom random) {
        this.store = store;
        this.master = master;
        this.random = random;
        int moved = 0;
        int lost = 0;
        for (KeyValue<Bytes, byte[]> entry : entries(null)) {
            int by = TenantKey.wrappedBy(entry.value);
            if (by == master.keyId()) {
                continue;
            }
            store.delete(entry.key);
            if (previous != null && by == previous.keyId()) {
                byte[] id = Arrays.copyOfRange(entry.key.get(), REF_BYTES, entry.key.get().length);
                put(TenantKey.unwrap(entry.value, id, previous));
                moved++;
            } else {
                lost++;
            }
        }
        if (moved > 0) {
            LOG.info("{} tenant keys were wrapped anew under the audit key {}", moved, master.label());
        }
        if (lost > 0) {
            LOG.warn("{} tenant keys were wrapped under an audit key that is not configured: they are destroyed, and the salts that"
                    + " they sealed cannot be opened any more", lost);
        }
    }

    /// The tenant's key; made now if there is none.
    TenantKey of(String tenant) {
        TenantKey known = opened.get(tenant);
        if (known != null) {
            return known;
        }
        List<KeyValue<Bytes, byte[]>> kept = entries(ref(tenant));
        TenantKey key;
        if (kept.isEmpty()) {
            key = TenantKey.generate(tenant, random);
            put(key);
        } else {
            KeyValue<Bytes, byte[]> first = kept.getFirst();
            key = TenantKey.unwrap(first.value, Arrays.copyOfRange(first.key.get(), REF_BYTES, first.key.get().length), master);
        }
        opened.put(tenant, key);
        return key;
    }

    /// Destroys the tenant's keys of this partition.
    ///
    /// @return how many there were
    int erase(String tenant) {
        opened.remove(tenant);
        List<KeyValue<Bytes, byte[]>> kept = entries(ref(tenant));
        kept.forEach(entry -> store.delete(entry.key));
        return kept.size();
    }

    private void put(TenantKey key) {
        byte[] name = ByteBuffer.allocate(REF_BYTES + TenantKey.ID_BYTES).put(ref(key.tenant())).put(key.id()).array();
        store.put(Bytes.wrap(name), key.wrap(master, random));
    }

    private byte[] ref(String tenant) {
        return master.tenantRef(tenant).bytes();
    }

    /// Those of one pseudonym, or all: a snapshot, so that the store may change meanwhile.
    private List<KeyValue<Bytes, byte[]>> entries(byte @Nullable [] ref) {
        List<KeyValue<Bytes, byte[]>> found = new ArrayList<>();
        try (KeyValueIterator<Bytes, byte[]> all = ref == null ? store.all() : store.range(bound(ref, 0), bound(ref, 0xff))) {
            while (all.hasNext()) {
                KeyValue<Bytes, byte[]> entry = all.next();
                if (entry.key.get().length != REF_BYTES + TenantKey.ID_BYTES) {
                    throw new IntegrityException("TENANT_KEY_INVALID", "store " + STORE + ": expected keys of "
                            + (REF_BYTES + TenantKey.ID_BYTES) + " bytes, got " + entry.key.get().length + "; restore the store");
                }
                found.add(entry);
            }
        }
        return found;
    }

    private static Bytes bound(byte[] ref, int filler) {
        byte[] bound = new byte[REF_BYTES + TenantKey.ID_BYTES];
        Arrays.fill(bound, (byte) filler);
        System.arraycopy(ref, 0, bound, 0, REF_BYTES);
        return Bytes.wrap(bound);
    }
}

package millrace.streams;

import java.time.Clock;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.integrity.Digest;
import millrace.schemas.Prompt;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.jspecify.annotations.Nullable;

/// What a task remembers of requests for `intake.dedup.retention.ms`: which ids were used, and which were cancelled.
///
/// A request is known by the first 16 bytes of a digest of its tenant and its id, so the stores hold no names.
final class RequestMemory {
    private static final byte[] CANCELLED = {1};

    private final WindowStore<Bytes, byte[]> seen;
    private final WindowStore<Bytes, byte[]> cancelled;
    private final long retentionMs;
    private final Clock clock;
    private long latestMs;

    RequestMemory(WindowStore<Bytes, byte[]> seen, WindowStore<Bytes, byte[]> cancelled, long retentionMs, Clock clock) {
        this.seen = seen;
        this.cancelled = cancelled;
        this.retentionMs = retentionMs;
        this.clock = clock;
        this.latestMs = Math.max(newest(seen), newest(cancelled));
    }

    private static long newest(WindowStore<Bytes, byte[]> store) {
        try (KeyValueIterator<Windowed<Bytes>, byte[]> latestFirst = store.backwardAll()) {
            return latestFirst.hasNext() ? latestFirst.peekNextKey().window().start() : 0;
        }
    }

    /// The request's name in the stores.
    static Bytes key(@Nullable String tenant, String requestId) {
        byte[] full = Digest.sha256((tenant == null ? "" : tenant) + "\0" + requestId).bytes();
        return Bytes.wrap(Arrays.copyOf(full, 16));
    }

    static Bytes key(Prompt prompt) {
        return key(prompt.getTenant(), prompt.getRequestId());
    }

    /// Digest of the record in this service's own schema: equal for equal prompts whatever schema they were written with.
    static byte[] bodyDigest(Prompt prompt) {
        try {
            return Digest.sha256(Prompt.getEncoder().encode(prompt).array()).bytes();
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException("a decoded prompt can be encoded", e);
        }
    }

    /// The body's digest under which the id was used last, or null.
    byte @Nullable [] usedBefore(Bytes request) {
        long now = now();
        byte[] latest = null;
        try (WindowStoreIterator<byte[]> uses = seen.fetch(request, now - retentionMs, now)) {
            while (uses.hasNext()) {
                latest = uses.next().value;
            }
        }
        return latest;
    }

    void use(Bytes request, byte[] bodyDigest) {
        seen.put(request, bodyDigest, now());
    }

    void cancel(Bytes request) {
        if (!isCancelled(request)) {
            cancelled.put(request, CANCELLED, now());
        }
    }

    /// Whether it was cancelled and has not ended since.
    boolean isCancelled(Bytes request) {
        return !cancellations(request).isEmpty();
    }

    /// Says that the cancelled request has ended: a later use of its id is another request.
    void forgetCancel(Bytes request) {
        cancellations(request).forEach(timeMs -> cancelled.put(request, null, timeMs));
    }

    /// When it was cancelled. All that the store still has counts: it forgets by the time of later cancellations, so what a
    /// long outage lay behind is there.
    private List<Long> cancellations(Bytes request) {
        List<Long> times = new ArrayList<>();
        try (WindowStoreIterator<byte[]> each = cancelled.fetch(request, 0, now())) {
            while (each.hasNext()) {
                KeyValue<Long, byte[]> entry = each.next();
                times.add(entry.key);
            }
        }
        return times;
    }

    /// The time that ids are remembered by. It stands still while a wall clock that was set back is behind: an id that
    /// was used later than "now" is remembered all the same, and the store takes nothing that is older than it can be.
    private long now() {
        latestMs = Math.max(latestMs, clock.millis());
        return latestMs;
    }
}

package millrace.streams;

import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.RegistryException;
import org.apache.kafka.common.header.Header;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Reads prompts through the schema registry, without ever making the stream thread wait for it.
///
/// A schema id that is not cached is fetched on a thread of its own; until the answer is there the prompt is
/// "not readable yet". A registry that is down is no fault of the prompt.
final class RegistryPromptDecoder implements PromptDecoder, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RegistryPromptDecoder.class);
    private static final String GUID_HEADER = "__value_schema_id";
    private static final long WARN_EVERY_NANOS = 30_000_000_000L;

    private final AvroDecoder<Prompt> decoder;
    private final Map<Integer, Boolean> fetching = new ConcurrentHashMap<>();
    private final ExecutorService executor = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "schema-fetch");
        thread.setDaemon(true);
        return thread;
    });
    private long warnedAtNanos = System.nanoTime() - WARN_EVERY_NANOS;

    RegistryPromptDecoder(AvroDecoder<Prompt> decoder) {
        this.decoder = decoder;
    }

    @Override
    public Prompt decode(Source source) {
        Header guid = source.headers().lastHeader(GUID_HEADER);
        try {
            if (guid != null) {
                return decoder.decode(source.value(), guid.value());
            }
            OptionalInt unknown = decoder.unknownId(source.value());
            if (unknown.isPresent() && !answered(unknown.getAsInt())) {
                throw new RegistryUnavailableException("schema id " + unknown.getAsInt() + " is being asked for");
            }
            return decoder.decode(source.value());
        } catch (DecodeException e) {
            throw new UndecodableException(e.code(), e.getMessage());
        } catch (RegistryException e) {
            throw new RegistryUnavailableException(e.getMessage());
        }
    }

    /// Whether the registry has said what it knows of this id; if not, it is being asked.
    private boolean answered(int id) {
        Boolean done = fetching.putIfAbsent(id, false);
        if (done == null) {
            try {
                executor.execute(() -> fetch(id));
            } catch (RejectedExecutionException e) {
                fetching.remove(id);
            }
            return false;
        }
        if (done) {
            fetching.remove(id);
        }
        return done;
    }

    private void fetch(int id) {
        try {
            decoder.fetch(id);
            fetching.put(id, true);
        } catch (RegistryException e) {
            fetching.remove(id);
            warn(id, e);
        }
    }

    private synchronized void warn(int id, RegistryException e) {
        if (System.nanoTime() - warnedAtNanos >= WARN_EVERY_NANOS) {
            warnedAtNanos = System.nanoTime();
            LOG.warn("prompts of schema id {} are kept until the schema registry answers: {}", id, e.getMessage());
        }
    }

    @Override
    public void close() {
        executor.shutdownNow();
    }
}

package millrace.streams;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.RegistryException;
import org.apache.kafka.common.header.Header;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Reads prompts through the schema registry, without ever making the stream thread wait for it.
///
/// The first record of a schema that is not cached is decoded on a thread of its own, which brings the schema into the
/// cache; until that is done the prompt is "not readable yet". A registry that is down is no fault of the prompt.
final class RegistryPromptDecoder implements PromptDecoder, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RegistryPromptDecoder.class);
    private static final String SCHEMA_HEADER = "__value_schema_id";
    private static final int ID_BYTES = 5;
    private static final int MAX_HEADERS = 1_000;
    private static final long WARN_EVERY_NANOS = 30_000_000_000L;

    /// What the registry has said of a schema: nothing yet, that there is one, or that there is none.
    private record Answer(boolean given, @Nullable DecodeException refusal) {
        static final Answer NONE = new Answer(false, null);
        static final Answer KNOWN = new Answer(true, null);
    }

    private final AvroDecoder<Prompt> decoder;
    /// By the bytes that name the schema: a header's value, or the first bytes of a record.
    private final Map<ByteBuffer, Answer> asked = new ConcurrentHashMap<>();
    private final Set<ByteBuffer> knownHeaders = ConcurrentHashMap.newKeySet();
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
        byte[] value = source.value();
        Header header = source.headers().lastHeader(SCHEMA_HEADER);
        byte[] schema = header == null ? null : header.value();
        try {
            if (value != null && !isKnown(value, schema)) {
                ask(value, schema);
            }
            return decoder.decode(value, schema);
        } catch (DecodeException e) {
            throw new UndecodableException(e.code(), e.getMessage());
        } catch (RegistryException e) {
            throw new RegistryUnavailableException(e.getMessage());
        }
    }

    private boolean isKnown(byte[] value, byte @Nullable [] schema) {
        return schema == null ? decoder.unknownId(value).isEmpty() : knownHeaders.contains(ByteBuffer.wrap(schema));
    }

    /// Returns once the schema is in the cache.
    ///
    /// @throws DecodeException when there is none
    /// @throws RegistryUnavailableException while the registry is being asked
    private void ask(byte[] value, byte @Nullable [] schema) {
        ByteBuffer name = schema == null ? ByteBuffer.wrap(value, 0, ID_BYTES).slice() : ByteBuffer.wrap(schema);
        Answer answer = asked.putIfAbsent(name, Answer.NONE);
        if (answer == null) {
            try {
                executor.execute(() -> fetch(name, value, schema));
            } catch (RejectedExecutionException e) {
                asked.remove(name);
            }
        }
        if (answer == null || !answer.given()) {
            throw new RegistryUnavailableException("the schema registry is being asked for a schema");
        }
        asked.remove(name);
        if (answer.refusal() != null) {
            throw answer.refusal();
        }
        if (schema != null) {
            if (knownHeaders.size() >= MAX_HEADERS) {
                knownHeaders.clear();
            }
            knownHeaders.add(name);
        }
    }

    private void fetch(ByteBuffer name, byte[] value, byte @Nullable [] schema) {
        try {
            decoder.decode(value, schema);
            asked.put(name, Answer.KNOWN);
        } catch (DecodeException e) {
            // Any other code is about this record, whose schema is in the cache now.
            boolean noSchema = e.code().equals("SCHEMA_UNKNOWN_ID") || e.code().equals("SCHEMA_MAGIC");
            asked.put(name, noSchema ? new Answer(true, e) : Answer.KNOWN);
        } catch (RegistryException e) {
            asked.remove(name);
            warn(e);
        } catch (RuntimeException e) {
            asked.remove(name);
            LOG.error("a schema could not be fetched", e);
        }
    }

    private synchronized void warn(RegistryException e) {
        if (System.nanoTime() - warnedAtNanos >= WARN_EVERY_NANOS) {
            warnedAtNanos = System.nanoTime();
            LOG.warn("prompts of an unknown schema are kept until the schema registry answers: {}", e.getMessage());
        }
    }

    @Override
    public void close() {
        executor.shutdownNow();
    }
}

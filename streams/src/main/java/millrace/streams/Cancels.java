package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.RegistryException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.utils.Bytes;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The cancellations of one task: which records are some, and which prompts they end.
///
/// What was cancelled stands in the store from the transaction that consumes the record until the one that hands on the
/// prompt's end, so it holds over a crash, and a prompt that comes after its cancellation meets it there. What cannot be
/// read, or is no client's to give, is counted and ends nothing.
final class Cancels {
    private static final Logger LOG = LoggerFactory.getLogger(Cancels.class);

    private static final long WARN_EVERY_NANOS = 30_000_000_000L;

    private final String topic;
    private final AvroDecoder<Control> decoder;
    private final ServiceMetrics metrics;
    private final RequestMemory memory;
    private final Ticker ticker;
    /// Prompts in flight that were cancelled, by their offset.
    private final Map<Long, Bytes> ending = new HashMap<>();
    private long warnedAtNanos;

    Cancels(String topic, AvroDecoder<Control> decoder, ServiceMetrics metrics, RequestMemory memory, Ticker ticker) {
        this.topic = topic;
        this.decoder = decoder;
        this.metrics = metrics;
        this.memory = memory;
        this.ticker = ticker;
        warnedAtNanos = ticker.nanos() - WARN_EVERY_NANOS;
    }

    boolean isFrom(String topic) {
        return this.topic.equals(topic);
    }

    /// The request that a record cancels, or null where it is no cancellation.
    @Nullable Bytes read(Source source) {
        try {
            if (decoder.unknownId(source.value()).isPresent()) {
                return refused(source, "unreadable", "CONTROL_SCHEMA");
            }
            Control control = decoder.decode(source.value());
            return isCancel(control, source)
                    ? RequestMemory.key(control.getTenant(), control.getRequestId())
                    : refused(source, "refused", "CONTROL_KIND");
        } catch (DecodeException e) {
            return refused(source, "unreadable", e.code());
        } catch (RegistryException e) {
            return refused(source, "unreadable", e.code());
        }
    }

    /// As of prompts, what a record's tenant header says must be what the record says.
    private static boolean isCancel(Control control, Source source) {
        Header header = source.headers().lastHeader(Intake.TENANT_HEADER);
        boolean agrees = header == null || header.value() == null
                || new String(header.value(), StandardCharsets.UTF_8).equals(control.getTenant());
        return control.getKind() == ControlKind.CANCEL && agrees;
    }

    private @Nullable Bytes refused(Source source, String result, String code) {
        metrics.cancel(result);
        // Clients write this topic: none may fill the log.
        long now = ticker.nanos();
        if (now - warnedAtNanos >= WARN_EVERY_NANOS) {
            warnedAtNanos = now;
            LOG.warn("cancellation {}: {}: it is passed over, as all of its kind", source.position(), code);
        }
        return null;
    }

    /// Takes a cancellation of a request.
    ///
    /// @param inFlight offsets of its prompts that are under way
    /// @param allKnown whether every prompt that was taken in has been read: none of those left may be of this request
    void take(Bytes request, List<Long> inFlight, boolean allKnown) {
        if (inFlight.isEmpty() && allKnown && memory.usedBefore(request) != null) {
            metrics.cancel("late");
            return;
        }
        memory.cancel(request);
        inFlight.forEach(offset -> ending.put(offset, request));
        metrics.cancel(inFlight.isEmpty() ? "early" : "cancelled");
    }

    /// Whether a prompt that is about to begin was cancelled before; it then counts as one that ends.
    boolean precedes(Bytes request, long offset) {
        if (!memory.isCancelled(request)) {
            return false;
        }
        ending.put(offset, request);
        return true;
    }

    /// Whether a client has cancelled this prompt: only then is the engine's `CANCELLED` an answer.
    boolean isEnding(long offset) {
        return ending.containsKey(offset);
    }

    /// Says that the prompt's end is handed on.
    void ended(long offset) {
        Bytes request = ending.remove(offset);
        if (request != null) {
            memory.forgetCancel(request);
        }
    }
}

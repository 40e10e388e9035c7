package millrace.streams;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import millrace.engine.GenerationResult;
import millrace.engine.Sampling;
import millrace.integrity.TreeState;
import millrace.streams.tracing.OtlpSpans;
import millrace.streams.tracing.SpanFact;
import millrace.streams.tracing.SpanSink;
import millrace.streams.tracing.TraceContext;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.header.Headers;
import org.jspecify.annotations.Nullable;

/// Spans of a prompt's way: `process` from its taking in to its outcome, and within it the model's work and the sending of the
/// answer, whose context goes on in the answer's headers. Without an exporter the prompt's own context goes on.
///
/// A prompt that is resumed after a crash has its context still, for the pending store keeps its headers; its span begins when
/// it was taken up again.
final class ServiceTraces {
    /// Nothing is recorded.
    static final ServiceTraces OFF = new ServiceTraces(null, "", "");
    private static final int MOST_TAKEN = 100_000;
    private static final long MILLI = Duration.ofMillis(1).toNanos();

    private record Place(int partition, long offset) {}

    private final @Nullable SpanSink sink;
    private final String group;
    private final String completions;
    private final Map<Place, Long> taken = new ConcurrentHashMap<>();

    /// @param sink null for none
    /// @param group the consumer group, which is the application's id
    ServiceTraces(@Nullable SpanSink sink, String group, String completions) {
        this.sink = sink;
        this.group = group;
        this.completions = completions;
    }

    /// Those that the configuration asks for.
    ///
    /// @param resource attributes of the service
    static ServiceTraces of(ServiceConfig config, Map<String, String> resource) {
        String endpoint = config.string("tracing.otlp.endpoint");
        if (endpoint.isBlank()) {
            return OFF;
        }
        try {
            SpanSink sink = OtlpSpans.open(
                    endpoint, headers(config.password("tracing.otlp.headers")), config.decimal("tracing.sample.ratio"), resource);
            return new ServiceTraces(sink, config.string("application.id"), config.string("topics.completions"));
        } catch (IllegalArgumentException e) {
            throw new ConfigException("config key \"tracing.otlp.endpoint\": " + e.getMessage());
        }
    }

    private static Map<String, String> headers(Password list) {
        Map<String, String> headers = new HashMap<>();
        for (String pair : list.value().split(",")) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                headers.put(pair.substring(0, equals).strip(), pair.substring(equals + 1).strip());
            } else if (!pair.isBlank()) {
                throw new ConfigException("config key \"tracing.otlp.headers\": expected name=value,name=value, got an entry without \"=\"");
            }
        }
        return headers;
    }

    /// Whether spans are recorded.
    boolean isOn() {
        return sink != null;
    }

    /// A prompt record is taken in, or taken up again.
    void taken(Source source, long nowMs) {
        if (sink != null && taken.size() < MOST_TAKEN) {
            taken.putIfAbsent(new Place(source.partition(), source.offset()), nowMs * MILLI);
        }
    }

    /// The task of a partition is gone; another process may go on with its prompts.
    void forget(int partition) {
        taken.keySet().removeIf(place -> place.partition() == partition);
    }

    /// An outcome is on its way out, before its leaf is appended to the log.
    ///
    /// @param headers of the answer: its trace's context is put there, or none where the prompt brought none that is well-formed
    void ended(Outcome outcome, TreeState log, String eventId, String model, long nowMs, Headers headers) {
        Source source = outcome.source();
        TraceContext parent = TraceContext.of(source.headers()).orElse(null);
        TraceContext next = sink == null ? parent : record(sink, parent, outcome, log, eventId, model, nowMs * MILLI);
        if (next == null) {
            TraceContext.drop(headers);
        } else {
            next.put(headers);
        }
    }

    private TraceContext record(
            SpanSink to, @Nullable TraceContext parent, Outcome outcome, TreeState log, String eventId, String model, long nowNanos) {
        Source source = outcome.source();
        Long since = taken.remove(new Place(source.partition(), source.offset()));
        String error = error(outcome);
        Map<String, Object> process = messaging("process", "process", source.topic(), source.partition());
        process.put(SemanticNames.MESSAGING_OFFSET, source.offset());
        process.put(SemanticNames.MESSAGING_GROUP, group);
        List<SpanFact> within = new ArrayList<>();
        long begin = since == null ? nowNanos : Math.min(since, nowNanos);
        if (outcome instanceof Outcome.Answered answered) {
            GenerationResult result = answered.result();
            long chat = Math.max(0, result.timings().firstTokenNanos() + result.timings().decodeNanos());
            begin = Math.min(begin, nowNanos - chat);
            within.add(new SpanFact(AnswerMeters.operation(answered) + " " + model, SpanFact.Kind.INTERNAL, nowNanos - chat, nowNanos,
                    chat(answered, eventId, model, error), error));
        }
        if (!(outcome instanceof Outcome.Undecodable)) {
            Map<String, Object> send = messaging("send", "send", completions, source.partition());
            send.put("millrace.audit.origin", log.origin().text());
            send.put("millrace.audit.seq", log.size());
            within.add(new SpanFact("send " + completions, SpanFact.Kind.PRODUCER, nowNanos, nowNanos, send, ""));
        }
        if (!error.isEmpty()) {
            process.put(SemanticNames.ERROR_TYPE, error);
        }
        return to.record(
                parent, new SpanFact("process " + source.topic(), SpanFact.Kind.CONSUMER, begin, nowNanos, process, error), within);
    }

    private static String error(Outcome outcome) {
        return switch (outcome) {
            case Outcome.Answered answered -> answered.result().errorCode() == null ? "" : answered.result().errorCode();
            case Outcome.Rejected rejected -> rejected.code();
            case Outcome.Undecodable undecodable -> undecodable.code();
            case Outcome.Ordered ordered -> "";
        };
    }

    private static Map<String, Object> messaging(String name, String type, String topic, int partition) {
        return new HashMap<>(Map.of(
                SemanticNames.MESSAGING_SYSTEM, SemanticNames.SYSTEM, SemanticNames.MESSAGING_OPERATION, name,
                SemanticNames.MESSAGING_OPERATION_TYPE, type, SemanticNames.MESSAGING_DESTINATION, topic,
                SemanticNames.MESSAGING_PARTITION, Integer.toString(partition)));
    }

    private static Map<String, Object> chat(Outcome.Answered answered, String eventId, String model, String error) {
        GenerationResult result = answered.result();
        Sampling sampling = answered.prepared().request().sampling();
        Map<String, Object> chat = new HashMap<>(Map.of(
                SemanticNames.GEN_AI_OPERATION, AnswerMeters.operation(answered), SemanticNames.GEN_AI_PROVIDER, SemanticNames.PROVIDER,
                SemanticNames.GEN_AI_REQUEST_MODEL, model, SemanticNames.GEN_AI_RESPONSE_MODEL, model,
                SemanticNames.GEN_AI_RESPONSE_ID, eventId,
                SemanticNames.GEN_AI_INPUT_TOKENS, (long) result.usage().promptTokens(),
                SemanticNames.GEN_AI_OUTPUT_TOKENS, (long) result.usage().completionTokens(),
                SemanticNames.GEN_AI_CACHED_TOKENS, (long) result.usage().cachedPromptTokens()));
        chat.put(SemanticNames.GEN_AI_MAX_TOKENS, (long) answered.prepared().request().maxNewTokens());
        chat.put(SemanticNames.GEN_AI_TEMPERATURE, (double) sampling.temperature());
        chat.put(SemanticNames.GEN_AI_SEED, sampling.seed());
        chat.put(SemanticNames.GEN_AI_FINISH_REASONS, new String[] {Completions.finish(result.reason()).name()});
        if (!error.isEmpty()) {
            chat.put(SemanticNames.ERROR_TYPE, error);
        }
        return chat;
    }

    void close() {
        if (sink != null) {
            sink.close();
        }
    }
}

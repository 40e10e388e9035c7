package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HexFormat;
import java.util.Set;
import millrace.integrity.Leaf;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditVerdict;
import millrace.streams.tracing.TraceContext;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/// Headers of what the service writes: CloudEvents 1.0 in binary mode, the position of the attestation, and what the
/// prompt brought along, `traceparent` among it.
final class EventHeaders {
    private static final String COMPLETION_TYPE = "millrace.completion.v1";
    /// Describe the prompt's own event, or are the service's to set.
    private static final Set<String> NOT_COPIED = Set.of("content-type", Intake.TENANT_HEADER, "__value_schema_id");
    private static final Set<String> TRACE = Set.of(TraceContext.PARENT, TraceContext.STATE);
    private static final int MAX_TRACE_BYTES = TraceContext.MAX_STATE_BYTES;
    private static final String DLQ_PREFIX = "__streams.errors.";

    private EventHeaders() {}

    static Headers completion(
            Source source, String requestId, TreeState log, Leaf leaf, AuditVerdict verdict, long nowMs) {
        RecordHeaders headers = new RecordHeaders();
        for (Header header : fitting(source)) {
            if (!header.key().startsWith("ce_") && !header.key().startsWith("attest-") && !NOT_COPIED.contains(header.key())) {
                headers.add(header);
            }
        }
        put(headers, "ce_specversion", "1.0");
        put(headers, "ce_id", source.eventId().toString());
        put(headers, "ce_type", COMPLETION_TYPE);
        put(headers, "ce_source", "/" + log.origin().topic() + "/" + source.partition());
        put(headers, "ce_time", Instant.ofEpochMilli(nowMs).toString());
        put(headers, "ce_subject", requestId);
        put(headers, "content-type", "application/avro");
        attest(headers, log, leaf);
        put(headers, "attest-verdict", verdict.name());
        return headers;
    }

    /// What tells a consumer of the audit topic, without a schema, that something happened which is no answer, and which
    /// leaves it brings into doubt or takes back.
    static Headers leaf(AttestationRecord record) {
        RecordHeaders headers = new RecordHeaders();
        put(headers, "attest-event", record.getEvent().name());
        if (record.getSuspect() != null && record.getSuspect().getToSeq() >= record.getSuspect().getFromSeq()) {
            put(headers, "attest-suspect", record.getSuspect().getFromSeq() + "-" + record.getSuspect().getToSeq());
            if (!record.getSuspect().getOrigin().equals(record.getLogOrigin())) {
                put(headers, "attest-suspect-origin", record.getSuspect().getOrigin());
            }
        }
        return headers;
    }

    private static void attest(Headers headers, TreeState log, Leaf leaf) {
        put(headers, "attest-origin", log.origin().text());
        put(headers, "attest-epoch", Integer.toString(log.epoch()));
        put(headers, "attest-seq", Long.toString(log.size()));
        put(headers, "attest-leaf", leaf.hash().hex());
    }

    /// The names that Kafka Streams' own dead-letter queue uses, so that one tool reads both; the position of the leaf,
    /// and the salt that opens its commitment to the record's bytes.
    static Headers deadLetter(Outcome.Undecodable undecodable, TreeState log, Leaf leaf, byte[] salt, int maxBytes) {
        Source source = undecodable.source();
        RecordHeaders headers = fitting(source);
        put(headers, DLQ_PREFIX + "exception", undecodable.code());
        put(headers, DLQ_PREFIX + "message", undecodable.message());
        put(headers, DLQ_PREFIX + "topic", source.topic());
        put(headers, DLQ_PREFIX + "partition", Integer.toString(source.partition()));
        put(headers, DLQ_PREFIX + "offset", Long.toString(source.offset()));
        attest(headers, log, leaf);
        put(headers, "attest-salt", HexFormat.of().formatHex(salt));
        if (source.value() != null && source.value().length > maxBytes) {
            put(headers, "millrace-truncated-from-bytes", Integer.toString(source.value().length));
        }
        return headers;
    }

    /// The prompt's headers; of headers that are too large to be carried on, only those that a trace needs.
    private static RecordHeaders fitting(Source source) {
        if (source.headerBytes() <= ProducerLimits.MAX_COPIED_BYTES) {
            return new RecordHeaders(source.headers().toArray());
        }
        RecordHeaders headers = new RecordHeaders();
        for (Header header : source.headers()) {
            boolean small = header.value() == null || header.value().length <= MAX_TRACE_BYTES;
            if (TRACE.contains(header.key()) && small && headers.lastHeader(header.key()) == null) {
                headers.add(header);
            }
        }
        return headers;
    }

    private static void put(Headers headers, String name, String value) {
        headers.add(name, value.getBytes(StandardCharsets.UTF_8));
    }
}

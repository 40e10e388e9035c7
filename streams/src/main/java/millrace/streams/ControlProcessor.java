package millrace.streams;

import java.time.Clock;
import java.util.List;
import millrace.schemas.Control;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.RegistryException;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Reads the operator's orders and hands them to the task's log.
///
/// What cannot be read is counted and logged by its position, and stops nothing: who gave the order waits for its leaf and
/// learns that there is none. Schemas are those that were registered when the service started; an order never makes the
/// stream thread wait for the registry.
final class ControlProcessor implements Processor<byte[], byte[], byte[], Handover> {
    private static final Logger LOG = LoggerFactory.getLogger(ControlProcessor.class);

    private final AvroDecoder<Control> decoder;
    private final ServiceMetrics metrics;
    private final Clock clock;
    private ProcessorContext<byte[], Handover> context;

    @SuppressWarnings("NullAway.Init") // init() runs before any record
    ControlProcessor(AvroDecoder<Control> decoder, ServiceMetrics metrics, Clock clock) {
        this.decoder = decoder;
        this.metrics = metrics;
        this.clock = clock;
    }

    @Override
    public void init(ProcessorContext<byte[], Handover> context) {
        this.context = context;
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        RecordMetadata at = context.recordMetadata().orElseThrow();
        Source source = new Source(
                at.topic(), at.partition(), at.offset(), record.timestamp(), record.key(), record.value(), record.headers());
        try {
            if (decoder.unknownId(record.value()).isPresent()) {
                unreadable(source, "CONTROL_SCHEMA");
                return;
            }
            Handover order = new Handover(List.of(), List.of(new Outcome.Ordered(source, decoder.decode(record.value()))));
            context.forward(new Record<>(new byte[0], order, clock.millis()));
            context.commit();
        } catch (DecodeException e) {
            unreadable(source, e.code());
        } catch (RegistryException e) {
            unreadable(source, e.code());
        }
    }

    private void unreadable(Source source, String code) {
        metrics.control("unreadable");
        LOG.warn("order {}: {}: it cannot be read and is passed over; write Control records with this release's `millrace audit`",
                source.position(), code);
    }
}

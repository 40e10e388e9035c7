package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import millrace.schemas.AlarmRecord;
import millrace.streams.registry.AvroEncoder;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/// Alarms to a topic, keyed by instance, each acknowledged by all replicas in sync before the next is sent.
final class KafkaAlarmRoad implements Alarms.Road {
    private static final long ACKNOWLEDGED_WITHIN_S = 20;

    private final Producer<byte[], byte[]> producer;
    private final String topic;
    private final AvroEncoder<AlarmRecord> encoder;

    KafkaAlarmRoad(Producer<byte[], byte[]> producer, String topic, AvroEncoder<AlarmRecord> encoder) {
        this.producer = producer;
        this.topic = topic;
        this.encoder = encoder;
    }

    @Override
    public void send(AlarmRecord alarm) throws Exception {
        byte[] key = alarm.getInstanceId().getBytes(StandardCharsets.UTF_8);
        producer.send(new ProducerRecord<>(topic, key, encoder.encode(alarm))).get(ACKNOWLEDGED_WITHIN_S, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        producer.close(Duration.ofSeconds(5));
    }
}

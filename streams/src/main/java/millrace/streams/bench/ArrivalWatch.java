package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import millrace.streams.KafkaClients;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/// Notes when the record of each key arrives at a committed reader.
final class ArrivalWatch implements AutoCloseable {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<String, Long> arrivals = new ConcurrentHashMap<>();
    private final Map<String, Integer> expected = new HashMap<>();
    private final Thread thread;
    private volatile boolean stop;

    ArrivalWatch(KafkaClients clients, String topic) {
        consumer = clients.reader(topic);
        consumer.seekToEnd(consumer.assignment());
        consumer.assignment().forEach(consumer::position);
        thread = new Thread(this::read, "bench-watch-" + topic);
        thread.start();
    }

    private void read() {
        while (!stop) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                long now = System.nanoTime();
                if (arrivals.putIfAbsent(new String(record.key(), StandardCharsets.UTF_8), now) != null) {
                    throw new IllegalStateException("answered twice: " + new String(record.key(), StandardCharsets.UTF_8));
                }
            }
        }
    }

    void expect(String prefix, int count) {
        expected.put(prefix, count);
    }

    private long[] await(String prefix) {
        int count = expected.get(prefix);
        long[] at = new long[count];
        long until = System.nanoTime() + Duration.ofMinutes(2).toNanos();
        for (int i = 0; i < count; i++) {
            Long arrival = arrivals.get(prefix + "-" + i);
            while (arrival == null) {
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("no completion of " + prefix + "-" + i + " within 2 minutes");
                }
                LockSupport.parkNanos(1_000_000);
                arrival = arrivals.get(prefix + "-" + i);
            }
            at[i] = arrival;
        }
        return at;
    }

    long[] latencies(String prefix, long[] sent) {
        long[] at = await(prefix);
        for (int i = 0; i < at.length; i++) {
            at[i] -= sent[i];
        }
        return at;
    }

    long lastArrival(String prefix) {
        long last = Long.MIN_VALUE;
        for (long at : await(prefix)) {
            last = Math.max(last, at);
        }
        return last;
    }

    @Override
    public void close() {
        stop = true;
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        consumer.close();
    }
}

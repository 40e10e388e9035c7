package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationResult;
import millrace.engine.TextEngine;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.tracing.TraceContext;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Previews to the deltas topic, by a producer that is in no transaction.
///
/// The engine's thread leaves each piece of text in a queue and goes on; a thread of this object reads it, numbers the deltas and
/// sends them. Whatever fails there costs previews only: pieces that do not fit into the queue and deltas that the brokers do not
/// take leave holes in the numbers, and the completion has everything.
final class KafkaPreviews implements Previews, AutoCloseable {
    static final String HEADER = "millrace-preview";
    static final String UNATTESTED = "unattested";
    private static final Logger LOG = LoggerFactory.getLogger(KafkaPreviews.class);
    private static final int AT_ONCE = 1_024;
    private static final long PAUSE_NANOS = 1_000_000_000L;
    private static final long LONG_PAUSE_NANOS = 30_000_000_000L;
    private static final long WARN_EVERY_NANOS = 30_000_000_000L;
    private static final Duration LAST_WORDS = Duration.ofSeconds(2);

    private enum Kind {
        TEXT,
        RESTART,
        END
    }

    /// What the engine said.
    ///
    /// @param lost pieces of this generation that did not fit into the queue before
    private record Piece(PreviewStream stream, Kind kind, String text, int tokens, long lost, long atUs) {}

    private final TextEngine engine;
    private final AvroEncoder<Delta> encoder;
    private final Supplier<Producer<byte[], byte[]>> producers;
    private final String topic;
    private final int most;
    private final int mostBytes;
    private final PreviewMeters meters;
    private final Clock clock;
    private final Queue<Piece> pieces = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicLong attempts = new AtomicLong();
    private final Thread thread = Thread.ofPlatform().name("millrace-previews").daemon().unstarted(this::run);
    private volatile boolean idle;
    private volatile boolean closing;
    private volatile boolean over;
    private volatile boolean down;
    private volatile long downUntilNanos;
    private @Nullable Producer<byte[], byte[]> producer;
    private volatile long warnedNanos = System.nanoTime() - WARN_EVERY_NANOS;

    KafkaPreviews(
            TextEngine engine, AvroEncoder<Delta> encoder, Supplier<Producer<byte[], byte[]>> producers, ServiceConfig config,
            PreviewMeters meters, Clock clock) {
        this.engine = engine;
        this.encoder = encoder;
        this.producers = producers;
        this.topic = config.string("topics.deltas");
        this.most = config.integer("previews.queue.max");
        this.mostBytes = ProducerLimits.maxRecordBytes(config);
        this.meters = meters;
        this.clock = clock;
    }

    static KafkaPreviews start(
            TextEngine engine, AvroEncoder<Delta> encoder, Supplier<Producer<byte[], byte[]>> producers, ServiceConfig config,
            PreviewMeters meters) {
        return new KafkaPreviews(engine, encoder, producers, config, meters, Clock.systemUTC()).start();
    }

    KafkaPreviews start() {
        thread.start();
        return this;
    }

    @Override
    public GenerationListener of(Shown request, BooleanSupplier over, GenerationListener end) {
        if (!request.prompt().getPreview()) {
            return end;
        }
        PreviewStream stream = new PreviewStream(request, engine, attempt());
        if (request.again()) {
            put(new Piece(stream, Kind.RESTART, "", 0, 0, nowUs()));
        }
        return new Listener(stream, over, end);
    }

    /// Rises with every generation, also over restarts and from instance to instance: the time, in microseconds.
    private long attempt() {
        long now = nowUs();
        return attempts.accumulateAndGet(now, (last, time) -> Math.max(last + 1, time));
    }

    private long nowUs() {
        Instant now = clock.instant();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    /// On the engine's thread.
    private final class Listener implements GenerationListener {
        private final PreviewStream stream;
        private final BooleanSupplier over;
        private final GenerationListener end;
        private long lost;

        private Listener(PreviewStream stream, BooleanSupplier over, GenerationListener end) {
            this.stream = stream;
            this.over = over;
            this.end = end;
        }

        @Override
        public void onDelta(String text, int tokens) {
            // Behind a hole nothing can be read: markup may have begun in it.
            if (lost > 0 || waiting.get() >= most) {
                lost++;
                meters.overflowed();
                return;
            }
            put(new Piece(stream, Kind.TEXT, text, tokens, 0, nowUs()));
        }

        @Override
        public void onRestart() {
            put(new Piece(stream, Kind.RESTART, "", 0, lost, nowUs()));
            lost = 0;
        }

        @Override
        public void onEnd(GenerationResult result) {
            // Where no completion is on its way, the prompt stays pending and a later attempt tells of it.
            boolean failed = result.reason() == FinishReason.FAILED && "ENGINE_FAILED".equals(result.errorCode());
            if (!failed && !over.getAsBoolean()) {
                put(new Piece(stream, Kind.END, "", result.usage().completionTokens(), lost, nowUs()));
            }
            end.onEnd(result);
        }
    }

    private void put(Piece piece) {
        if (over) {
            return;
        }
        waiting.incrementAndGet();
        pieces.add(piece);
        if (idle) {
            LockSupport.unpark(thread);
        }
    }

    private void run() {
        try {
            // Connects before the first token has to wait for it.
            warmUp();
            List<Piece> taken = new ArrayList<>(AT_ONCE);
            while (!closing || !pieces.isEmpty()) {
                for (Piece next = pieces.poll(); next != null; next = taken.size() < AT_ONCE ? pieces.poll() : null) {
                    taken.add(next);
                }
                if (taken.isEmpty()) {
                    rest();
                } else {
                    waiting.addAndGet(-taken.size());
                    turn(taken);
                    taken.clear();
                }
            }
        } finally {
            over = true;
            pieces.clear();
            if (producer != null) {
                producer.close(LAST_WORDS);
            }
        }
    }

    private void rest() {
        idle = true;
        if (pieces.isEmpty() && !closing) {
            LockSupport.parkNanos(this, PAUSE_NANOS);
        }
        idle = false;
    }

    private void warmUp() {
        try {
            producer().partitionsFor(topic);
        } catch (KafkaException e) {
            failed(e, false);
        }
    }

    /// Text of one generation that waits together becomes one delta: a sender that is behind sends fewer.
    private void turn(List<Piece> taken) {
        Set<PreviewStream> more = new LinkedHashSet<>();
        for (Piece piece : taken) {
            PreviewStream stream = piece.stream();
            switch (piece.kind()) {
                case TEXT -> {
                    stream.append(piece.text(), piece.tokens(), piece.atUs());
                    more.add(stream);
                }
                case RESTART -> {
                    if (more.remove(stream)) {
                        send(stream, stream.deltas());
                    }
                    send(stream, List.of(stream.restart(piece.lost(), piece.atUs())));
                }
                case END -> {
                    more.remove(stream);
                    send(stream, stream.end(piece.lost(), piece.tokens()));
                }
            }
        }
        more.forEach(stream -> send(stream, stream.deltas()));
    }

    private void send(PreviewStream stream, List<Delta> deltas) {
        for (Delta delta : deltas) {
            byte[] value = encoder.encode(delta);
            if (value.length > mostBytes || down && System.nanoTime() - downUntilNanos < 0) {
                meters.failed();
                continue;
            }
            try {
                transmit(stream.source(), delta, value);
            } catch (RuntimeException e) {
                // The producer itself is of no more use.
                meters.failed();
                failed(e, true);
            }
        }
    }

    private void transmit(Source source, Delta delta, byte[] value) {
        byte[] key = source.key() == null || source.key().length > ProducerLimits.MAX_COPIED_BYTES
                ? delta.getRequestId().getBytes(StandardCharsets.UTF_8) : source.key();
        Headers headers = new RecordHeaders();
        headers.add(HEADER, UNATTESTED.getBytes(StandardCharsets.UTF_8));
        TraceContext.of(source.headers()).ifPresent(trace -> trace.put(headers));
        boolean text = delta.getKind() != DeltaKind.END && delta.getKind() != DeltaKind.RESTART;
        producer().send(new ProducerRecord<>(topic, source.partition(), null, key, value, headers), (at, problem) -> {
            if (problem == null) {
                down = false;
                meters.sent();
                if (text) {
                    meters.delayed((nowUs() - delta.getSampledUs()) * 1_000);
                }
            } else {
                meters.failed();
                if (!(problem instanceof RecordTooLargeException)) {
                    failed(problem, false);
                }
            }
        });
    }

    private Producer<byte[], byte[]> producer() {
        Producer<byte[], byte[]> now = producer;
        if (now == null) {
            now = producers.get();
            producer = now;
        }
        return now;
    }

    /// Sends nothing for a moment: the queue goes on being emptied, whatever the brokers do.
    private void failed(Exception why, boolean anew) {
        downUntilNanos = System.nanoTime() + (anew ? LONG_PAUSE_NANOS : PAUSE_NANOS);
        down = true;
        if (anew && producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
        if (System.nanoTime() - warnedNanos >= WARN_EVERY_NANOS) {
            warnedNanos = System.nanoTime();
            LOG.warn("previews are lost, topic {}: {}: {}; completions are not affected", topic, why.getClass().getSimpleName(),
                    why.getMessage());
        }
    }

    /// Sends what waits, for a moment if need be.
    @Override
    public void close() {
        closing = true;
        LockSupport.unpark(thread);
        try {
            thread.join(LAST_WORDS.multipliedBy(2));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

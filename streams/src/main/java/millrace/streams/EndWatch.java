package millrace.streams;

import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.apache.kafka.streams.KafkaStreams;

/// Notices a Kafka Streams that has failed, is to end, and does not: it waits for a thread that waits for something that never
/// comes. It holds the stores and its place in the group, so nothing can be built beside it, and its partitions stand still until
/// the process ends.
///
/// While the cluster is away an end may take as long as it stays away, and is none of that.
final class EndWatch {
    /// How long an end may take with a cluster that answers.
    static final Duration PATIENCE = Duration.ofSeconds(90);

    private final Ticker ticker;
    private final BooleanSupplier clusterAnswers;
    private boolean ending;
    private long sinceNanos;

    /// @param clusterAnswers asked once each patience at most
    EndWatch(Ticker ticker, BooleanSupplier clusterAnswers) {
        this.ticker = ticker;
        this.clusterAnswers = clusterAnswers;
    }

    /// Whether this is the end that does not come. To be asked every second or so.
    boolean isStuck(KafkaStreams.State state) {
        boolean wasEnding = ending;
        ending = state == KafkaStreams.State.PENDING_ERROR || state == KafkaStreams.State.PENDING_SHUTDOWN;
        if (!ending || !wasEnding) {
            sinceNanos = ticker.nanos();
            return false;
        }
        if (ticker.nanos() - sinceNanos < PATIENCE.toNanos()) {
            return false;
        }
        boolean answers = clusterAnswers.getAsBoolean();
        sinceNanos = ticker.nanos();
        return answers;
    }

    static IllegalStateException stuck() {
        return new IllegalStateException("STREAMS_STUCK: expected Kafka Streams to end within " + PATIENCE.toSeconds()
                + " s of a failure, got none while the cluster answers; start again: prompts in flight stay pending");
    }
}

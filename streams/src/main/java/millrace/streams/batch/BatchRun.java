package millrace.streams.batch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.jspecify.annotations.Nullable;

/// A batch that this process works on: sends what is unsent, reads answers, settles it in the end. One at a time, by a
/// lock; one thread.
public final class BatchRun implements AutoCloseable {
    /// How long after its end answers are still waited for: those that were on their way.
    private static final long GRACE_MS = 5_000;
    private static final long SAVE_EVERY_MS = 1_000;
    private static final Duration IDLE = Duration.ofMillis(100);

    /// When to return.
    public enum Goal {
        /// When all of the input was sent.
        SENT,
        /// When every line is settled.
        SETTLED
    }

    private final BatchStore store;
    private final Manifest manifest;
    private final BatchTopics topics;
    private final Clock clock;
    private final FileChannel lockFile;
    private final SentLog sent;
    private final AnswerLog answers;
    private final Collector collector;
    private final Sender sender;
    private @Nullable BatchStatus ended;
    private @Nullable Map<TopicPartition, Long> lastEnds;
    private boolean cancelsSent;
    private long savedMs;

    /// @param topics of the batch's cluster; stays the caller's
    /// @param maxInFlight the most prompts that wait for their answers
    /// @throws BatchException `BATCH_BUSY` if another process works on it, `BATCH_CLUSTER` if it is one of another cluster
    public static BatchRun open(BatchStore store, Manifest manifest, BatchTopics topics, int maxInFlight, Clock clock) {
        String cluster = topics.cluster();
        if (!cluster.equals(manifest.cluster())) {
            throw new BatchException("BATCH_CLUSTER", manifest.id() + ": expected the cluster that it was submitted to, " + manifest.cluster()
                    + ", got " + cluster + "; give its address");
        }
        FileChannel lockFile = lock(store.directory(manifest), manifest);
        try {
            return new BatchRun(store, manifest, topics, maxInFlight, clock, lockFile);
        } catch (RuntimeException e) {
            close(lockFile);
            throw e;
        }
    }

    private BatchRun(BatchStore store, Manifest manifest, BatchTopics topics, int maxInFlight, Clock clock, FileChannel lockFile) {
        this.store = store;
        this.manifest = manifest;
        this.topics = topics;
        this.clock = clock;
        this.lockFile = lockFile;
        sent = new SentLog(store.directory(manifest));
        answers = new AnswerLog(store.directory(manifest), manifest.positions());
        sender = new Sender(store.directory(manifest).resolve(BatchStore.INPUT), manifest, topics, sent, answers, maxInFlight);
        collector = new Collector(manifest, sent, answers, sender::putOff);
        ended = store.ended(manifest);
        if (ended == null) {
            topics.seek(answers);
            answers.putOff(entry -> sender.putOff(entry.line(), entry.part(), entry.offset()));
        }
    }

    private static FileChannel lock(Path directory, Manifest manifest) {
        FileChannel channel = null;
        try {
            channel = FileChannel.open(directory.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            // The lock goes with the process, however that ends.
            FileLock lock = channel.tryLock();
            if (lock != null) {
                return channel;
            }
        } catch (OverlappingFileLockException e) {
            // Another thread of this process has it.
        } catch (IOException e) {
            throw new UncheckedIOException(directory + ": cannot be locked: " + e.getMessage(), e);
        }
        close(channel);
        throw new BatchException("BATCH_BUSY", manifest.id() + ": another process works on it; wait for it or stop it");
    }

    private static void close(@Nullable FileChannel channel) {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Sends and reads until the goal is reached, or until it is told to stop.
    public void work(Goal goal, BooleanSupplier stop, Consumer<BatchStatus> progress) {
        if (ended != null) {
            return;
        }
        if (!sent.isComplete()) {
            // What was sent before, and not written down as sent, may be answered already.
            catchUp();
        }
        long told = clock.millis();
        while (!stop.getAsBoolean()) {
            long now = clock.millis();
            boolean busy = step(now);
            if (goal == Goal.SETTLED || sent.isComplete() || sender.isFull()) {
                busy |= topics.poll(busy ? Duration.ZERO : IDLE, answers, collector);
                saveSometimes(now);
            }
            if (goal == Goal.SENT && sent.isComplete() || settle()) {
                break;
            }
            if (now - told >= SAVE_EVERY_MS) {
                told = now;
                progress.accept(status());
            }
        }
        answers.save();
    }

    /// Reads all answers that are there now, sends again what may be by now, and settles the batch if that is possible.
    public void collect() {
        if (ended != null) {
            return;
        }
        catchUp();
        long now = clock.millis();
        if (sent.isComplete()) {
            step(now);
        }
        if (!settle() && isOver(now) && sent.isComplete()) {
            catchUp();
            settle();
        }
        answers.save();
    }

    private boolean step(long now) {
        boolean over = isOver(now);
        boolean busy = sender.send(over);
        if (over) {
            if (store.cancelledMs(manifest) >= 0 && !cancelsSent && sent.isComplete()) {
                sender.sendCancels(now);
                cancelsSent = true;
            }
            return busy;
        }
        return sender.sendAgain(now) || busy;
    }

    /// Whether no line should be begun any more.
    private boolean isOver(long now) {
        return now >= manifest.expiresMs() || store.cancelledMs(manifest) >= 0;
    }

    private void catchUp() {
        Map<TopicPartition, Long> ends = topics.ends();
        while (!topics.reached(ends)) {
            topics.poll(IDLE, answers, collector);
            saveSometimes(clock.millis());
        }
        answers.save();
    }

    private void saveSometimes(long now) {
        if (now - savedMs >= SAVE_EVERY_MS && collector.hasNews()) {
            answers.save();
            savedMs = now;
        }
    }

    /// Writes down that it has ended, if it has.
    private boolean settle() {
        if (!sent.isComplete()) {
            return false;
        }
        long cancelled = store.cancelledMs(manifest);
        BatchStatus.State early = cancelled >= 0 && cancelled < manifest.expiresMs() ? BatchStatus.State.CANCELLED : BatchStatus.State.EXPIRED;
        if (answers.answered() >= sent.sent()) {
            return end(answers.unfinished() == 0 ? BatchStatus.State.COMPLETED : early);
        }
        long overMs = cancelled >= 0 ? Math.min(cancelled, manifest.expiresMs()) : manifest.expiresMs();
        if (clock.millis() < overMs + GRACE_MS) {
            return false;
        }
        if (lastEnds == null) {
            lastEnds = topics.ends();
        }
        return topics.reached(lastEnds) && end(early);
    }

    private boolean end(BatchStatus.State state) {
        answers.save();
        BatchStatus now = status();
        store.end(manifest, state, clock.millis(), now.completed(), manifest.lines() - now.completed());
        ended = store.ended(manifest);
        return true;
    }

    /// How it stands by what was read so far.
    public BatchStatus status() {
        if (ended != null) {
            return ended;
        }
        int completed = 0;
        int failed = sent.refused();
        for (int line = 1; line <= sent.line(); line++) {
            int parts = sent.parts(line);
            if (parts > 0 && answers.answered(line) >= parts) {
                completed += answers.hasError(line) ? 0 : 1;
                failed += answers.hasError(line) ? 1 : 0;
            }
        }
        BatchStatus.State state = store.cancelledMs(manifest) < 0 ? BatchStatus.State.IN_PROGRESS : BatchStatus.State.CANCELLING;
        return new BatchStatus(manifest, state, manifest.lines(), completed, failed, sent.line(), sent.isComplete(), -1);
    }

    /// Writes what is settled: answers to one sink, errors to the other, each line in one of them and once, in the order
    /// of the lines. Of a batch that has not ended, what is there.
    public BatchWriter.Counts write(BatchWriter.Sink results, BatchWriter.Sink errors) {
        return new BatchWriter(store.directory(manifest), manifest, sent, answers, ended == null ? null : ended.state(), topics.mostBytes())
                .write(results, errors);
    }

    /// Writes what is settled into the batch's own directory, for who serves it from there.
    public void publish() {
        store.publish(manifest, this);
    }

    /// The request id of a line: a function of the batch and the line, so that a prompt that is sent twice is answered once.
    static String requestId(Manifest manifest, int line) {
        return manifest.id() + "." + line;
    }

    @Override
    public void close() {
        sent.close();
        answers.close();
        close(lockFile);
    }
}

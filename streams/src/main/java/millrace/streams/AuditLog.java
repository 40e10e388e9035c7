package millrace.streams;

import java.time.Duration;
import java.util.Optional;
import millrace.integrity.Digest;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.schemas.PreviousLog;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The Merkle log of one audit partition: its state in the store, in the transaction of the leaves.
///
/// Before it grows it is compared with what the audit topic holds. State that was lost or rolled back would begin a
/// second log under the same name; that is refused, or begins a new epoch that names the old log.
final class AuditLog {
    static final String STORE = "tlog";
    private static final Bytes KEY = Bytes.wrap(new byte[] {0});
    /// The store is shared: 1 are the log's keys, 2 and 3 marks of pruning.
    private static final Bytes WRITERS = Bytes.wrap(new byte[] {4});
    private static final Bytes BEFORE = Bytes.wrap(new byte[] {5});
    private static final Logger LOG = LoggerFactory.getLogger(AuditLog.class);

    private final KeyValueStore<Bytes, byte[]> store;
    private TreeState state;
    private @Nullable PreviousLog previous;
    private LogWriters writers = LogWriters.NONE;
    private @Nullable EndedLog before;
    private boolean dirty;

    /// The log's state and the audit topic do not agree.
    static final class DivergedException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        DivergedException(String message) {
            super("LOG_STATE_DIVERGED: " + message);
        }
    }

    private AuditLog(KeyValueStore<Bytes, byte[]> store, TreeState state) {
        this.store = store;
        this.state = state;
    }

    /// Opens the log of `origin.partition()`, whose epoch is taken from the store where there is one.
    ///
    /// @param patience how long a disagreement may last before it counts: commit markers reach the changelog and the
    ///     audit partition at different moments
    static AuditLog open(
            KeyValueStore<Bytes, byte[]> store, Origin origin, AuditTail tail, Duration patience, Ticker ticker,
            boolean newEpoch) {
        byte[] kept = store.get(KEY);
        AuditLog log = new AuditLog(store, kept == null ? TreeState.start(origin) : TreeState.decode(kept));
        long giveUpAt = ticker.nanos() + patience.toNanos();
        Optional<AuditTail.Last> last = tail.last(origin.partition());
        long pauseMs = 50;
        while (!log.agrees(last) && ticker.nanos() < giveUpAt) {
            try {
                ticker.pause(pauseMs);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new DivergedException("interrupted while waiting for the audit topic");
            }
            pauseMs = Math.min(1_000, pauseMs * 2);
            last = tail.last(origin.partition());
        }
        if (!log.agrees(last)) {
            log.diverged(last.orElse(null), newEpoch);
        } else if (kept != null) {
            byte[] known = store.get(WRITERS);
            log.writers = known == null ? LogWriters.NONE : LogWriters.decode(known);
            byte[] ended = store.get(BEFORE);
            log.before = ended == null ? null : EndedLog.decode(ended);
        }
        return log;
    }

    private boolean agrees(Optional<AuditTail.Last> last) {
        if (last.isEmpty()) {
            // A log that has grown and a topic that is empty: the topic was deleted, or made anew.
            return state.size() == 0;
        }
        return state.size() > 0
                && last.get().seq() == state.size() - 1
                && last.get().leaf().equals(state.lastLeaf())
                && last.get().origin().equals(state.origin().text());
    }

    private void diverged(AuditTail.@Nullable Last last, boolean newEpoch) {
        String found = last == null ? "no leaf" : "leaf " + last.seq() + " of " + last.origin() + " (" + last.leaf().hex() + ")";
        String kept = state.size() == 0 ? "no leaf"
                : "leaf " + (state.size() - 1) + " of " + state.origin().text() + " (" + state.lastLeaf().hex() + ")";
        if (!newEpoch) {
            throw new DivergedException("audit partition " + state.origin().partition() + " ends with " + found
                    + ", the log's state with " + kept + "; the state was lost or the topic changed. Find out why; to go on,"
                    + " start once with -D audit.epoch.new=true, which begins a new epoch and says so in the log");
        }
        Origin before = last == null ? state.origin() : Origin.parse(last.origin());
        // The root of the leaves in the topic is not known here: the state belongs to other leaves.
        Digest root = last == null ? state.frontier().root() : Digest.ZERO;
        previous = new PreviousLog(before.text(), last == null ? state.size() : last.seq() + 1, root.toHash(), "STATE_LOST");
        state = TreeState.start(before.nextEpoch());
        LOG.warn("audit partition {}: began epoch {} after {} (state had {})", before.partition(), state.epoch(), found, kept);
    }

    TreeState state() {
        return state;
    }

    /// The log before this epoch, until its EPOCH_START leaf was appended; then null.
    @Nullable PreviousLog previous() {
        return previous;
    }

    /// Ends this log where it is; the next leaf is the first of the next epoch.
    ///
    /// @return what that leaf must say of this log
    PreviousLog newEpoch(String reason) {
        PreviousLog ended = new PreviousLog(state.origin().text(), state.size(), state.frontier().root().toHash(), reason);
        previous = ended;
        before = new EndedLog(state.origin().text(), state.size(), writers);
        store.put(BEFORE, before.encode());
        state = TreeState.start(state.origin().nextEpoch());
        writers = LogWriters.NONE;
        return ended;
    }

    /// What a process that has written here before must know to tell its own leaves.
    ///
    /// @param writer names this run of the process, see [LogWriters]
    LogMemory.Opened opened(long writer) {
        EndedLog old = before;
        return new LogMemory.Opened(state.origin(), state.size(), seq -> writers.mayHaveWritten(writer, seq), old == null ? null
                : new LogMemory.Opened(Origin.parse(old.origin()), old.size(), seq -> old.writers().mayHaveWritten(writer, seq), null));
    }

    /// From the next leaf on this process writes.
    void beginWriting(long writer) {
        writers = writers.begin(writer, state.size());
        store.put(WRITERS, writers.encode());
    }

    void append(Digest leaf) {
        state = state.append(leaf);
        previous = null;
        dirty = true;
    }

    /// Puts the state into the store; to be called after the last append of a turn, before the thread may commit.
    void save() {
        if (dirty) {
            store.put(KEY, state.encode());
            dirty = false;
        }
    }
}

package millrace.integrity.audit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import millrace.integrity.Checkpoint;
import millrace.integrity.FollowState;
import millrace.integrity.FollowStateFile;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Origin;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.WireReader;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Schemas;
import org.jspecify.annotations.Nullable;

/// A monitor: verifies a log from its beginning and goes on as it grows, against what it has seen before. As a witness
/// it cosigns what it found consistent.
///
/// Every leaf is verified again at each start; what the state file says of earlier runs is compared with it, as if it were
/// a checkpoint. So a log that was rewritten or cut off in between is found, whatever else agrees with it.
public final class AuditFollower {
    private static final int KEPT_CHECKPOINTS = 64;

    /// Told of what happens, on the calling thread.
    public interface Listener {
        /// A leaf that is no answer and no self-test: a fault, a retraction, a new epoch, another key and so on.
        void event(LogVerifier.Checked leaf);

        /// A checkpoint was cosigned and published.
        void cosigned(SignedNote note);

        /// Something that a person should know.
        void note(String line);

        void progress(AuditVerifier.Progress progress);
    }

    private final FollowOptions options;
    private final Listener listener;
    private final AuditReading reading;
    private final WireReader<CheckpointRecord> reader;
    private final Map<String, TreeMap<Long, SignedNote>> notes = new HashMap<>();
    private FollowState remembered = FollowState.EMPTY;
    private String told = "";

    private AuditFollower(FollowOptions options, Listener listener) {
        this.options = options;
        this.listener = listener;
        reader = new WireReader<>(Schemas.CHECKPOINT, options.audit().resolver());
        reading = new AuditReading(options.audit(), new AuditReading.Listener() {
            @Override
            public void leaf(LogVerifier.Checked leaf) {
                tell(leaf);
            }

            @Override
            public void checkpoint(byte[] value) {
                keep(value);
            }
        }, listener::progress);
    }

    /// Follows until a violation, the end of the time given, or a stop.
    ///
    /// @return what was found until then; its verdict is the violation that ended it
    /// @throws IntegrityException codes `AUDIT_TOPIC_MISSING`, `AUDIT_READ_STALLED` and those of the state file
    public static AuditReport run(FollowOptions options, Listener listener) {
        long start = System.nanoTime();
        AuditFollower follower = new AuditFollower(options, listener);
        try (AuditReading reading = follower.reading) {
            Verdict verdict = follower.follow(start);
            return AuditVerifier.report(reading, options.audit(), verdict, (System.nanoTime() - start) / 1e9);
        } catch (IOException e) {
            throw new UncheckedIOException("state file: cannot be written: " + e.getMessage(), e);
        }
    }

    private Verdict follow(long start) throws IOException {
        Refuted contradiction = remember();
        if (contradiction != null) {
            return contradiction;
        }
        reading.round();
        long settle = options.audit().settle().toNanos();
        long windowEnd = nextWindow(settle);
        Duration run = options.run();
        while (true) {
            Refuted found = violation();
            if (found == null) {
                found = accept();
            }
            if (found != null) {
                return found;
            }
            Verdict verdict = now();
            boolean open = reading.waits(verdict) || !verdict.ok() && rolledBack() != null;
            boolean windowOver = System.nanoTime() >= windowEnd;
            boolean ending = options.stopped().getAsBoolean()
                    || run != null && System.nanoTime() - start >= run.toNanos();
            if (ending && (!open || windowOver) || windowOver && verdict instanceof Refuted) {
                return verdict;
            }
            if (windowOver) {
                tell(verdict);
                windowEnd = nextWindow(settle);
            }
            if (!AuditVerifier.pause()) {
                return verdict;
            }
            reading.round();
        }
    }

    private long nextWindow(long settleNanos) {
        if (reading.matcher != null) {
            reading.matcher.startSettling();
        }
        return System.nanoTime() + settleNanos;
    }

    /// Takes up what was seen in earlier runs: the state file, and what this witness has published itself. The newer of
    /// both counts, so a state file from a backup does not let the witness sign anew what it has signed already.
    private @Nullable Refuted remember() throws IOException {
        FollowStateFile file = options.state();
        if (file == null) {
            return null;
        }
        try {
            takeUpPublished(file);
        } catch (IntegrityException e) {
            return new Refuted(e.code(), "what this witness published, against its state file",
                    "one history", String.valueOf(e.getMessage()), null);
        }
        remembered = file.state();
        for (SignedNote note : remembered.heads().values()) {
            Origin origin = Origin.parse(Checkpoint.parse(note.text()).origin());
            reading.log.note(new Place("state file", origin.partition(), -1), note, options.audit().partition());
        }
        return null;
    }

    private void takeUpPublished(FollowStateFile file) throws IOException {
        if (options.witness() == null || options.cosignatures() == null) {
            return;
        }
        FollowState state = file.state();
        for (SignedNote note : options.cosignatures().ofWitness(options.witness().verifier())) {
            Checkpoint published = Checkpoint.parse(note.text());
            Checkpoint known = state.head(published.origin());
            if (known == null || published.size() >= known.size()) {
                state = state.with(note);
            }
        }
        if (!state.equals(file.state())) {
            listener.note("the state file is behind what this witness has published: taken up from the topic");
            file.save(state);
        }
    }

    private @Nullable Refuted violation() {
        if (reading.violated()) {
            return (Refuted) reading.verdict();
        }
        return reading.wentBack();
    }

    /// What is the case now: what was read, and whether everything is there that was seen before.
    private Verdict now() {
        Verdict verdict = reading.verdict();
        Refuted back = rolledBack();
        return back != null && !(verdict instanceof Refuted) ? back : verdict;
    }

    /// A log that has fewer leaves than were seen in an earlier run; null if there is none. A log whose leaves have all
    /// expired is not one.
    private @Nullable Refuted rolledBack() {
        return remembered.rolledBack(options.audit().topic(),
                reading.log.logs().stream().filter(log -> !reading.expired(log)).toList());
    }

    /// Remembers, and as a witness cosigns, the newest checkpoint of each log that agrees with the leaves.
    private @Nullable Refuted accept() throws IOException {
        FollowStateFile file = options.state();
        for (LogStatus log : reading.log.logs()) {
            TreeMap<Long, SignedNote> kept = notes.get(log.origin().text());
            SignedNote note = kept == null ? null : kept.get(log.checkpointed());
            if (kept == null || note == null || file == null) {
                continue;
            }
            try {
                if (options.witness() != null && options.cosignatures() != null) {
                    SignedNote cosigned = options.witness().cosign(note);
                    options.cosignatures().publish(cosigned);
                    listener.cosigned(cosigned);
                } else {
                    file.save(file.state().with(note));
                }
            } catch (IntegrityException e) {
                return new Refuted(e.code(), "checkpoint of size %d".formatted(log.checkpointed()), "a log that only grew",
                        String.valueOf(e.getMessage()), new Place(options.audit().topic(), log.origin().partition(), -1));
            }
            kept.headMap(log.checkpointed(), true).clear();
        }
        return null;
    }

    private void keep(byte[] value) {
        SignedNote note = SignedNote.parse(reader.read(value).record().getNote());
        Checkpoint head = Checkpoint.parse(note.text());
        Checkpoint known = options.state() == null ? null : options.state().state().head(head.origin());
        if (known == null || head.size() > known.size()) {
            TreeMap<Long, SignedNote> kept = notes.computeIfAbsent(head.origin(), key -> new TreeMap<>());
            kept.put(head.size(), note);
            if (kept.size() > KEPT_CHECKPOINTS) {
                kept.pollFirstEntry();
            }
        }
    }

    private void tell(LogVerifier.Checked leaf) {
        AuditEvent event = leaf.record().getEvent();
        boolean routine = switch (event) {
            case INFERENCE, REFUSED, SCRUB -> true;
            case CANARY -> leaf.record().getVerdict() == AuditVerdict.OK;
            default -> false;
        };
        if (!routine) {
            listener.event(leaf);
        }
    }

    private void tell(Verdict verdict) {
        String line = verdict instanceof Undecided undecided ? "undecided: " + undecided : "";
        if (!line.equals(told) && !line.isEmpty()) {
            listener.note(line);
        }
        told = line;
    }
}

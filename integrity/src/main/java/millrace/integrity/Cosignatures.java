package millrace.integrity;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Stream;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import org.jspecify.annotations.Nullable;

/// What witnesses signed: how far each log is covered by enough of them. The checkpoints themselves go to a
/// [LogVerifier], which compares them with the leaves.
///
/// Who has cosigned a checkpoint has found it to begin with every smaller one, so a log is covered up to the size that
/// enough witnesses have reached. Not for use by two threads at once.
public final class Cosignatures {
    private static final int BATCH = 256;

    private final List<NoteVerifier> witnesses;
    private final int quorum;
    private final Map<String, Map<NoteVerifier, Long>> reached = new TreeMap<>();
    private final List<Unverified> unverified = new ArrayList<>();
    private @Nullable Refuted violation;

    private record Unverified(SignedNote note, List<NoteVerifier> signers, Place place) {}

    /// @param witnesses whose cosignatures count
    /// @param quorum how many of them must have cosigned, at least 1
    /// @throws IllegalArgumentException if there are fewer witnesses than that
    public Cosignatures(List<NoteVerifier> witnesses, int quorum) {
        this.witnesses = List.copyOf(witnesses);
        this.quorum = quorum;
        if (quorum < 1 || quorum > this.witnesses.stream().distinct().count()) {
            throw new IllegalArgumentException("--quorum: expected 1 to %d, the number of witnesses, got %d"
                    .formatted(this.witnesses.size(), quorum));
        }
    }

    /// Takes a record of the cosignatures topic: a signed note in UTF-8. One that no known witness signed is passed over.
    ///
    /// @param log gets the checkpoint
    /// @return whether nothing is violated so far
    public boolean take(LogVerifier log, Place place, byte @Nullable [] value, @Nullable Integer onlyPartition) {
        if (violation != null) {
            return false;
        }
        try {
            SignedNote note = SignedNote.parse(new String(Objects.requireNonNullElse(value, new byte[0]), StandardCharsets.UTF_8));
            List<NoteVerifier> signers = witnesses.stream().filter(key -> !note.of(key).isEmpty()).toList();
            if (signers.isEmpty()) {
                return true;
            }
            unverified.add(new Unverified(note, signers, place));
            if (unverified.size() == BATCH) {
                verify();
            }
            return log.note(place, note, onlyPartition) && violation == null;
        } catch (IntegrityException e) {
            violation = refuted(e, place);
            return false;
        }
    }

    private static Refuted refuted(IntegrityException e, Place place) {
        return new Refuted(e.code(), "cosignature", "a checkpoint that a witness signed", e.getMessage(), place);
    }

    private void verify() {
        Refuted first = unverified.parallelStream().flatMap(Cosignatures::problem).findFirst().orElse(null);
        for (Unverified cosigned : first == null ? unverified : List.<Unverified>of()) {
            Checkpoint head = Checkpoint.parse(cosigned.note.text());
            Map<NoteVerifier, Long> sizes = reached.computeIfAbsent(head.origin(), key -> new HashMap<>());
            cosigned.signers.forEach(key -> sizes.merge(key, head.size(), Math::max));
        }
        unverified.clear();
        violation = violation == null ? first : violation;
    }

    private static Stream<Refuted> problem(Unverified cosigned) {
        try {
            cosigned.note.verify(cosigned.signers);
            Checkpoint.parse(cosigned.note.text());
            return Stream.empty();
        } catch (IntegrityException e) {
            return Stream.of(refuted(e, cosigned.place));
        }
    }

    public @Nullable Refuted violation() {
        verify();
        return violation;
    }

    /// Leaves of a log that enough witnesses have cosigned; 0 if there are not enough.
    public long covered(String origin) {
        verify();
        List<Long> sizes = new ArrayList<>(reached.getOrDefault(origin, Map.of()).values());
        sizes.sort((a, b) -> Long.compare(b, a));
        return sizes.size() < quorum ? 0 : sizes.get(quorum - 1);
    }

    /// The verdict over the logs as they were read: each has a checkpoint that enough witnesses cosigned.
    public Verdict verdict(List<LogStatus> logs) {
        verify();
        if (violation != null) {
            return violation;
        }
        for (LogStatus log : logs) {
            if (log.size() > 0 && covered(log.origin().text()) == 0) {
                int have = reached.getOrDefault(log.origin().text(), Map.of()).size();
                return new Undecided("WITNESS_MISSING", "log %s: expected cosignatures of %d of %s, got %d".formatted(
                        log.origin(), quorum, witnesses.stream().map(NoteVerifier::label).toList(), have));
            }
        }
        return Verdict.VERIFIED;
    }
}

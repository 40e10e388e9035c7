package millrace.integrity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import org.jspecify.annotations.Nullable;

/// Notes whose signatures are yet to be verified. They cost a hundred times as much as the rest of a checkpoint, so they are
/// verified many at a time, on all processors.
final class SignatureBatch {
    private static final int FULL = 256;

    private final List<Unverified> waiting = new ArrayList<>();

    private record Unverified(SignedNote note, Place place, List<NoteVerifier> keys) {
        Optional<Refuted> check() {
            try {
                note.verify(keys);
                return Optional.empty();
            } catch (IntegrityException e) {
                return Optional.of(refuted(e, place));
            }
        }
    }

    /// @param keys of which at least one must have signed, and none wrongly
    void add(SignedNote note, Place place, Collection<NoteVerifier> keys) {
        waiting.add(new Unverified(note, place, List.copyOf(keys)));
    }

    boolean isFull() {
        return waiting.size() >= FULL;
    }

    /// Verifies what waits.
    ///
    /// @return the first that does not hold, in the order in which they came
    @Nullable Refuted verify() {
        if (waiting.isEmpty()) {
            return null;
        }
        Refuted first = waiting.parallelStream().map(Unverified::check).flatMap(Optional::stream).findFirst().orElse(null);
        waiting.clear();
        return first;
    }

    /// What is wrong with a checkpoint, as a verdict.
    static Refuted refuted(IntegrityException e, Place place) {
        String code = e.code().equals("AVRO_DECODE") ? "NOTE_RECORD" : e.code();
        return new Refuted(code, "checkpoint", "a signed checkpoint of a log", e.getMessage(), place);
    }
}

package millrace.integrity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import millrace.integrity.LogVerifier.Violation;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;

/// Which keys may sign the checkpoints of one log, and which must.
///
/// Keys are trusted because they were given, or because a `KEY_ROTATION` leaf names them and a checkpoint that covers the leaf is
/// signed by the key before: who could sign that could as well have signed everything else. From a rotation's leaf on every
/// checkpoint must carry the new key's signature; while the rotation lasts it carries both. After a compromise the old key
/// proves nothing, so a key that an `EPOCH_START` leaf names is trusted only if it was given.
///
/// Checkpoints are settled in order of size, after the leaves that they cover.
final class LogKeyring {
    private final List<NoteVerifier> given;
    private List<NoteVerifier> first; // may sign before the first rotation
    private final List<Rotation> rotations = new ArrayList<>();

    /// A leaf that names the key that signs from it on.
    private static final class Rotation {
        final long index;
        final NoteVerifier key;
        final boolean compromised;
        boolean accepted;

        Rotation(long index, NoteVerifier key, boolean compromised, boolean accepted) {
            this.index = index;
            this.key = key;
            this.compromised = compromised;
            this.accepted = accepted;
        }
    }

    /// @param given empty to check no signatures
    LogKeyring(Collection<NoteVerifier> given) {
        this.given = List.copyOf(given);
        this.first = this.given;
    }

    /// The log follows another: who signed that one last signs this one first.
    void follow(LogKeyring before) {
        if (before.rotations.isEmpty()) {
            first = before.first;
        } else if (before.rotations.getLast().accepted) {
            first = List.of(before.rotations.getLast().key);
        }
    }

    boolean isEmpty() {
        return given.isEmpty();
    }

    /// Takes a leaf that names a new key.
    ///
    /// @param compromised whether the log begins with it, because the key before is not to be trusted any more
    void rotate(long index, NoteVerifier key, boolean compromised) {
        rotations.add(new Rotation(index, key, compromised, given.contains(key)));
    }

    /// Whether a key that is trusted now has a line in the note.
    boolean knows(SignedNote note) {
        return given.isEmpty() || signed(note, given) || signed(note, first)
                || rotations.stream().anyMatch(rotation -> rotation.accepted && signed(note, List.of(rotation.key)));
    }

    /// Whether the note may yet turn out to be signed by a key that is to be trusted.
    boolean mayKnow(SignedNote note) {
        return knows(note) || rotations.stream().anyMatch(rotation -> signed(note, List.of(rotation.key)));
    }

    /// Whether a key that is trusted now has signed the note. Verifies the signature.
    boolean hasSigned(SignedNote note) {
        List<NoteVerifier> trusted = new ArrayList<>(given);
        trusted.addAll(first);
        rotations.stream().filter(rotation -> rotation.accepted).forEach(rotation -> trusted.add(rotation.key));
        try {
            return !trusted.isEmpty() && !note.verify(trusted).isEmpty();
        } catch (IntegrityException e) {
            return false;
        }
    }

    /// Refuses a note that no key of this log has signed.
    void requireKnown(SignedNote note, Place place) {
        if (!knows(note)) {
            throw new Violation(unknown(note, place));
        }
    }

    Refuted unknown(SignedNote note, Place place) {
        try {
            note.verify(given);
            throw new IllegalStateException("a note that no given key has signed does not verify");
        } catch (IntegrityException e) {
            return SignatureBatch.refuted(e, place);
        }
    }

    /// Checks who signed a checkpoint whose leaves are here and whose root agrees.
    ///
    /// @param batch takes signatures that can be verified later
    void settle(long size, SignedNote note, Place place, SignatureBatch batch) {
        if (given.isEmpty()) {
            return;
        }
        Rotation current = null;
        List<NoteVerifier> before = first;
        for (Rotation rotation : rotations) {
            if (rotation.index >= size) {
                break;
            }
            if (!rotation.accepted && !rotation.compromised && signed(note, before)) {
                rotation.accepted = verified(note, place, before);
            }
            before = rotation.accepted ? List.of(rotation.key) : List.of();
            current = rotation;
        }
        if (current == null) {
            requireKnown(note, place);
            if (!signed(note, first)) {
                throw retired(size, first.getFirst(), 0, note, place);
            }
            if (!first.equals(given)) {
                batch.add(note, place, first);
            }
            return;
        }
        if (!signed(note, List.of(current.key))) {
            throw retired(size, current.key, current.index, note, place);
        }
        if (!current.accepted && current.compromised) {
            throw new Violation(unknown(note, place));
        }
        if (!current.accepted) {
            throw new Violation(new Refuted("LOG_KEY_ROTATION", "checkpoint of size %d: keys".formatted(size),
                    "first one by the key before leaf %d, which names %s".formatted(current.index, current.key.label()),
                    "only " + labels(note), place));
        }
        batch.add(note, place, List.of(current.key));
    }

    private static Violation retired(long size, NoteVerifier key, long from, SignedNote note, Place place) {
        return new Violation(new Refuted("LOG_KEY_RETIRED", "checkpoint of size %d: keys".formatted(size),
                "a signature of %s, which signs from leaf %d on".formatted(key.label(), from), "only " + labels(note), place));
    }

    private static boolean verified(SignedNote note, Place place, List<NoteVerifier> keys) {
        try {
            note.verify(keys);
            return true;
        } catch (IntegrityException e) {
            throw new Violation(SignatureBatch.refuted(e, place));
        }
    }

    private static boolean signed(SignedNote note, Collection<NoteVerifier> keys) {
        return keys.stream().anyMatch(key -> !note.of(key).isEmpty());
    }

    private static List<String> labels(SignedNote note) {
        return note.signatures().stream().map(line -> "%s+%08x".formatted(Shown.text(line.keyName()), line.keyId())).toList();
    }
}

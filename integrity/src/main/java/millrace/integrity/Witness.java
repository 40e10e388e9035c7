package millrace.integrity;

import java.io.IOException;
import java.time.Clock;

/// Cosigns checkpoints, each log's in growing order. What it signs it has written down before, so that no crash and no
/// restart lets it sign two histories.
public final class Witness {
    private final NoteSigner key;
    private final FollowStateFile file;
    private final Clock clock;

    /// @param key of kind [NoteKey.Kind#WITNESS]
    /// @param clock tells the time that the cosignatures state
    /// @throws IntegrityException code `NOTE_KEY_KIND` for a key of another kind
    public Witness(NoteSigner key, FollowStateFile file, Clock clock) {
        this.key = key;
        this.file = file;
        this.clock = clock;
        key.requireKind(NoteKey.Kind.WITNESS);
    }

    public NoteVerifier verifier() {
        return key.verifier();
    }

    /// Remembers the checkpoint, then cosigns it.
    ///
    /// @param note signed by the log's key, of a tree that the caller has found to begin with that of the checkpoint
    ///     remembered before
    /// @return the note with this witness's signature
    /// @throws IntegrityException code `WITNESS_SMALLER` or `EQUIVOCATION`, see [FollowState#with]; nothing is signed then
    public SignedNote cosign(SignedNote note) throws IOException {
        remember(note);
        return note.cosign(key, clock.instant().getEpochSecond());
    }

    private void remember(SignedNote note) throws IOException {
        FollowState next = file.state().with(note);
        file.save(next);
    }
}

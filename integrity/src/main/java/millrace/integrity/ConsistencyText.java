package millrace.integrity;

import java.util.List;

/// A newer checkpoint with the proof that its tree begins with an older one, as one text: what c2sp.org/tlog-witness
/// sends to a witness.
///
/// Lines: `old N`, the path's hashes in Base64 one a line, an empty line, the newer checkpoint.
///
/// @param from leaves of the older tree
/// @param checkpoint the newer one
public record ConsistencyText(long from, List<Digest> path, SignedNote checkpoint) {
    private static final String OLD = "old ";
    private static final String FORM = "the line old N, then hashes, an empty line and a checkpoint";

    public ConsistencyText {
        path = List.copyOf(path);
    }

    public String encode() {
        return new HashLines(List.of(OLD + from), path, checkpoint).encode();
    }

    /// @throws IntegrityException code `PROOF_FORMAT`, and those of [SignedNote#parse(String)]
    public static ConsistencyText parse(String text) {
        HashLines lines = HashLines.parse(text, List.of(OLD), FORM);
        return new ConsistencyText(HashLines.number(lines.head().getFirst(), OLD), lines.path(), lines.checkpoint());
    }

    /// Whether the tree of `newer` begins with that of `older`. Signatures are not looked at.
    public Verdict verify(Checkpoint older, Checkpoint newer) {
        Checkpoint head = Checkpoint.parse(checkpoint.text());
        if (!head.equals(newer)) {
            return new Verdict.Refuted("PROOF_INVALID", "consistency proof: its checkpoint", oneLine(newer), oneLine(head));
        }
        if (from != older.size()) {
            return new Verdict.Refuted("PROOF_INVALID", "consistency proof: old size", older.size(), from);
        }
        return new ConsistencyProof(from, newer.size(), path).verify(older.root(), newer.root());
    }

    private static String oneLine(Checkpoint head) {
        return "%s, size %d, root %s".formatted(Shown.text(head.origin()), head.size(), head.root());
    }

    /// What two checkpoints of one log say of each other without a proof: equal sizes must have equal roots.
    ///
    /// @return `EQUIVOCATION` if they contradict each other; verified if they are the same; undecided with code
    ///     `PROOF_NEEDED` if a proof must decide
    /// @throws IntegrityException code `CHECKPOINT_OTHER_LOG` if they are of different logs, `CHECKPOINT_ORDER` if the
    ///     newer one is smaller
    public static Verdict compare(Checkpoint older, Checkpoint newer) {
        if (!older.origin().equals(newer.origin())) {
            throw new IntegrityException("CHECKPOINT_OTHER_LOG",
                    "consistency: expected two checkpoints of one log, got %s and %s"
                            .formatted(Shown.text(older.origin()), Shown.text(newer.origin())));
        }
        if (newer.size() < older.size()) {
            throw new IntegrityException("CHECKPOINT_ORDER",
                    "consistency: expected the newer checkpoint to have at least %d leaves, got %d; name the smaller one first"
                            .formatted(older.size(), newer.size()));
        }
        if (newer.size() > older.size()) {
            return new Verdict.Undecided("PROOF_NEEDED", "sizes %d and %d: only a consistency proof or the leaves decide"
                    .formatted(older.size(), newer.size()));
        }
        return newer.root().equals(older.root()) ? Verdict.VERIFIED
                : new Verdict.Refuted("EQUIVOCATION", "two checkpoints of size %d of log %s: root"
                        .formatted(older.size(), Shown.text(older.origin())), older.root(), newer.root());
    }
}

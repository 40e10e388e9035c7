package millrace.integrity;

import java.util.Collection;
import java.util.List;

/// An inclusion proof with the signed checkpoint it leads to, as one text that can be checked without a cluster
/// (c2sp.org/tlog-proof).
///
/// Lines: `c2sp.org/tlog-proof@v1`, `index N`, the path's hashes in Base64 one a line, an empty line, the checkpoint.
///
/// @param index of the leaf in its log
/// @param path from the leaf's sibling up to the root
public record TlogProof(long index, List<Digest> path, SignedNote checkpoint) {
    private static final String FIRST_LINE = "c2sp.org/tlog-proof@v1";
    private static final String INDEX = "index ";
    private static final String FORM =
            "the lines %s and index N, then hashes, an empty line and a checkpoint".formatted(FIRST_LINE);

    public TlogProof {
        path = List.copyOf(path);
    }

    public String encode() {
        return new HashLines(List.of(FIRST_LINE, INDEX + index), path, checkpoint).encode();
    }

    /// @throws IntegrityException code `PROOF_FORMAT`, and those of [SignedNote#parse(String)]
    public static TlogProof parse(String text) {
        HashLines lines = HashLines.parse(text, List.of(FIRST_LINE, INDEX), FORM);
        if (!lines.head().getFirst().equals(FIRST_LINE)) {
            throw HashLines.malformed("expected " + FORM);
        }
        return new TlogProof(HashLines.number(lines.head().get(1), INDEX), lines.path(), lines.checkpoint());
    }

    /// Whether the log that the keys sign holds this leaf at the index.
    ///
    /// @param keys of the log; at least one
    public Verdict verify(Digest leafHash, Collection<NoteVerifier> keys) {
        try {
            checkpoint.verify(keys);
            Checkpoint head = Checkpoint.parse(checkpoint.text());
            return new InclusionProof(index, head.size(), path).verify(leafHash, head.root());
        } catch (IntegrityException e) {
            return new Verdict.Refuted(e.code(), "proof: checkpoint", "one that a known key signed", e.getMessage());
        }
    }
}

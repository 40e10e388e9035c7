package millrace.integrity;

import java.util.ArrayList;
import java.util.Base64;
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
    private static final int MAX_PATH = 63;

    public TlogProof {
        path = List.copyOf(path);
    }

    public String encode() {
        StringBuilder out = new StringBuilder(FIRST_LINE).append('\n').append(INDEX).append(index).append('\n');
        path.forEach(hash -> out.append(Base64.getEncoder().encodeToString(hash.bytes())).append('\n'));
        return out.append('\n').append(checkpoint.encode()).toString();
    }

    /// @throws IntegrityException code `PROOF_FORMAT`, and those of [SignedNote#parse(String)]
    public static TlogProof parse(String text) {
        int split = text.indexOf("\n\n");
        List<String> lines = split < 0 ? List.of() : List.of(text.substring(0, split).split("\n", -1));
        if (lines.size() < 2 || !lines.getFirst().equals(FIRST_LINE) || !lines.get(1).startsWith(INDEX)) {
            throw new IntegrityException("PROOF_FORMAT",
                    "proof: expected the lines %s and index N, then hashes, an empty line and a checkpoint"
                            .formatted(FIRST_LINE));
        }
        String index = lines.get(1).substring(INDEX.length());
        if (!index.matches("0|[1-9][0-9]{0,17}")) {
            throw new IntegrityException("PROOF_FORMAT",
                    "proof: index: expected a decimal number without leading zeros, got \"%s\""
                            .formatted(Shown.text(index)));
        }
        if (lines.size() - 2 > MAX_PATH) {
            throw new IntegrityException("PROOF_FORMAT",
                    "proof: expected at most %d hashes, got %d".formatted(MAX_PATH, lines.size() - 2));
        }
        List<Digest> path = new ArrayList<>();
        for (String line : lines.subList(2, lines.size())) {
            byte[] hash = SignedNote.base64(line);
            if (hash == null || hash.length != Digest.BYTES) {
                throw new IntegrityException("PROOF_FORMAT",
                        "proof: expected a hash of 32 bytes in Base64, got \"%s\"".formatted(Shown.text(line)));
            }
            path.add(Digest.of(hash));
        }
        return new TlogProof(Long.parseLong(index), path, SignedNote.parse(text.substring(split + 2)));
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

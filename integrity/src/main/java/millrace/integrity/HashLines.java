package millrace.integrity;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/// The form that both kinds of proof share: lines before hashes in Base64, one a line, an empty line, a checkpoint.
///
/// @param head the lines before the hashes
record HashLines(List<String> head, List<Digest> path, SignedNote checkpoint) {
    private static final int MAX_PATH = 63;

    /// @param starts how the lines before the hashes begin
    /// @param form what the text must look like, for messages
    /// @throws IntegrityException code `PROOF_FORMAT`, and those of [SignedNote#parse(String)]
    static HashLines parse(String text, List<String> starts, String form) {
        int heads = starts.size();
        int split = text.indexOf("\n\n");
        List<String> lines = split < 0 ? List.of() : List.of(text.substring(0, split).split("\n", -1));
        boolean begins = lines.size() >= heads;
        for (int i = 0; begins && i < heads; i++) {
            begins = lines.get(i).startsWith(starts.get(i));
        }
        if (!begins) {
            throw malformed("expected " + form);
        }
        List<String> hashes = lines.subList(heads, lines.size());
        if (hashes.size() > MAX_PATH) {
            throw malformed("expected at most %d hashes, got %d".formatted(MAX_PATH, hashes.size()));
        }
        List<Digest> path = new ArrayList<>();
        for (String line : hashes) {
            byte[] hash = SignedNote.base64(line);
            if (hash == null || hash.length != Digest.BYTES) {
                throw malformed("expected a hash of 32 bytes in Base64, got \"%s\"".formatted(Shown.text(line)));
            }
            path.add(Digest.of(hash));
        }
        return new HashLines(lines.subList(0, heads), path, SignedNote.parse(text.substring(split + 2)));
    }

    String encode() {
        StringBuilder out = new StringBuilder();
        head.forEach(line -> out.append(line).append('\n'));
        path.forEach(hash -> out.append(Base64.getEncoder().encodeToString(hash.bytes())).append('\n'));
        return out.append('\n').append(checkpoint.encode()).toString();
    }

    /// The number after the start of a line.
    static long number(String line, String start) {
        String number = line.substring(start.length());
        if (!number.matches("0|[1-9][0-9]{0,17}")) {
            throw malformed("%s: expected a decimal number without leading zeros, got \"%s\""
                    .formatted(start.strip(), Shown.text(number)));
        }
        return Long.parseLong(number);
    }

    static IntegrityException malformed(String what) {
        return new IntegrityException("PROOF_FORMAT", "proof: " + what);
    }
}

package millrace.integrity;

import java.util.Base64;

/// A tree head: the log's name, its count of leaves and its root. What a note's signature covers.
///
/// Text of c2sp.org/tlog-checkpoint without extension lines: origin, size in decimal, root in Base64, each followed by
/// one newline.
///
/// @param origin name of the log; not parsed here, for a note may come from a foreign log
/// @param size count of leaves, at least 0
public record Checkpoint(String origin, long size, Digest root) {
    public Checkpoint {
        if (origin.isEmpty() || size < 0) {
            throw new IntegrityException("NOTE_CHECKPOINT",
                    "checkpoint: expected an origin and a size of at least 0, got \"%s\" and %d"
                            .formatted(Shown.text(origin), size));
        }
    }

    /// The three lines, each with its newline.
    public String text() {
        return "%s\n%d\n%s\n".formatted(origin, size, Base64.getEncoder().encodeToString(root.bytes()));
    }

    /// Signs the checkpoint with every key.
    public SignedNote sign(NoteSigner... keys) {
        return SignedNote.sign(text(), keys);
    }

    /// Reads the three lines.
    ///
    /// @throws IntegrityException `NOTE_ORIGIN`, `NOTE_SIZE`, `NOTE_ROOT`, `NOTE_EXTENSION` or `NOTE_FORM`
    public static Checkpoint parse(String text) {
        if (!text.endsWith("\n")) {
            throw new IntegrityException("NOTE_FORM", "checkpoint: expected a newline at the end of the text");
        }
        String[] lines = text.substring(0, text.length() - 1).split("\n", -1);
        if (lines.length < 3) {
            throw new IntegrityException("NOTE_FORM",
                    "checkpoint: expected the lines origin, size, root, got %d lines".formatted(lines.length));
        }
        if (lines[0].isEmpty()) {
            throw new IntegrityException("NOTE_ORIGIN", "checkpoint: expected an origin on line 1, got an empty line");
        }
        if (!isNumber(lines[1]) && isNumber(lines[2])) {
            throw new IntegrityException("NOTE_ORIGIN",
                    "checkpoint: expected one origin, got a second: \"%s\"".formatted(Shown.text(lines[1])));
        }
        long size = size(lines[1]);
        Digest root = root(lines[2]);
        if (lines.length > 3) {
            throw new IntegrityException("NOTE_EXTENSION",
                    "checkpoint: expected no line after the root, got \"%s\"".formatted(Shown.text(lines[3])));
        }
        return new Checkpoint(lines[0], size, root);
    }

    private static boolean isNumber(String line) {
        return !line.isEmpty() && line.chars().allMatch(c -> c >= '0' && c <= '9');
    }

    private static long size(String line) {
        boolean canonical = isNumber(line) && (line.equals("0") || line.charAt(0) != '0');
        if (canonical) {
            try {
                return Long.parseLong(line);
            } catch (NumberFormatException beyondLong) {
                canonical = false;
            }
        }
        throw new IntegrityException("NOTE_SIZE",
                "checkpoint: size: expected a decimal number below 2^63 without leading zeros, got \"%s\""
                        .formatted(Shown.text(line)));
    }

    private static Digest root(String line) {
        byte[] root = SignedNote.base64(line);
        if (root == null || root.length != Digest.BYTES) {
            throw new IntegrityException("NOTE_ROOT",
                    "checkpoint: root: expected 32 bytes in Base64, got \"%s\"".formatted(Shown.text(line)));
        }
        return Digest.of(root);
    }
}

package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A text with signatures, in the form of c2sp.org/signed-note: the text with its final newline, an empty line, and one
/// line per signature: an em dash, the key's name, and Base64 of the key's id and the signature. Only the text is
/// signed, without the empty line.
///
/// @param text ends with a newline; no control characters but newlines
/// @param signatures 1 to 16, in the order of their lines
public record SignedNote(String text, List<Signature> signatures) {
    public static final int MAX_SIGNATURES = 16;
    private static final int MAX_CHARACTERS = 1 << 20;
    private static final String LINE_START = "\u2014 ";

    /// One signature line, not yet verified.
    ///
    /// @param keyId first 4 bytes of a hash of the key, a hint of which key to try
    public record Signature(String keyName, int keyId, byte[] signature) {
        public Signature {
            signature = signature.clone();
        }

        @Override
        public byte[] signature() {
            return signature.clone();
        }

        boolean isOf(NoteKey key) {
            return key.keyId() == keyId && key.name().equals(keyName);
        }

        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof Signature that && keyName.equals(that.keyName) && keyId == that.keyId
                    && Arrays.equals(signature, that.signature);
        }

        @Override
        public int hashCode() {
            return 31 * (31 * keyName.hashCode() + keyId) + Arrays.hashCode(signature);
        }
    }

    public SignedNote {
        signatures = List.copyOf(signatures);
        checkCharacters(text);
        if (!text.endsWith("\n") || signatures.isEmpty()) {
            throw new IntegrityException("NOTE_FORM",
                    "note: expected a text that ends with a newline, and at least one signature");
        }
        if (signatures.size() > MAX_SIGNATURES) {
            throw new IntegrityException("NOTE_TOO_MANY_SIGNATURES",
                    "note: expected at most 16 signatures, got %d".formatted(signatures.size()));
        }
    }

    public static SignedNote sign(String text, NoteSigner... keys) {
        byte[] message = text.getBytes(StandardCharsets.UTF_8);
        return new SignedNote(text, Arrays.stream(keys)
                .map(key -> new Signature(key.name(), key.keyId(), key.sign(message)))
                .toList());
    }

    /// The note with a witness's signature after all others; an earlier one of the same key gives way.
    ///
    /// @param seconds since the epoch, UTC, when the witness saw it
    public SignedNote cosign(NoteSigner witness, long seconds) {
        List<Signature> all = new ArrayList<>(signatures);
        all.removeIf(line -> line.isOf(witness));
        all.add(new Signature(witness.name(), witness.keyId(),
                witness.cosign(text.getBytes(StandardCharsets.UTF_8), seconds)));
        return new SignedNote(text, all);
    }

    /// The signature lines of a key; usually one.
    public List<Signature> of(NoteVerifier key) {
        return signatures.stream().filter(line -> line.isOf(key)).toList();
    }

    /// The note as it is stored and sent.
    public String encode() {
        StringBuilder note = new StringBuilder(text).append('\n');
        for (Signature line : signatures) {
            byte[] blob = ByteBuffer.allocate(4 + line.signature.length).putInt(line.keyId).put(line.signature).array();
            note.append(LINE_START).append(line.keyName).append(' ')
                    .append(Base64.getEncoder().encodeToString(blob)).append('\n');
        }
        return note.toString();
    }

    /// Reads a note strictly; verifies nothing.
    ///
    /// @throws IntegrityException `NOTE_CONTROL`, `NOTE_FORM`, `NOTE_SIGNATURE_LINE` or `NOTE_TOO_MANY_SIGNATURES`
    public static SignedNote parse(String note) {
        checkCharacters(note);
        int split = note.lastIndexOf("\n\n");
        if (split < 0 || !note.endsWith("\n") || split + 2 == note.length()) {
            throw new IntegrityException("NOTE_FORM",
                    "note: expected a text, an empty line and signature lines that end with a newline");
        }
        String[] lines = note.substring(split + 2, note.length() - 1).split("\n", MAX_SIGNATURES + 2);
        if (lines.length > MAX_SIGNATURES) {
            throw new IntegrityException("NOTE_TOO_MANY_SIGNATURES", "note: expected at most 16 signatures, got more");
        }
        List<Signature> signatures = new ArrayList<>();
        for (String line : lines) {
            signatures.add(signature(line));
        }
        return new SignedNote(note.substring(0, split + 1), signatures);
    }

    private static Signature signature(String line) {
        int space = line.lastIndexOf(' ');
        if (line.startsWith(LINE_START) && space > LINE_START.length()) {
            String name = line.substring(LINE_START.length(), space);
            byte[] blob = base64(line.substring(space + 1));
            if (NoteKey.isName(name) && blob != null && blob.length > 4) {
                return new Signature(name, ByteBuffer.wrap(blob).getInt(), Arrays.copyOfRange(blob, 4, blob.length));
            }
        }
        throw new IntegrityException("NOTE_SIGNATURE_LINE",
                "note: expected \"\u2014 name base64\", got \"%s\"".formatted(Shown.text(line)));
    }

    /// Checks the signatures of known keys; those of unknown keys are passed over.
    ///
    /// @return the keys that signed, at least one
    /// @throws IntegrityException `NOTE_SIGNATURE` if a known key's signature is wrong, `NOTE_UNKNOWN_KEY` if none of
    ///     the keys signed
    public List<NoteVerifier> verify(Collection<NoteVerifier> known) {
        byte[] message = text.getBytes(StandardCharsets.UTF_8);
        List<NoteVerifier> signers = new ArrayList<>();
        for (Signature line : signatures) {
            for (NoteVerifier key : known) {
                if (line.isOf(key)) {
                    if (!key.verify(message, line.signature)) {
                        throw new IntegrityException("NOTE_SIGNATURE",
                                "note: signature of known key %s: expected a valid one, got %s"
                                        .formatted(key.vkey(), Base64.getEncoder().encodeToString(line.signature)));
                    }
                    signers.add(key);
                }
            }
        }
        if (signers.isEmpty()) {
            throw new IntegrityException("NOTE_UNKNOWN_KEY", "note: expected a signature of %s, got %s".formatted(
                    known.stream().map(NoteVerifier::label).toList(),
                    signatures.stream().map(s -> "%s+%08x".formatted(Shown.text(s.keyName), s.keyId)).toList()));
        }
        return signers;
    }

    /// Strict Base64: padded, no white space, no spare bits; null if the text is not that.
    static byte @Nullable [] base64(String text) {
        try {
            byte[] bytes = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(bytes).equals(text) ? bytes : null;
        } catch (IllegalArgumentException notBase64) {
            return null;
        }
    }

    private static void checkCharacters(String note) {
        if (note.length() > MAX_CHARACTERS) {
            throw new IntegrityException("NOTE_FORM",
                    "note: expected at most 1048576 characters, got %d".formatted(note.length()));
        }
        for (int i = 0; i < note.length(); i++) {
            char c = note.charAt(i);
            if (c < 0x20 && c != '\n' || c == 0x7F) {
                throw new IntegrityException("NOTE_CONTROL",
                        "note: expected no control characters but newlines, got U+%04X at character %d"
                                .formatted((int) c, i));
            }
        }
        try {
            StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(note));
        } catch (CharacterCodingException e) {
            throw new IntegrityException("NOTE_CONTROL", "note: expected valid Unicode, got a lone surrogate", e);
        }
    }
}

package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

class SignedNoteTest {
    /// The example of c2sp.org/signed-note.
    private static final String C2SP_VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    private static final String C2SP_NOTE = "This is an example message.\n\n\u2014 example.com/foo "
            + "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

    /// The example of golang.org/x/mod/sumdb/note, private key included: it guards nothing.
    private static final String GO_KEY =
            "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
    private static final String GO_VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

    private static final NoteSigner KEY = TestLog.KEY;
    private static final Checkpoint HEAD = new Checkpoint("example.com/c/audit/0/0", 7, Digest.sha256("root"));

    @Test
    void opensTheExampleOfTheSpecification() {
        NoteVerifier key = NoteVerifier.parse(C2SP_VKEY);
        assertThat(key.keyId()).isEqualTo(0x530d903a);
        assertThat(key.vkey()).isEqualTo(C2SP_VKEY);
        SignedNote note = SignedNote.parse(C2SP_NOTE);
        assertThat(note.text()).isEqualTo("This is an example message.\n");
        assertThat(note.verify(List.of(key))).containsExactly(key);
        assertThat(note.encode()).isEqualTo(C2SP_NOTE);
    }

    @Test
    void readsAKeyOfAnotherImplementationAndDerivesItsPublicHalf() {
        NoteSigner key = NoteSigner.parse(GO_KEY);
        assertThat(key.vkey()).isEqualTo(GO_VKEY);
        assertThat(key.secretText()).isEqualTo(GO_KEY);
        SignedNote note = SignedNote.sign("text\n", key);
        assertThat(note.verify(List.of(NoteVerifier.parse(GO_VKEY)))).hasSize(1);
        assertThat(note).isEqualTo(SignedNote.sign("text\n", key));
    }

    @Test
    void signsAndOpensACheckpoint() {
        SignedNote note = HEAD.sign(KEY, TestLog.key("witness.example", 9));
        SignedNote back = SignedNote.parse(note.encode());
        assertThat(back).isEqualTo(note);
        assertThat(Checkpoint.parse(back.text())).isEqualTo(HEAD);
        assertThat(back.verify(List.of(KEY.verifier()))).containsExactly(KEY.verifier());
    }

    @Test
    void refusesOtherFormsOfACheckpoint() {
        String root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
        refused(() -> Checkpoint.parse("o\n007\n" + root + "\n"), "NOTE_SIZE",
                "checkpoint: size: expected a decimal number below 2^63 without leading zeros, got \"007\"");
        refused(() -> Checkpoint.parse("o\n9223372036854775808\n" + root + "\n"), "NOTE_SIZE",
                "checkpoint: size: expected a decimal number below 2^63 without leading zeros,"
                        + " got \"9223372036854775808\"");
        refused(() -> Checkpoint.parse("o\n-1\n" + root + "\n"), "NOTE_SIZE",
                "checkpoint: size: expected a decimal number below 2^63 without leading zeros, got \"-1\"");
        refused(() -> Checkpoint.parse("o\n7\n" + root + "\nmore\n"), "NOTE_EXTENSION",
                "checkpoint: expected no line after the root, got \"more\"");
        refused(() -> Checkpoint.parse("o\n7\n" + root + "\n\n"), "NOTE_EXTENSION",
                "checkpoint: expected no line after the root, got \"\"");
        refused(() -> Checkpoint.parse("o\no2\n7\n" + root + "\n"), "NOTE_ORIGIN",
                "checkpoint: expected one origin, got a second: \"o2\"");
        refused(() -> Checkpoint.parse("\n7\n" + root + "\n"), "NOTE_ORIGIN",
                "checkpoint: expected an origin on line 1, got an empty line");
        refused(() -> Checkpoint.parse("o\n7\n" + root.substring(0, 42) + "==\n"), "NOTE_ROOT",
                "checkpoint: root: expected 32 bytes in Base64, got \"" + root.substring(0, 42) + "==\"");
        refused(() -> Checkpoint.parse("o\n7\n" + root.replace("2I=", "2J=") + "\n"), "NOTE_ROOT",
                "checkpoint: root: expected 32 bytes in Base64, got \"" + root.replace("2I=", "2J=") + "\"");
        refused(() -> Checkpoint.parse("o\n7\n"), "NOTE_FORM",
                "checkpoint: expected the lines origin, size, root, got 2 lines");
        refused(() -> Checkpoint.parse("o\n7\n" + root), "NOTE_FORM",
                "checkpoint: expected a newline at the end of the text");
    }

    @Test
    void refusesControlCharacters() {
        String note = HEAD.sign(KEY).encode();
        refused(() -> SignedNote.parse(note.replace("\n", "\r\n")), "NOTE_CONTROL",
                "note: expected no control characters but newlines, got U+000D at character 23");
        refused(() -> SignedNote.parse(note.replace('7', '\t')), "NOTE_CONTROL",
                "note: expected no control characters but newlines, got U+0009 at character 24");
        refused(() -> SignedNote.parse("\uD800" + note), "NOTE_CONTROL",
                "note: expected valid Unicode, got a lone surrogate");
    }

    @Test
    void refusesOtherForms() {
        String note = HEAD.sign(KEY).encode();
        String form = "note: expected a text, an empty line and signature lines that end with a newline";
        refused(() -> SignedNote.parse(""), "NOTE_FORM", form);
        refused(() -> SignedNote.parse(HEAD.text()), "NOTE_FORM", form);
        refused(() -> SignedNote.parse(HEAD.text() + "\n"), "NOTE_FORM", form);
        refused(() -> SignedNote.parse(note.substring(0, note.length() - 1)), "NOTE_FORM", form);
        for (String line : List.of("- k AAAAAAA=", "\u2014 k", "\u2014 k AAAA", "\u2014 k AAAAAAA",
                "\u2014 k+ AAAAAAA=", "\u2014  AAAAAAA=", "\u2014 a b AAAAAAA=", "\u2014 k AAAAAAA= ")) {
            refused(() -> SignedNote.parse(HEAD.text() + "\n" + line + "\n"), "NOTE_SIGNATURE_LINE",
                    "note: expected \"\u2014 name base64\", got \"" + line + "\"");
        }
    }

    @Test
    void acceptsSixteenSignaturesAndNoMore() {
        NoteSigner[] keys = new NoteSigner[16];
        for (int i = 0; i < 16; i++) {
            keys[i] = TestLog.key("key-" + i, i + 1);
        }
        String note = SignedNote.sign("text\n", keys).encode();
        assertThat(SignedNote.parse(note).verify(List.of(keys[15].verifier()))).hasSize(1);
        String line = note.substring(note.indexOf('\u2014'), note.indexOf('\n', note.indexOf('\u2014')) + 1);
        refused(() -> SignedNote.parse(note + line), "NOTE_TOO_MANY_SIGNATURES",
                "note: expected at most 16 signatures, got more");
    }

    @Test
    void passesOverUnknownKeysAndRefusesANoteWithOnlySuch() {
        NoteSigner other = TestLog.key("other.example", 3);
        HEAD.sign(other, KEY).verify(List.of(KEY.verifier()));
        refused(() -> HEAD.sign(other).verify(List.of(KEY.verifier())), "NOTE_UNKNOWN_KEY",
                "note: expected a signature of [%s], got [%s]".formatted(KEY.label(), other.label()));
        // The same name with another key is another key.
        NoteSigner namesake = TestLog.key(KEY.name(), 3);
        refused(() -> HEAD.sign(namesake).verify(List.of(KEY.verifier())), "NOTE_UNKNOWN_KEY",
                "note: expected a signature of [%s], got [%s]".formatted(KEY.label(), namesake.label()));
    }

    @Test
    void refusesAWrongSignatureOfAKnownKeyEvenBesideARightOne() {
        SignedNote.Signature right = HEAD.sign(KEY).signatures().getFirst();
        byte[] bytes = right.signature();
        bytes[5] ^= 1;
        SignedNote.Signature wrong = new SignedNote.Signature(right.keyName(), right.keyId(), bytes);
        SignedNote note = new SignedNote(HEAD.text(), List.of(right, wrong));
        assertThatThrownBy(() -> note.verify(List.of(KEY.verifier())))
                .hasMessageStartingWith("note: signature of known key " + KEY.vkey() + ": expected a valid one, got ")
                .extracting("code").isEqualTo("NOTE_SIGNATURE");
    }

    /// Whoever signs the empty line too signs another text.
    @Test
    void refusesASignatureOverTheEmptyLine() {
        SignedNote.Signature signature = SignedNote.sign(HEAD.text() + "\n", KEY).signatures().getFirst();
        SignedNote note = new SignedNote(HEAD.text(), List.of(signature));
        assertThatThrownBy(() -> note.verify(List.of(KEY.verifier()))).extracting("code").isEqualTo("NOTE_SIGNATURE");
    }

    @Test
    void refusesMalformedKeys() {
        for (String bad : List.of("", "a", "a+530d903a", C2SP_VKEY.replace("+A", "+B"), C2SP_VKEY.replace("foo", "f o"),
                C2SP_VKEY.replace("530d", "530D"), C2SP_VKEY + "A",
                "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")) {
            refused(() -> NoteVerifier.parse(bad), "NOTE_KEY", "key: expected name+id+base64 of an Ed25519 key");
        }
        refused(() -> NoteVerifier.parse(C2SP_VKEY.replace("foo", "bar")), "NOTE_KEY",
                "key example.com/bar: id: expected %08x, got 530d903a".formatted(
                        NoteVerifier.of("example.com/bar", NoteKey.Kind.LOG, publicKeyOf(C2SP_VKEY)).keyId()));
        refused(() -> NoteSigner.parse(C2SP_VKEY), "NOTE_KEY", "key: expected a text that begins with PRIVATE+KEY+");
    }

    private static byte[] publicKeyOf(String vkey) {
        return NoteKey.Parts.parse(vkey, "vkey").key();
    }

    @Test
    void neverShowsTheSecret() {
        String secret = KEY.secretText().substring(KEY.secretText().lastIndexOf('+') + 1);
        assertThat(KEY.toString()).doesNotContain(secret).isEqualTo("NoteSigner[" + KEY.label() + ", secret hidden]");
        assertThat(NoteKey.Parts.parse(KEY.secretText().substring("PRIVATE+KEY+".length()), "key").toString())
                .doesNotContain(secret);
        assertThatThrownBy(() -> NoteSigner.parse(KEY.secretText().replace("+AQ", "+BQ"))).message()
                .doesNotContain(secret.substring(2));
    }

    @Test
    void namesTenantsByPseudonym() {
        assertThat(KEY.tenantRef("a").bytes()).hasSize(16).isEqualTo(KEY.tenantRef("a").bytes())
                .isNotEqualTo(KEY.tenantRef("b").bytes())
                .isNotEqualTo(TestLog.key("x", 8).tenantRef("a").bytes());
    }

    @Test
    void saltsScopesOfTheCacheApart() {
        String salt = KEY.cacheSalt("a");
        assertThat(salt).matches("[0-9a-f]{64}").isEqualTo(KEY.cacheSalt("a"))
                .isNotEqualTo(KEY.cacheSalt("b"))
                .isNotEqualTo(TestLog.key("x", 8).cacheSalt("a"))
                .doesNotStartWith(HexFormat.of().formatHex(KEY.tenantRef("a").bytes()));
    }

    /// Whatever is done to a note, it opens as it was signed or is refused with a code.
    @Test
    void opensNothingThatWasNotSigned() {
        long seed = 20261130;
        SplittableRandom random = new SplittableRandom(seed);
        String note = HEAD.sign(KEY).encode();
        for (int i = 0; i < 500; i++) {
            StringBuilder changed = new StringBuilder(note);
            int at = random.nextInt(changed.length());
            switch (random.nextInt(3)) {
                case 0 -> changed.setCharAt(at, (char) random.nextInt(1, 0x3000));
                case 1 -> changed.deleteCharAt(at);
                default -> changed.insert(at, (char) random.nextInt(1, 128));
            }
            try {
                SignedNote opened = SignedNote.parse(changed.toString());
                opened.verify(List.of(KEY.verifier()));
                assertThat(opened.text()).as("seed %d, round %d", seed, i).isEqualTo(HEAD.text());
            } catch (IntegrityException e) {
                assertThat(e.code()).startsWith("NOTE_");
            }
        }
    }

    private static void refused(ThrowingCallable call, String code, String message) {
        assertThatThrownBy(call).isInstanceOf(IntegrityException.class).hasMessage(message)
                .extracting("code").isEqualTo(code);
    }
}

package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CosignatureTest {
    private static final NoteSigner WITNESS = TestLog.witness("witness.example.org", 9);
    private static final Checkpoint HEAD = new Checkpoint("example.com/c/audit/0/0", 7, Digest.sha256("root"));
    private static final long SECONDS = 1_800_000_000L;
    private static final SignedNote NOTE = HEAD.sign(TestLog.KEY).cosign(WITNESS, SECONDS);

    @Test
    void signsTheTimeWithTheText() {
        SignedNote back = SignedNote.parse(NOTE.encode());
        assertThat(back.verify(List.of(TestLog.KEY.verifier()))).containsExactly(TestLog.KEY.verifier());
        assertThat(back.verify(List.of(WITNESS.verifier()))).containsExactly(WITNESS.verifier());
        byte[] line = back.of(WITNESS.verifier()).getFirst().signature();
        assertThat(line).hasSize(72);
        assertThat(ByteBuffer.wrap(line).getLong()).isEqualTo(SECONDS);
        byte[] signed = ("cosignature/v1\ntime 1800000000\n" + HEAD.text()).getBytes(StandardCharsets.UTF_8);
        NoteSigner sameKey = TestLog.key("witness.example.org", 9);
        assertThat(Arrays.copyOfRange(line, 8, 72)).isEqualTo(sameKey.sign(signed));
    }

    /// The kind is part of the key's id, so a witness's key and a log's key of the same bytes are two keys.
    @Test
    void keepsKindsOfKeysApart() {
        NoteSigner log = TestLog.key("witness.example.org", 9);
        assertThat(WITNESS.keyId()).isNotEqualTo(log.keyId());
        assertThat(NoteVerifier.parse(WITNESS.vkey())).isEqualTo(WITNESS.verifier()).isNotEqualTo(log.verifier());
        assertThat(NoteVerifier.parse(WITNESS.vkey()).kind()).isEqualTo(NoteKey.Kind.WITNESS);
        assertThat(NoteSigner.parse(WITNESS.secretText()).vkey()).isEqualTo(WITNESS.vkey());
        assertThatThrownBy(() -> NOTE.verify(List.of(log.verifier()))).extracting("code").isEqualTo("NOTE_UNKNOWN_KEY");
        assertThatThrownBy(() -> WITNESS.sign(new byte[0]))
                .hasMessage("key %s: expected the key of a log, got that of a witness; make one with audit keygen",
                        WITNESS.label()).extracting("code").isEqualTo("NOTE_KEY_KIND");
        assertThatThrownBy(() -> log.cosign(new byte[0], 1))
                .hasMessage("key %s: expected the key of a witness, got that of a log; make one with audit keygen --witness",
                        log.label()).extracting("code").isEqualTo("NOTE_KEY_KIND");
        assertThatThrownBy(() -> WITNESS.cosign(new byte[0], -1)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aWitnessSignsOnceANote() {
        SignedNote again = NOTE.cosign(WITNESS, SECONDS + 1);
        assertThat(again.signatures()).hasSize(2);
        assertThat(ByteBuffer.wrap(again.of(WITNESS.verifier()).getFirst().signature()).getLong()).isEqualTo(SECONDS + 1);
    }

    @Test
    void refusesAnotherTimeAnotherLengthAndAnotherText() {
        byte[] right = NOTE.of(WITNESS.verifier()).getFirst().signature();
        byte[] later = right.clone();
        later[7]++;
        byte[] negative = right.clone();
        negative[0] = (byte) 0x80;
        for (byte[] wrong : List.of(later, negative, Arrays.copyOf(right, 71), Arrays.copyOf(right, 73),
                Arrays.copyOfRange(right, 8, 72), new byte[72])) {
            SignedNote note = new SignedNote(HEAD.text(),
                    List.of(new SignedNote.Signature(WITNESS.name(), WITNESS.keyId(), wrong)));
            assertThatThrownBy(() -> note.verify(List.of(WITNESS.verifier()))).extracting("code").isEqualTo("NOTE_SIGNATURE");
        }
        SignedNote moved = new SignedNote(
                HEAD.text().replace("\n7\n", "\n8\n"), List.of(NOTE.of(WITNESS.verifier()).getFirst()));
        assertThatThrownBy(() -> moved.verify(List.of(WITNESS.verifier()))).extracting("code").isEqualTo("NOTE_SIGNATURE");
    }

    /// A cosignature of another algorithm (0x06, ML-DSA-44) is one of an unknown key.
    @Test
    void passesOverCosignaturesOfAnotherAlgorithm() {
        byte[] blob = new byte[4 + 8 + 2420];
        Arrays.fill(blob, (byte) 6);
        String note = NOTE.encode() + "\u2014 pq.example.org " + Base64.getEncoder().encodeToString(blob) + "\n";
        SignedNote parsed = SignedNote.parse(note);
        assertThat(parsed.signatures()).hasSize(3);
        assertThat(parsed.verify(List.of(WITNESS.verifier()))).hasSize(1);
        byte[] key = new byte[1 + 1312];
        key[0] = 6;
        String vkey = "pq.example.org+06060606+" + Base64.getEncoder().encodeToString(key);
        assertThatThrownBy(() -> NoteVerifier.parse(vkey)).hasMessage("key: expected name+id+base64 of an Ed25519 key");
    }

    @Test
    void keepsItsKeyInAFile(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("witness.key");
        NoteSigner made = NoteSigner.loadOrCreate(file, "w.example", NoteKey.Kind.WITNESS, new SecureRandom());
        assertThat(made.kind()).isEqualTo(NoteKey.Kind.WITNESS);
        assertThat(NoteSigner.load(file).vkey()).isEqualTo(made.vkey());
    }

    /// Whatever is done to a cosigned note, it opens as it was signed or is refused with a code.
    @Test
    void opensNothingThatWasNotSigned() {
        long seed = 20261201;
        SplittableRandom random = new SplittableRandom(seed);
        String note = NOTE.encode();
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
                opened.verify(List.of(WITNESS.verifier()));
                assertThat(opened.text()).as("seed %d, round %d", seed, i).isEqualTo(HEAD.text());
            } catch (IntegrityException e) {
                assertThat(e.code()).startsWith("NOTE_");
            }
        }
    }
}

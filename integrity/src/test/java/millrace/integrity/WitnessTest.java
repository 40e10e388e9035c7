package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WitnessTest {
    private static final NoteSigner KEY = TestLog.witness("witness.example.org", 9);
    private static final Clock CLOCK = Clock.fixed(Instant.ofEpochSecond(1_800_000_000L), ZoneOffset.UTC);

    @TempDir
    private Path directory;

    private static SignedNote note(int size, String root) {
        return new Checkpoint("example.com/c/audit/0/0", size, Digest.sha256(root)).sign(TestLog.KEY);
    }

    private Path file() {
        return directory.resolve("witness.state");
    }

    @Test
    void writesDownWhatItSignsAndThenSigns() throws IOException {
        try (FollowStateFile file = FollowStateFile.open(file())) {
            SignedNote cosigned = new Witness(KEY, file, CLOCK).cosign(note(7, "a"));
            assertThat(cosigned.verify(List.of(KEY.verifier()))).hasSize(1);
            assertThat(ByteBuffer.wrap(cosigned.of(KEY.verifier()).getFirst().signature()).getLong()).isEqualTo(1_800_000_000L);
            assertThat(FollowState.parse(Files.readString(file())).head("example.com/c/audit/0/0"))
                    .isEqualTo(Checkpoint.parse(note(7, "a").text()));
        }
    }

    /// Where the state cannot reach the disk nothing is signed: the signature would be the only trace of it.
    @Test
    void signsNothingThatItCouldNotWriteDown() throws IOException {
        try (FollowStateFile file = FollowStateFile.open(file())) {
            Files.createDirectory(directory.resolve(".witness.state.new"));
            assertThatThrownBy(() -> new Witness(KEY, file, CLOCK).cosign(note(7, "a"))).isInstanceOf(IOException.class);
            assertThat(file.state()).isEqualTo(FollowState.EMPTY);
        }
    }

    @Test
    void neverSignsASmallerOrAnotherTree() throws IOException {
        try (FollowStateFile file = FollowStateFile.open(file())) {
            Witness witness = new Witness(KEY, file, CLOCK);
            witness.cosign(note(7, "a"));
            witness.cosign(note(7, "a"));
            assertThatThrownBy(() -> witness.cosign(note(6, "b"))).hasMessage("log example.com/c/audit/0/0: expected a"
                    + " checkpoint of at least 7 leaves, as was seen before, got 6; the log was rolled back, or this"
                    + " checkpoint is old").extracting("code").isEqualTo("WITNESS_SMALLER");
            assertThatThrownBy(() -> witness.cosign(note(7, "b"))).hasMessage("log example.com/c/audit/0/0: two signed"
                    + " checkpoints of size 7: expected root %s, as was seen before, got %s; keep both notes, they are proof",
                    Digest.sha256("a"), Digest.sha256("b")).extracting("code").isEqualTo("EQUIVOCATION");
            witness.cosign(note(8, "c"));
        }
        try (FollowStateFile again = FollowStateFile.open(file())) {
            Witness restarted = new Witness(KEY, again, CLOCK);
            assertThatThrownBy(() -> restarted.cosign(note(7, "a"))).extracting("code").isEqualTo("WITNESS_SMALLER");
            assertThatThrownBy(() -> restarted.cosign(note(8, "b"))).extracting("code").isEqualTo("EQUIVOCATION");
        }
    }

    @Test
    void isAWitnessWithAWitnessKeyOnly() throws IOException {
        try (FollowStateFile file = FollowStateFile.open(file())) {
            assertThatThrownBy(() -> new Witness(TestLog.KEY, file, CLOCK)).extracting("code").isEqualTo("NOTE_KEY_KIND");
            assertThatThrownBy(() -> FollowStateFile.open(file())).hasMessage("state file %s: expected to be alone with it,"
                    + " got another process that holds it; a witness has one process", file())
                    .extracting("code").isEqualTo("FOLLOW_STATE_BUSY");
        }
    }

    @Test
    void refusesADamagedState() throws IOException {
        try (FollowStateFile file = FollowStateFile.open(file())) {
            file.save(FollowState.EMPTY.with(note(7, "a")));
        }
        String good = Files.readString(file());
        for (String bad : List.of("", good.substring(1), good.substring(0, good.length() - 1), good + "x\n",
                good.replace("note 5", "note 6"), good.replace("\n7\n", "\n6\n"), good.replace("crc32c", "crc32d"))) {
            Files.writeString(file(), bad);
            assertThatThrownBy(() -> FollowStateFile.open(file())).as(bad).hasMessageStartingWith(
                    "state file " + file() + ": follow state: expected ").hasMessageEndingWith("; restore it, or move it away:"
                    + " a witness then takes up what it has published itself").extracting("code").isEqualTo("FOLLOW_STATE");
        }
    }

    /// What is read after a change of the text is what was written, or the change is found.
    @Test
    void readsNothingElseThanWhatWasWritten() {
        FollowState state = FollowState.EMPTY.with(note(7, "a"))
                .with(new Checkpoint("example.com/c/audit/1/0", 900, Digest.sha256("b")).sign(TestLog.KEY)
                        .cosign(KEY, 1_800_000_000L));
        String text = state.encode();
        assertThat(FollowState.parse(text)).isEqualTo(state);
        assertThat(FollowState.parse(FollowState.EMPTY.encode())).isEqualTo(FollowState.EMPTY);
        long seed = 20261203;
        SplittableRandom random = new SplittableRandom(seed);
        for (int i = 0; i < 2000; i++) {
            StringBuilder changed = new StringBuilder(text);
            for (int changes = random.nextInt(1, 4); changes > 0; changes--) {
                int at = random.nextInt(changed.length());
                switch (random.nextInt(4)) {
                    case 0 -> changed.setCharAt(at, (char) random.nextInt(1, 0x3000));
                    case 1 -> changed.deleteCharAt(at);
                    case 2 -> changed.delete(at, Math.min(changed.length(), at + random.nextInt(1, 60)));
                    default -> changed.insert(at, (char) random.nextInt(1, 128));
                }
            }
            try {
                assertThat(FollowState.parse(changed.toString())).as("seed %d, round %d", seed, i).isEqualTo(state);
            } catch (IntegrityException e) {
                assertThat(e.code()).isEqualTo("FOLLOW_STATE");
            }
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.Verdict;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import org.apache.kafka.common.utils.Bytes;
import org.junit.jupiter.api.Test;

/// A log changes its key only when it says so, and who knew the old key can follow.
class LogKeysTest {
    private static final String ORIGIN = "millrace.test/cluster-1/llm.audit/0/0";
    private static final NoteSigner OLD = NoteSigner.generate("millrace.test", new SecureRandom());
    private static final NoteSigner NEW = NoteSigner.generate("millrace.test", new SecureRandom());
    private static final NoteSigner NEXT = NoteSigner.generate("millrace.test", new SecureRandom());
    private final LogTask task = new LogTask();

    private void rotated() {
        task.start(OLD, null, Map.of());
        task.grow(3).checkpoint();
        task.start(NEW, OLD, Map.of());
        task.checkpoint();
    }

    private AttestationRecord rotation() {
        return task.all().stream().filter(leaf -> leaf.getEvent() == AuditEvent.KEY_ROTATION).reduce((a, b) -> b).orElseThrow();
    }

    @Test
    void rotatesByALeafAndSignsWithBothForTheOverlap() {
        rotated();
        assertThat(rotation().getNewKey()).isEqualTo(NEW.vkey());
        assertThat(rotation().getDetail()).isEqualTo("old_key=" + OLD.label() + " overlap_ms=86400000");
        assertThat(task.signers()).as("an idle log rotates too").containsExactly(NEW.label(), OLD.label());
        task.grow(2).pass(Duration.ofHours(23));
        assertThat(task.signers()).containsExactly(NEW.label(), OLD.label());
        task.start(NEW, OLD, Map.of());
        task.grow(1).pass(Duration.ofHours(2));
        assertThat(task.signers()).as("its time is over").containsExactly(NEW.label());
        task.start(NEW, null, Map.of());
        task.grow(1).checkpoint();
        assertThat(task.signers()).containsExactly(NEW.label());
        task.verify(OLD);
        task.verify(OLD, NEW);
    }

    @Test
    void needsTheOldKeyAsLongAsItSigns() {
        rotated();
        String until = Instant.ofEpochMilli(task.clock.millis() + 86_400_000L).toString();
        assertThatThrownBy(() -> task.start(NEW, null, Map.of())).isInstanceOf(LogKeys.KeyException.class).hasMessage(
                "AUDIT_KEY_OVERLAP: the key " + OLD.vkey() + " signs too until " + until
                        + ": audit.key.previous.file must name its file that time");
        assertThatThrownBy(() -> task.start(NEW, NEXT, Map.of())).isInstanceOf(LogKeys.KeyException.class);
        assertThatThrownBy(() -> task.start(NEXT, NEW, Map.of())).isInstanceOf(LogKeys.KeyException.class).hasMessage(
                "AUDIT_KEY_OVERLAP: the key " + OLD.vkey() + " signs too until " + until
                        + ": a second rotation cannot begin before that time");
        task.clock.advance(90_000_000L);
        task.start(NEXT, NEW, Map.of());
        task.checkpoint();
        assertThat(task.signers()).containsExactly(NEXT.label(), NEW.label());
        task.verify(OLD);
    }

    /// However long the service was down, nobody is left behind who knows the old key alone.
    @Test
    void theOldKeySignsForAtLeastOneCheckpoint() {
        task.start(OLD, null, Map.of("audit.key.overlap", "0"));
        task.grow(3).checkpoint();
        task.start(NEW, OLD, Map.of("audit.key.overlap", "0"));
        task.grow(1);
        assertThatThrownBy(() -> task.start(NEW, null, Map.of())).hasMessageContaining("and until a checkpoint had both signatures");
        task.clock.advance(10_000_000_000L);
        task.start(NEW, OLD, Map.of("audit.key.overlap", "0"));
        task.checkpoint();
        assertThat(task.signers()).containsExactly(NEW.label(), OLD.label());
        task.start(NEW, null, Map.of());
        task.grow(1).checkpoint();
        assertThat(task.signers()).containsExactly(NEW.label());
        task.verify(OLD);
    }

    @Test
    void refusesAKeyThatNobodyAnnounced() {
        task.start(OLD, null, Map.of());
        task.grow(3).checkpoint();
        String message = "AUDIT_KEY_CHANGED: log " + ORIGIN + " is signed by " + OLD.vkey() + ", the configured key is " + NEW.vkey()
                + "; give this instance the key that signs, or rotate: let audit.key.previous.file name the file of the key that signs"
                + " now. If that key may be in foreign hands, start once with -D audit.epoch.new=true, which begins a new epoch under"
                + " the new key";
        assertThatThrownBy(() -> task.start(NEW, null, Map.of())).isInstanceOf(LogKeys.KeyException.class).hasMessage(message);
        assertThatThrownBy(() -> task.start(NEW, NEXT, Map.of())).isInstanceOf(LogKeys.KeyException.class).hasMessage(message);
        task.start(OLD, null, Map.of());
        task.grow(1).checkpoint();
        task.verify(OLD);
    }

    @Test
    void anInstanceThatStillHasTheOldKeyDoesNotGoBack() {
        rotated();
        assertThatThrownBy(() -> task.start(OLD, null, Map.of())).isInstanceOf(LogKeys.KeyException.class)
                .hasMessageStartingWith("AUDIT_KEY_CHANGED: log " + ORIGIN + " is signed by " + NEW.vkey());
    }

    @Test
    void beginsANewEpochAfterACompromise() {
        task.start(OLD, null, Map.of());
        task.grow(3).checkpoint();
        task.start(NEW, null, Map.of("audit.epoch.new", "true"));
        task.grow(2).checkpoint();
        AttestationRecord start = task.all().stream().filter(leaf -> leaf.getEvent() == AuditEvent.EPOCH_START).findFirst().orElseThrow();
        assertThat(start.getPreviousLog().getReason()).isEqualTo("KEY_COMPROMISE");
        assertThat(start.getPreviousLog().getSize()).isEqualTo(5);
        assertThat(start.getNewKey()).isEqualTo(NEW.vkey());
        assertThat(task.signers()).containsExactly(NEW.label());
        task.verify(OLD, NEW);
        assertThat(task.verdict(OLD)).as("the old key vouches for nothing").isInstanceOf(Verdict.Refuted.class);
        task.start(NEW, null, Map.of("audit.epoch.new", "true"));
        task.grow(1).checkpoint();
        assertThat(task.last().getEpoch()).as("begun once").isEqualTo(1);
        task.verify(OLD, NEW);
    }

    @Test
    void rotatesWithoutANewEpochThoughOneWouldBeAllowed() {
        task.start(OLD, null, Map.of());
        task.grow(3).checkpoint();
        task.start(NEW, OLD, Map.of("audit.epoch.new", "true"));
        task.grow(1).checkpoint();
        assertThat(task.last().getEpoch()).isZero();
        task.verify(OLD);
    }

    @Test
    void aLogThatIsEmptyTakesAnyKey() {
        task.start(OLD, null, Map.of());
        task.checkpoint();
        task.start(NEW, null, Map.of());
        task.grow(1).checkpoint();
        task.verify(NEW);
    }

    /// Who knows the old key alone can follow it to the new one, in a log that the old one never signed.
    @Test
    void aLogThatBeginsWhileAKeyRetiresNamesTheNewOne() {
        task.start(NEW, OLD, Map.of());
        task.grow(2).checkpoint();
        assertThat(rotation().getSeq()).isZero();
        assertThat(task.signers()).containsExactly(NEW.label(), OLD.label());
        task.verify(OLD);
        task.verify(NEW);
    }

    @Test
    void theNewKeyIsFollowedIntoTheNextEpoch() {
        rotated();
        task.grow(1).pass(Duration.ofHours(25));
        task.start(NEW, null, Map.of());
        task.grow(1).checkpoint();
        task.hand(new Outcome.Ordered(task.order(), Control.newBuilder().setKind(ControlKind.NEW_EPOCH).setOrigin(ORIGIN)
                .setReason("OPERATOR").setIssuedMs(1L).build()));
        task.grow(2).checkpoint();
        assertThat(task.last().getEpoch()).isEqualTo(1);
        task.verify(OLD);
    }

    @Test
    void wrapsTheTenantsKeysAnew() {
        task.start(OLD, null, Map.of());
        TenantKeys before = new TenantKeys(task.tenantKeys, OLD, null, new SecureRandom());
        byte[] id = before.of("acme").id();
        before.of("other");
        new TenantKeys(task.tenantKeys, NEW, OLD, new SecureRandom());
        TenantKeys after = new TenantKeys(task.tenantKeys, NEW, null, new SecureRandom());
        assertThat(after.of("acme").id()).isEqualTo(id);
        assertThat(after.erase("acme")).isEqualTo(1);
        assertThat(after.of("acme").id()).isNotEqualTo(id);
        new TenantKeys(task.tenantKeys, NEXT, null, new SecureRandom());
        try (var all = task.tenantKeys.all()) {
            assertThat(all.hasNext()).as("what no configured key can open is destroyed").isFalse();
        }
    }

    @Test
    void refusesADamagedState() {
        task.start(OLD, null, Map.of());
        task.grow(1);
        Bytes key = Bytes.wrap(new byte[] {1});
        byte[] state = task.tlog.get(key);
        for (byte[] damaged : List.of(new byte[0], new byte[18], java.util.Arrays.copyOf(state, state.length - 1))) {
            task.tlog.put(key, damaged);
            assertThatThrownBy(() -> task.start(OLD, null, Map.of()))
                    .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("LOG_KEYS_INVALID"));
        }
    }

    @Test
    void refusesEveryFlippedBitOfTheState() {
        task.start(OLD, null, Map.of());
        task.grow(1);
        Bytes key = Bytes.wrap(new byte[] {1});
        byte[] state = task.tlog.get(key);
        for (int bit = 0; bit < 8 * state.length; bit++) {
            byte[] flipped = state.clone();
            flipped[bit / 8] ^= (byte) (1 << bit % 8);
            task.tlog.put(key, flipped);
            assertThatThrownBy(() -> task.start(OLD, null, Map.of())).as("bit %d", bit)
                    .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("LOG_KEYS_INVALID"));
        }
    }
}

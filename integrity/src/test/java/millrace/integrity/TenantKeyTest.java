package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import millrace.schemas.SaltRecord;
import org.junit.jupiter.api.Test;

class TenantKeyTest {
    private static final String ORIGIN = "example.com/Q2x1c3Rlcg/millrace.audit/0/0";
    private static final NoteSigner MASTER = TestLog.KEY;
    private final SecureRandom random = new SecureRandom();
    private final TenantKey key = TenantKey.generate("acme", random);

    private SaltRecord seal() {
        return key.seal(ORIGIN, 7, "r-7", MASTER.tenantRef("acme"), TestLog.SALT, random);
    }

    @Test
    void opensWhatItSealed() {
        SaltRecord record = seal();
        assertThat(key.open(record)).isEqualTo(TestLog.SALT);
        assertThat(record.getKeyId()).isEqualTo(ByteBuffer.wrap(key.id()));
        assertThat(record.getTenantRef()).isEqualTo(ByteBuffer.wrap(MASTER.tenantRef("acme").bytes()));
        assertThat(record.getSealed().remaining()).isEqualTo(48);
        assertThat(seal().getNonce()).as("each time another").isNotEqualTo(record.getNonce());
    }

    @Test
    void refusesASaltOfAnotherLeafAnotherKeyOrChanged() {
        String message = "salt of leaf 8 of " + ORIGIN + ": expected 32 bytes sealed under the tenant's key "
                + HexFormat.of().formatHex(key.id()) + " for this leaf, got others; the record was changed, or moved from another leaf";
        SaltRecord moved = seal();
        moved.setSeq(8);
        refuses(moved, message);
        SaltRecord otherLog = seal();
        otherLog.setOrigin("example.com/Q2x1c3Rlcg/millrace.audit/0/1");
        refuses(otherLog, "salt of leaf 7 of example.com/Q2x1c3Rlcg/millrace.audit/0/1: expected");
        refuses(TenantKey.generate("acme", random).seal(ORIGIN, 7, "r-7", MASTER.tenantRef("acme"), TestLog.SALT, random), "salt of leaf 7");
        for (int bit = 0; bit < 48 * 8; bit++) {
            SaltRecord changed = seal();
            changed.getSealed().array()[bit / 8] ^= (byte) (1 << bit % 8);
            refuses(changed, "salt of leaf 7");
        }
        SaltRecord cut = seal();
        cut.setSealed(ByteBuffer.allocate(3));
        refuses(cut, "salt of leaf 7");
        SaltRecord nonce = seal();
        nonce.setNonce(ByteBuffer.allocate(11));
        refuses(nonce, "salt of leaf 7");
    }

    private void refuses(SaltRecord record, String message) {
        assertThatThrownBy(() -> key.open(record))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("SALT_SEAL"))
                .hasMessageStartingWith(message);
    }

    @Test
    void isKeptUnderTheAuditKeyAlone() {
        byte[] wrapped = key.wrap(MASTER, random);
        TenantKey again = TenantKey.unwrap(wrapped, key.id(), MASTER);
        assertThat(again.tenant()).isEqualTo("acme");
        assertThat(again.open(seal())).isEqualTo(TestLog.SALT);
        assertThat(TenantKey.wrappedBy(wrapped)).isEqualTo(MASTER.keyId());
        NoteSigner other = TestLog.key("example.com/other", 9);
        assertThatThrownBy(() -> TenantKey.unwrap(wrapped, key.id(), other))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("TENANT_KEY_FOREIGN"))
                .hasMessage("tenant key %s: expected the audit key with id %08x, got %s; give that key"
                        .formatted(HexFormat.of().formatHex(key.id()), MASTER.keyId(), other.label()));
    }

    @Test
    void refusesAKeptKeyThatIsNone() {
        byte[] wrapped = key.wrap(MASTER, random);
        for (int at = 17; at < wrapped.length; at++) {
            byte[] changed = wrapped.clone();
            changed[at] ^= 1;
            refusesKept(changed, key.id());
        }
        refusesKept(wrapped, new byte[8]);
        refusesKept(Arrays.copyOf(wrapped, 20), key.id());
        byte[] version = wrapped.clone();
        version[0] = 2;
        refusesKept(version, key.id());
    }

    private static void refusesKept(byte[] wrapped, byte[] id) {
        assertThatThrownBy(() -> TenantKey.unwrap(wrapped, id, MASTER))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("TENANT_KEY_INVALID"))
                .hasMessageStartingWith("tenant key");
    }

    @Test
    void keepsItsSecretToItself() {
        assertThat(key.toString()).matches("TenantKey\\[[A-Za-z0-9+/]{11}=, secret hidden]");
    }
}

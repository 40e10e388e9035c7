package millrace.streams;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.zip.CRC32C;
import millrace.integrity.Checkpoint;
import millrace.integrity.IntegrityException;
import millrace.integrity.NoteSigner;
import millrace.integrity.SignedNote;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Which keys sign one log: the task's store remembers, so that a key that was changed by mistake, or without the knowledge of
/// the key before, signs nothing.
///
/// A rotation is asked for by configuring the new key and, as the previous one, the key that signs now. From the rotation's
/// leaf on both sign, for the overlap and for at least one checkpoint; then the new one alone.
///
/// Stored under key 1 of the log's store: `[u8 version = 1] [u8 covered] [i64 untilMs] [u16 n, n bytes] [u16 n, n bytes] [u32
/// CRC-32C]`, big-endian: whether a checkpoint after the rotation had both signatures, until when both sign (milliseconds since
/// the epoch), the public key that signs, and the one that retires, empty if there is none.
final class LogKeys {
    private static final Bytes KEY = Bytes.wrap(new byte[] {1});
    private static final byte VERSION = 1;
    private static final Logger LOG = LoggerFactory.getLogger(LogKeys.class);

    private final KeyValueStore<Bytes, byte[]> store;
    private final NoteSigner signer;
    private final @Nullable NoteSigner previous;
    private final Duration overlap;
    private State state;
    private boolean rotationDue;
    private boolean compromised;

    /// What the store remembers.
    ///
    /// @param current public key that signs
    /// @param retiring public key that signs too until `untilMs`; empty for none
    /// @param covered whether a checkpoint with both signatures was handed on
    private record State(String current, String retiring, long untilMs, boolean covered) {
        byte[] encode() {
            byte[] one = current.getBytes(StandardCharsets.UTF_8);
            byte[] two = retiring.getBytes(StandardCharsets.UTF_8);
            ByteBuffer out = ByteBuffer.allocate(2 + Long.BYTES + 4 + one.length + two.length + Integer.BYTES);
            out.put(VERSION).put((byte) (covered ? 1 : 0)).putLong(untilMs).putShort((short) one.length).put(one)
                    .putShort((short) two.length).put(two);
            return out.putInt(crc(out.array())).array();
        }

        static State decode(byte[] bytes) {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            if (bytes.length < 18 || bytes[0] != VERSION || in.getInt(bytes.length - 4) != crc(bytes)) {
                throw new IntegrityException("LOG_KEYS_INVALID", "keys of the log: expected version 1 and the right checksum, got "
                        + bytes.length + " other bytes; restore the store");
            }
            boolean covered = in.get(1) != 0;
            in.position(2);
            long until = in.getLong();
            return new State(text(in), text(in), until, covered);
        }

        private static String text(ByteBuffer in) {
            byte[] text = new byte[in.getShort() & 0xffff];
            in.get(text);
            return new String(text, StandardCharsets.UTF_8);
        }

        private static int crc(byte[] bytes) {
            CRC32C crc = new CRC32C();
            crc.update(bytes, 0, bytes.length - Integer.BYTES);
            return (int) crc.getValue();
        }
    }

    /// The configured keys are not those that the log needs: a person must look.
    static final class KeyException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        KeyException(String code, String message) {
            super(code + ": " + message);
        }
    }

    private LogKeys(KeyValueStore<Bytes, byte[]> store, NoteSigner signer, @Nullable NoteSigner previous, Duration overlap, State state) {
        this.store = store;
        this.signer = signer;
        this.previous = previous;
        this.overlap = overlap;
        this.state = state;
    }

    /// Compares the configured keys with those of the log.
    ///
    /// @param previous the key that signed until now, where one is configured
    /// @param newEpoch whether a changed key may begin a new epoch, because the one before is not to be trusted
    /// @throws KeyException `AUDIT_KEY_CHANGED` if the log has another key and nothing says that it was rotated,
    ///     `AUDIT_KEY_OVERLAP` while an earlier rotation still needs the key before
    static LogKeys open(
            KeyValueStore<Bytes, byte[]> store, AuditLog log, NoteSigner signer, @Nullable NoteSigner previous, Duration overlap,
            boolean newEpoch, long nowMs) {
        byte[] kept = store.get(KEY);
        boolean first = kept == null || log.state().size() == 0 && log.previous() == null;
        // A log that begins while a key retires says so as the others do: who knows the old key only can follow.
        State begun = new State(previous == null ? signer.vkey() : previous.vkey(), "", 0, true);
        LogKeys keys = new LogKeys(store, signer, previous, overlap, first ? begun : State.decode(kept));
        if (first) {
            keys.put(begun);
        }
        if (keys.state.current.equals(signer.vkey())) {
            keys.retire(nowMs);
            keys.requireRetiring();
        } else if (previous != null && keys.state.current.equals(previous.vkey())) {
            keys.retire(nowMs);
            if (!keys.state.retiring.isEmpty()) {
                throw keys.overlaps("a second rotation cannot begin before");
            }
            keys.rotationDue = true;
        } else if (newEpoch) {
            if (log.previous() == null) {
                log.newEpoch("KEY_COMPROMISE");
            }
            keys.compromised = true;
        } else {
            throw new KeyException("AUDIT_KEY_CHANGED", "log " + log.state().origin() + " is signed by " + keys.state.current
                    + ", the configured key is " + signer.vkey() + "; give this instance the key that signs, or rotate: let"
                    + " audit.key.previous.file name the file of the key that signs now. If that key may be in foreign hands, start once"
                    + " with -D audit.epoch.new=true, which begins a new epoch under the new key");
        }
        return keys;
    }

    private void requireRetiring() {
        if (!state.retiring.isEmpty() && (previous == null || !previous.vkey().equals(state.retiring))) {
            throw overlaps("audit.key.previous.file must name its file");
        }
    }

    private KeyException overlaps(String what) {
        return new KeyException("AUDIT_KEY_OVERLAP", "the key " + state.retiring + " signs too until "
                + Instant.ofEpochMilli(state.untilMs) + (state.covered ? "" : " and until a checkpoint had both signatures") + ": " + what
                + " that time");
    }

    /// Whether the leaf of a rotation is due.
    boolean rotationDue() {
        return rotationDue;
    }

    /// The key that an EPOCH_START leaf must name, because the one before is not to be trusted; null otherwise.
    @Nullable String afterCompromise() {
        return compromised ? signer.vkey() : null;
    }

    String newKey() {
        return signer.vkey();
    }

    /// Words for the rotation's leaf.
    String detail() {
        return "old_key=" + (previous == null ? "" : previous.label()) + " overlap_ms=" + overlap.toMillis();
    }

    /// The rotation's leaf was appended.
    void rotated(long nowMs) {
        LOG.info("the key {} signs from here on; {} signs too for {}", signer.label(), state.current, overlap);
        put(new State(signer.vkey(), state.current, nowMs + overlap.toMillis(), false));
        rotationDue = false;
    }

    /// The first leaf of an epoch that began with another key was appended.
    void begun() {
        if (compromised) {
            put(new State(signer.vkey(), "", 0, true));
            compromised = false;
        }
    }

    /// Signs a head with the key, and with the one that retires while it does.
    SignedNote sign(Checkpoint head, Signing signing) {
        return signing.sign(head, state.retiring.isEmpty() || previous == null ? List.of(signer) : List.of(signer, previous));
    }

    /// Signs with all of the keys.
    interface Signing {
        /// @throws RuntimeException when a key cannot be used now
        SignedNote sign(Checkpoint head, List<NoteSigner> keys);

        /// With keys that are at hand.
        Signing LOCAL = (head, keys) -> head.sign(keys.toArray(NoteSigner[]::new));
    }

    /// A checkpoint was handed on.
    void signed(long nowMs) {
        if (!state.retiring.isEmpty()) {
            if (!state.covered) {
                put(new State(state.current, state.retiring, state.untilMs, true));
            }
            retire(nowMs);
        }
    }

    /// Lets the old key go once its time is over.
    void retire(long nowMs) {
        if (!state.retiring.isEmpty() && state.covered && nowMs >= state.untilMs) {
            LOG.info("the key {} signs no more; its file is not needed any longer", state.retiring);
            put(new State(state.current, "", 0, true));
        }
    }

    private void put(State next) {
        state = next;
        store.put(KEY, next.encode());
    }
}

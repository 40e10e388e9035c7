package millrace.streams.simulation;

import java.security.SecureRandom;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import millrace.integrity.NoteSigner;
import millrace.schemas.AlarmRecord;
import millrace.streams.TopologyParts;
import org.jspecify.annotations.Nullable;

/// What all processes of one simulation share: broker, time, randomness, the registry, the key.
final class World {
    static final long START_MS = 1_790_000_000_000L;
    private static final long MARKER_DELAY_NANOS = 5_000_000_000L;
    private static final NoteSigner FIRST_SIGNER = NoteSigner.generate(TopologyParts.DOMAIN, new Seeded(7));
    private static final NoteSigner SECOND_SIGNER = NoteSigner.generate(TopologyParts.DOMAIN, new Seeded(8));

    final Broker broker = new Broker();
    final Bug bug;
    final SplittableRandom random;
    final SecureRandom salts;
    final Clock clock = new SimulatedClock();
    private long nanos;
    private long skewMs;
    private boolean rotated;
    boolean registryDown;
    /// What came by the second road.
    final List<AlarmRecord> alarms = new ArrayList<>();
    /// Reads of the audit topic's end that still miss its newest transaction.
    int staleTails;
    /// Reads of the audit topic's end that fail.
    int brokenTails;
    /// So many records are sent until one fails; negative for none.
    int sendsUntilFailure = -1;

    /// What an injected fault throws.
    static final class Injected extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Injected(String message) {
            super(message, null, false, false);
        }
    }

    World(long seed, Bug bug) {
        this.bug = bug;
        random = new SplittableRandom(seed);
        salts = new Seeded(seed ^ 0x5A17L);
    }

    /// The key that auditors know from the beginning.
    static NoteSigner firstSigner() {
        return FIRST_SIGNER;
    }

    /// The key that processes are started with.
    NoteSigner signer() {
        return rotated ? SECOND_SIGNER : FIRST_SIGNER;
    }

    /// The key before it, null if there was none.
    @Nullable NoteSigner previousSigner() {
        return rotated ? FIRST_SIGNER : null;
    }

    /// Lets processes be started with another key from now on.
    ///
    /// @return false if that was done before
    boolean rotateKey() {
        boolean first = !rotated;
        rotated = true;
        return first;
    }

    /// Each returns what was done.
    String turnRegistry() {
        registryDown = !registryDown;
        return "registry is " + (registryDown ? "down" : "up");
    }

    String delayTails() {
        staleTails = 1 + random.nextInt(8);
        return "audit topic shows its newest transaction late";
    }

    String failSends() {
        brokenTails = random.nextInt(2);
        sendsUntilFailure = random.nextInt(12);
        return "a record will fail to be sent";
    }

    long nanos() {
        return nanos;
    }

    void pass(long ms) {
        nanos += ms * 1_000_000L;
    }

    /// Sets the wall clock, by so much against the time that passes.
    void skew(long ms) {
        skewMs = ms;
    }

    /// The last committed leaf of a partition, or null; what the service asks before a log grows.
    byte @Nullable [] lastLeaf(int partition) {
        if (brokenTails > 0) {
            brokenTails--;
            throw new Injected("the audit topic cannot be read");
        }
        List<Broker.Placed> leaves = broker.log(TopologyParts.AUDIT, partition).committed();
        if (bug == Bug.IGNORES_THE_AUDIT_TOPIC && broker.changelog("tlog", partition).settled().isEmpty()) {
            return null;
        }
        int end = leaves.size();
        if (staleTails > 0 && end > 0 && isRecent(leaves.getLast().entry())) {
            staleTails--;
            Broker.Transaction newest = leaves.getLast().entry().transaction();
            while (end > 0 && leaves.get(end - 1).entry().transaction() == newest) {
                end--;
            }
        }
        return end == 0 ? null : leaves.get(end - 1).entry().value();
    }

    /// Whether the marker of its transaction may still be on its way to this log.
    boolean isRecent(Broker.Entry entry) {
        return entry.transaction() != null && nanos - entry.transaction().committedAtNanos < MARKER_DELAY_NANOS;
    }

    private final class SimulatedClock extends Clock {
        @Override
        public ZoneId getZone() {
            return ZoneOffset.UTC;
        }

        @Override
        public Clock withZone(ZoneId zone) {
            return this;
        }

        @Override
        public long millis() {
            return START_MS + nanos / 1_000_000L + skewMs;
        }

        @Override
        public Instant instant() {
            return Instant.ofEpochMilli(millis());
        }
    }

    /// Random numbers that are not: the same for the same seed.
    private static final class Seeded extends SecureRandom {
        private static final long serialVersionUID = 1L;
        private final transient SplittableRandom random;

        Seeded(long seed) {
            random = new SplittableRandom(seed);
        }

        @Override
        public void nextBytes(byte[] bytes) {
            random.nextBytes(bytes);
        }
    }
}

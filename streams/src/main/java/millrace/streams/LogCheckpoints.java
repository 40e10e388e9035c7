package millrace.streams;

import java.time.Duration;
import java.util.Optional;
import millrace.integrity.Checkpoint;
import millrace.integrity.SignedNote;
import millrace.integrity.TreeState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// When the head of one log is signed, and what happens when it cannot be.
///
/// Answers go out before the next signature, so for a short time they rest on the log alone. A signer that fails may
/// leave them there no longer than `audit.checkpoint.max.lag`: then no more prompts are taken in until it works again.
/// Nothing is lost meanwhile, and no leaf stays without a signature.
final class LogCheckpoints {
    private static final Logger LOG = LoggerFactory.getLogger(LogCheckpoints.class);

    /// Signs a tree head.
    interface Signing {
        /// @throws RuntimeException when the key cannot be used now
        SignedNote sign(Checkpoint head);
    }

    private final Signing signing;
    private final ServiceMetrics metrics;
    private final Ticker ticker;
    private final Duration maxLag;
    private volatile long size;
    private volatile int epoch;
    private volatile long signedSize = -1;
    private volatile long unsignedSinceNanos;
    private volatile boolean failing;

    /// @param maxLag how long leaves may stay unsigned; zero for as long as it takes
    LogCheckpoints(Signing signing, ServiceMetrics metrics, Ticker ticker, Duration maxLag) {
        this.signing = signing;
        this.metrics = metrics;
        this.ticker = ticker;
        this.maxLag = maxLag;
    }

    /// The log has grown, or was opened.
    void grown(TreeState log) {
        if (log.epoch() != epoch) {
            signedSize = -1; // of another log
            size = 0;
        }
        if (isSigned() && log.size() > size) {
            unsignedSinceNanos = ticker.nanos();
        }
        size = log.size();
        epoch = log.epoch();
    }

    private boolean isSigned() {
        return size == 0 || size == signedSize;
    }

    /// Signs the head if it has no signature yet and the signer works.
    Optional<SignedNote> sign(TreeState log) {
        grown(log);
        if (isSigned()) {
            return Optional.empty();
        }
        try {
            SignedNote note = signing.sign(log.checkpoint());
            if (failing) {
                LOG.info("{}: the signer works again", log.origin().text());
            }
            failing = false;
            signedSize = size;
            return Optional.of(note);
        } catch (RuntimeException e) {
            metrics.checkpointFailed();
            if (!failing) {
                LOG.warn("{}: the head of {} leaves could not be signed, trying again: {}", log.origin().text(), size, e.toString());
            }
            failing = true;
            return Optional.empty();
        }
    }

    /// Whether leaves have been without a signature for longer than may be.
    boolean isLate() {
        return maxLag.isPositive() && lagNanos() > maxLag.toNanos();
    }

    /// How long the oldest leaf without a signature has been there.
    long lagNanos() {
        return isSigned() ? 0 : ticker.nanos() - unsignedSinceNanos;
    }

    long size() {
        return size;
    }

    int epoch() {
        return epoch;
    }

    long unsignedLeaves() {
        return isSigned() ? 0 : size - Math.max(0, signedSize);
    }
}

package millrace.streams.client;

import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;

/// Tells a listener the previews of one request as they are to be shown: those of the newest attempt, each once, in order; where some
/// are missing, how many; where all heard so far is void, that it is.
///
/// For one thread at a time. The deltas of one request come in the order of their partition.
public final class PreviewOrder {
    private boolean heard;
    private long attempt = Long.MIN_VALUE;
    private long next;

    /// Hears nothing yet.
    public PreviewOrder() {}

    /// Takes the next delta of the request as it was read.
    public void take(Delta delta, DeltaListener to) {
        if (delta.getAttempt() < attempt) {
            return;
        }
        if (delta.getAttempt() > attempt) {
            attempt = delta.getAttempt();
            next = 0;
            restart(to);
        }
        if (delta.getSeq() < next) {
            return;
        }
        if (delta.getSeq() > next) {
            to.onGap(delta.getSeq() - next);
        }
        next = delta.getSeq() + 1;
        if (delta.getKind() == DeltaKind.RESTART) {
            restart(to);
        } else {
            heard = true;
            to.onDelta(delta);
        }
    }

    private void restart(DeltaListener to) {
        if (heard) {
            heard = false;
            to.onRestart();
        }
    }
}

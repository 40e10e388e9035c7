package millrace.streams;

import java.util.Optional;
import millrace.integrity.Digest;

/// Reads the last committed leaf of an audit partition, to compare it with the log's state before the log grows.
interface AuditTail {
    /// @param origin of the leaf's log, as text
    record Last(String origin, long seq, Digest leaf) {}

    /// The last leaf that `read_committed` sees, or nothing when the partition holds none.
    Optional<Last> last(int partition);
}

package millrace.streams.console;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import millrace.integrity.Digest;
import millrace.integrity.InclusionProof;
import millrace.integrity.MerkleFrontier;
import millrace.integrity.ProofWindow;
import millrace.integrity.TreeState;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;

/// The newest committed leaves of the logs that this process writes, their newest checkpoints, and the newest alarms: all
/// that the console has of them, bounded. Thread-safe.
final class AuditTailView {
    /// Rows that are kept, of all logs together.
    static final int MOST_ROWS = 512;
    /// Leaves of one log that can be proven; more than rows are kept.
    static final int MOST_LEAVES = 4_096;
    private static final int MOST_ALARMS = 32;
    private static final int MOST_HEADS = 4;

    /// What became of a leaf.
    enum Taken {
        NEW,
        /// It was there already: a reader went back.
        KNOWN,
        /// Leaves before it are missing: its log began before the reader did.
        MISSED
    }

    /// A signed tree head.
    record Head(long size, String note) {}

    /// A row, and what proves it; no proof while no checkpoint covers it.
    record Proven(AuditRow row, Optional<InclusionProof> proof, Optional<Head> head) {}

    private final ArrayDeque<AuditRow> rows = new ArrayDeque<>();
    private final ArrayDeque<AlarmRecord> alarms = new ArrayDeque<>();
    private final Map<String, ProofWindow> windows = new HashMap<>();
    private final Map<String, ArrayDeque<Head>> heads = new HashMap<>();
    private final Map<String, String> schemas = new HashMap<>();
    private long number;

    /// A log that this process goes on with; proofs begin there, unless its first leaf is read too.
    synchronized void began(TreeState at) {
        ProofWindow known = windows.get(at.origin().text());
        if (known == null || known.size() < at.size()) {
            windows.put(at.origin().text(), new ProofWindow(at.frontier(), MOST_LEAVES));
        }
    }

    /// Logs of a partition that this process does not write any more.
    synchronized void ended(int partition) {
        windows.keySet().removeIf(origin -> partitionOf(origin) == partition);
        heads.keySet().removeIf(origin -> partitionOf(origin) == partition);
        rows.removeIf(row -> partitionOf(row.leaf().getLogOrigin()) == partition);
    }

    /// Nothing of this log can be proven any more: leaves between are not in the topic.
    synchronized void broke(String origin) {
        windows.remove(origin);
    }

    static int partitionOf(String origin) {
        String[] parts = origin.split("/");
        return parts.length < 2 ? -1 : Integer.parseInt(parts[parts.length - 2]);
    }

    synchronized Taken take(AttestationRecord leaf, Digest hash, Schema writer, Digest fingerprint, byte[] body) {
        String origin = leaf.getLogOrigin();
        ProofWindow window = windows.get(origin);
        if (leaf.getSeq() == 0 && (window == null || window.from() > 0) && isUntouched(origin)) {
            // The whole log is read: everything in it can be proven.
            window = new ProofWindow(MerkleFrontier.EMPTY, MOST_LEAVES);
            windows.put(origin, window);
        }
        boolean provable = window != null && leaf.getSeq() == window.size();
        if (provable) {
            window.append(hash);
        } else if (window != null && leaf.getSeq() > window.size()) {
            return Taken.MISSED;
        } else if (isKnown(origin, leaf.getSeq())) {
            return Taken.KNOWN;
        }
        schemas.computeIfAbsent(fingerprint.hex(), key -> SchemaNormalization.toParsingForm(writer));
        rows.addLast(new AuditRow(++number, leaf, hash, fingerprint, body, provable));
        if (rows.size() > MOST_ROWS) {
            rows.removeFirst();
        }
        return Taken.NEW;
    }

    private boolean isUntouched(String origin) {
        return rows.stream().noneMatch(row -> row.leaf().getLogOrigin().equals(origin));
    }

    private boolean isKnown(String origin, long seq) {
        return rows.stream().anyMatch(row -> row.leaf().getSeq() == seq && row.leaf().getLogOrigin().equals(origin));
    }

    synchronized void head(String origin, Head head) {
        ArrayDeque<Head> of = heads.computeIfAbsent(origin, key -> new ArrayDeque<>());
        if (of.isEmpty() || of.getLast().size() < head.size()) {
            of.addLast(head);
            if (of.size() > MOST_HEADS) {
                of.removeFirst();
            }
        }
    }

    synchronized void alarm(AlarmRecord alarm) {
        alarms.addLast(alarm);
        if (alarms.size() > MOST_ALARMS) {
            alarms.removeFirst();
        }
    }

    synchronized List<AlarmRecord> alarms() {
        return new ArrayList<>(alarms.reversed());
    }

    /// Rows behind the one with this number, oldest first, the newest `most` of them.
    synchronized List<AuditRow> after(long after, int most) {
        List<AuditRow> found = rows.stream().filter(row -> row.number() > after).toList();
        return found.subList(Math.max(0, found.size() - most), found.size());
    }

    synchronized Optional<Proven> prove(String origin, long seq) {
        Optional<AuditRow> row = rows.stream()
                .filter(each -> each.leaf().getSeq() == seq && each.leaf().getLogOrigin().equals(origin)).findFirst();
        if (row.isEmpty()) {
            return Optional.empty();
        }
        ProofWindow window = windows.get(origin);
        ArrayDeque<Head> of = heads.get(origin);
        if (window != null && of != null) {
            for (Head head : of.reversed()) {
                Optional<InclusionProof> proof = window.prove(seq, head.size());
                if (proof.isPresent()) {
                    return Optional.of(new Proven(row.get(), proof, Optional.of(head)));
                }
            }
        }
        return Optional.of(new Proven(row.get(), Optional.empty(), Optional.empty()));
    }

    /// The Parsing Canonical Form of a schema that a row was written with.
    synchronized Optional<byte[]> schema(String fingerprint) {
        return Optional.ofNullable(schemas.get(fingerprint)).map(text -> text.getBytes(StandardCharsets.UTF_8));
    }
}

package millrace.integrity.audit;

import java.util.List;
import java.util.Map;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;

/// What a reconciliation found.
///
/// @param leaves that were read
/// @param completions that were read
/// @param matched completions that agree with their leaf
/// @param expired leaves whose completions are no longer in the topic
/// @param pruned completions whose leaves are no longer in the topic
/// @param counts of findings, by [Kind]; all kinds are there
/// @param findings the first [#MOST_FINDINGS] of them
/// @param seconds wall time
public record Reconciliation(
        long leaves, long completions, long matched, long expired, long pruned, Map<Kind, Long> counts,
        List<Refuted> findings, double seconds) {
    public static final int MOST_FINDINGS = 1000;

    /// How completions and leaves can fail to match.
    public enum Kind {
        /// A leaf without its completion.
        MISSING,
        /// A completion without its leaf.
        ORPHAN,
        /// A second completion, or a second leaf.
        DUPLICATE,
        /// A record that stands in another topic or partition than it says.
        WRONG_TOPIC,
        /// Another leaf, other text or other token ids than were attested.
        DIGEST_MISMATCH,
        /// Other facts than were attested, such as token counts.
        DIFFERS,
        /// No record.
        UNDECODABLE;

        static Kind of(String code) {
            return switch (code) {
                case "RECON_COMPLETION_MISSING" -> MISSING;
                case "RECON_LEAF_MISSING" -> ORPHAN;
                case "RECON_DUPLICATE", "LOG_SEQ_REPEATED" -> DUPLICATE;
                case "RECON_POSITION", "LOG_TOPIC", "LOG_PARTITION" -> WRONG_TOPIC;
                case "RECON_LEAF_HASH", "RECON_COMMITMENT" -> DIGEST_MISMATCH;
                case "RECON_DIFFERS" -> DIFFERS;
                default -> UNDECODABLE;
            };
        }
    }

    public Reconciliation {
        counts = Map.copyOf(counts);
        findings = List.copyOf(findings);
    }

    /// The first finding, `LOG_EMPTY` if there was nothing to match, else verified.
    public Verdict verdict() {
        if (!findings.isEmpty()) {
            return findings.getFirst();
        }
        return leaves + completions > 0 ? Verdict.VERIFIED
                : new Undecided("LOG_EMPTY", "neither leaves nor completions in that time; are these the topics?");
    }

    public long count() {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }
}

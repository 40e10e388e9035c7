package millrace.integrity.audit;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.Verdict.Verified;
import millrace.integrity.Withdrawal;
import org.jspecify.annotations.Nullable;

/// What an audit found.
///
/// @param leaves that were verified
/// @param checkpoints that were verified
/// @param completions that were read; those of other partitions do not count
/// @param matched completions that agree with their leaf
/// @param expired leaves whose completions are no longer in the topic
/// @param pruned completions whose leaves are no longer in the topic
/// @param partitions of the audit topic that were read
/// @param tailLeaves leaves after the last checkpoint of their log: chained, but under no checkpoint yet
/// @param signaturesChecked whether a key was given
/// @param completionsChecked whether a completions topic was given
/// @param logs every log with its size and root
/// @param witnessed leaves of each log that enough witnesses have cosigned, by origin; empty if none were demanded
/// @param computedBy answers by what computed them: backend and device
/// @param withdrawn leaves that later leaves withdraw or put in doubt
/// @param seconds wall time
public record AuditReport(
        Verdict verdict,
        long leaves,
        long checkpoints,
        long completions,
        long matched,
        long expired,
        long pruned,
        int partitions,
        long tailLeaves,
        boolean signaturesChecked,
        boolean completionsChecked,
        List<LogStatus> logs,
        Map<String, Long> witnessed,
        Map<String, Long> computedBy,
        List<Withdrawal> withdrawn,
        double seconds) {

    private static final int MOST_SHOWN = 20;

    public AuditReport {
        logs = List.copyOf(logs);
        withdrawn = List.copyOf(withdrawn);
        witnessed = Map.copyOf(witnessed);
        computedBy = Collections.unmodifiableMap(new LinkedHashMap<>(computedBy));
    }

    /// The violation that was found first; null if there is none.
    public @Nullable Refuted firstViolation() {
        return verdict instanceof Refuted refuted ? refuted : null;
    }

    /// `ok`, `violated` or `undecided`.
    public String word() {
        return switch (verdict) {
            case Verified verified -> "ok";
            case Refuted refuted -> "violated";
            case Undecided undecided -> "undecided";
        };
    }

    /// 0 ok, 1 violated, 2 undecided.
    public int exitCode() {
        return switch (verdict) {
            case Verified verified -> 0;
            case Refuted refuted -> 1;
            case Undecided undecided -> 2;
        };
    }

    /// A few lines for people.
    public String text() {
        StringBuilder out = new StringBuilder();
        out.append(line("%d leaves in %d logs of %d partitions: sequence, chain and hashes checked",
                leaves, logs.size(), partitions));
        out.append(line("%d checkpoints: roots checked, signatures %s", checkpoints,
                signaturesChecked ? "checked" : "NOT checked (no key given)"));
        computedBy.forEach((name, answers) -> out.append(line("%d answers computed by %s", answers, name)));
        if (completionsChecked) {
            out.append(line("%d completions read, %d agree with their leaf and open its commitments",
                    completions, matched));
        } else {
            out.append(line("completions NOT checked (no topic given)"));
        }
        if (expired > 0) {
            out.append(line("%d leaves are older than the oldest completion in the topic", expired));
        }
        if (pruned > 0) {
            out.append(line("%d completions are older than the oldest leaf in the topic", pruned));
        }
        if (tailLeaves > 0) {
            out.append(line("%d leaves are newer than the last checkpoint", tailLeaves));
        }
        if (!witnessed.isEmpty()) {
            out.append(line("%d leaves are cosigned by enough witnesses",
                    witnessed.values().stream().mapToLong(Long::longValue).sum()));
        }
        if (!withdrawn.isEmpty()) {
            out.append(line("%d ranges of leaves are withdrawn or in doubt:", withdrawn.size()));
            withdrawn.stream().limit(MOST_SHOWN).forEach(range -> out.append("  ").append(range).append('\n'));
            if (withdrawn.size() > MOST_SHOWN) {
                out.append(line("  and %d more: see --json", withdrawn.size() - MOST_SHOWN));
            }
        }
        switch (verdict) {
            case Verified verified -> out.append(line("verdict: ok (%.1f s)", seconds));
            case Refuted refuted -> out.append(line("verdict: VIOLATED (%.1f s)", seconds)).append("  ").append(refuted)
                    .append('\n');
            case Undecided undecided -> out.append(line("verdict: undecided (%.1f s)", seconds)).append("  ")
                    .append(undecided).append('\n');
        }
        return out.toString();
    }

    private static String line(String format, Object... values) {
        return String.format(Locale.ROOT, format, values) + "\n";
    }

    /// One JSON object on one line.
    public String json() {
        StringBuilder out = new StringBuilder("{");
        field(out, "verdict", word());
        field(out, "leaves", leaves);
        field(out, "checkpoints", checkpoints);
        field(out, "completions", completions);
        field(out, "matched", matched);
        field(out, "expired", expired);
        field(out, "pruned", pruned);
        field(out, "partitions", partitions);
        field(out, "tail_leaves", tailLeaves);
        field(out, "signatures_checked", signaturesChecked);
        field(out, "completions_checked", completionsChecked);
        out.append("\"computed_by\":{");
        computedBy.forEach((name, answers) -> {
            quote(out, name);
            out.append(':').append(answers).append(',');
        });
        if (!computedBy.isEmpty()) {
            out.setLength(out.length() - 1);
        }
        out.append("},\"logs\":[");
        for (int i = 0; i < logs.size(); i++) {
            LogStatus log = logs.get(i);
            out.append(i == 0 ? "{" : ",{");
            field(out, "origin", log.origin().text());
            field(out, "size", log.size());
            field(out, "checkpointed", log.checkpointed());
            field(out, "root", log.root() == null ? null : log.root().hex());
            Long covered = witnessed.get(log.origin().text());
            if (covered != null) {
                field(out, "witnessed", covered);
            }
            close(out);
        }
        out.append("],");
        withdrawn(out);
        switch (verdict) {
            case Verified verified -> { }
            case Undecided undecided -> {
                field(out, "code", undecided.code());
                field(out, "why", undecided.why());
            }
            case Refuted refuted -> violation(out, refuted);
        }
        out.append("\"seconds\":").append(String.format(Locale.ROOT, "%.3f", seconds));
        return out.append('}').toString();
    }

    private void withdrawn(StringBuilder out) {
        out.append("\"withdrawn\":[");
        for (int i = 0; i < withdrawn.size(); i++) {
            Withdrawal range = withdrawn.get(i);
            out.append(i == 0 ? "{" : ",{");
            field(out, "event", range.event().toString());
            field(out, "origin", range.origin());
            field(out, "from_seq", range.fromSeq());
            field(out, "to_seq", range.toSeq());
            field(out, "reason", range.reason());
            field(out, "detail", range.detail());
            field(out, "partition", range.at().partition());
            field(out, "offset", range.at().offset());
            close(out);
        }
        out.append("],");
    }

    private static void violation(StringBuilder out, Refuted refuted) {
        out.append("\"violation\":{");
        field(out, "code", refuted.code());
        field(out, "what", refuted.what());
        field(out, "expected", refuted.expected());
        field(out, "got", refuted.got());
        Verdict.Place at = refuted.at();
        if (at != null) {
            field(out, "topic", at.topic());
            field(out, "partition", at.partition());
            field(out, "offset", at.offset());
        }
        close(out);
        out.append(',');
    }

    private static void field(StringBuilder out, String name, @Nullable Object value) {
        out.append('"').append(name).append("\":");
        if (value instanceof String text) {
            quote(out, text);
        } else {
            out.append(value);
        }
        out.append(',');
    }

    private static void close(StringBuilder out) {
        out.setCharAt(out.length() - 1, '}');
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c == 0x7F || Character.isSurrogate(c)) {
                out.append("\\u%04x".formatted((int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}

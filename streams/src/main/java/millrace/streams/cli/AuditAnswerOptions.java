package millrace.streams.cli;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.audit.AnswerReader.Selection;
import millrace.schemas.AttestationRecord;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// Which answers a command takes.
final class AuditAnswerOptions {
    private static final int DEFAULT_SAMPLE = 100;

    @Option(names = "--request-id", paramLabel = "ID", description = "The answers to this request. Repeatable.")
    List<String> requestIds = new ArrayList<>();

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--range", paramLabel = "FROM-TO", description = "Leaves by their seq, both ends included.")
    @Nullable String range;

    @Option(names = "--from", paramLabel = "FILE",
            description = "Leaves of a list, as audit lottery writes it; - for standard input.")
    @Nullable String list;

    @Option(names = "--sample", paramLabel = "N",
            description = "So many of what the other options leave, drawn at random (default: all of them; 100 without any).")
    @Nullable Integer sample;

    @Option(names = "--seed", paramLabel = "S", defaultValue = "0", description = "Of the drawing (default: ${DEFAULT-VALUE}).")
    long seed;

    /// @param fit whether the command can do anything with a leaf; what is asked for by name is taken all the same
    Selection selection(Predicate<AttestationRecord> fit) throws IOException {
        boolean named = !requestIds.isEmpty() || list != null;
        if (sample != null && sample < 1) {
            throw new IllegalArgumentException("--sample: expected at least 1, got " + sample);
        }
        Predicate<Checked> wanted = leaf -> named || fit.test(leaf.record());
        if (!requestIds.isEmpty()) {
            Set<String> ids = Set.copyOf(requestIds);
            wanted = wanted.and(leaf -> ids.contains(leaf.record().getRequestId()));
        }
        if (range != null) {
            long[] ends = ends(range);
            wanted = wanted.and(leaf -> leaf.record().getSeq() >= ends[0] && leaf.record().getSeq() <= ends[1]);
        }
        if (list != null) {
            Set<String> listed = listed(list);
            wanted = wanted.and(leaf -> listed.contains(key(leaf.record().getLogOrigin(), leaf.record().getSeq())));
        }
        boolean all = named || range != null;
        return new Selection(wanted, sample != null ? sample : all ? 0 : DEFAULT_SAMPLE, seed);
    }

    private static long[] ends(String range) {
        if (!range.matches("[0-9]{1,18}-[0-9]{1,18}")) {
            throw new IllegalArgumentException("--range: expected FROM-TO such as 100-200, got \"" + range + "\"");
        }
        int dash = range.indexOf('-');
        return new long[] {Long.parseLong(range.substring(0, dash)), Long.parseLong(range.substring(dash + 1))};
    }

    private static Set<String> listed(String file) throws IOException {
        Set<String> listed = new HashSet<>();
        for (JsonLines.Line line : JsonLines.read(file)) {
            String origin = line.text("origin");
            long seq = line.longInteger("seq", -1);
            if (origin != null && seq >= 0) {
                listed.add(key(origin, seq));
            }
        }
        if (listed.isEmpty()) {
            throw new IllegalArgumentException(file + ": expected lines with origin and seq, got none");
        }
        return listed;
    }

    private static String key(String origin, long seq) {
        return seq + " " + origin;
    }
}

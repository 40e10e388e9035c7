package millrace.integrity;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32C;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import org.jspecify.annotations.Nullable;

/// What a monitor remembers of the logs it follows: of each the newest checkpoint that it found consistent with all
/// before, as the signed note that proves who signed it. Immutable.
///
/// As text: a first line, for each log `note N` and the N lines of its note, and a line with the CRC-32C of all before it.
public final class FollowState {
    public static final FollowState EMPTY = new FollowState(Map.of());
    private static final String FIRST_LINE = "millrace-follow-state/v1\n";
    private static final String NOTE = "note ";
    private static final String CRC = "crc32c ";

    private final Map<String, SignedNote> heads;

    private FollowState(Map<String, SignedNote> heads) {
        this.heads = heads;
    }

    /// The newest checkpoint of each log, by the log's origin.
    public Map<String, SignedNote> heads() {
        return Map.copyOf(heads);
    }

    /// The newest checkpoint of a log; null if none was seen.
    public @Nullable Checkpoint head(String origin) {
        SignedNote note = heads.get(origin);
        return note == null ? null : Checkpoint.parse(note.text());
    }

    /// The state after a newer checkpoint of one log. A state never goes back.
    ///
    /// @throws IntegrityException code `WITNESS_SMALLER` if it covers fewer leaves than the one before, `EQUIVOCATION` if
    ///     it covers as many and has another root
    public FollowState with(SignedNote note) {
        Checkpoint next = Checkpoint.parse(note.text());
        Checkpoint before = head(next.origin());
        if (before != null && next.size() < before.size()) {
            throw new IntegrityException("WITNESS_SMALLER",
                    ("log %s: expected a checkpoint of at least %d leaves, as was seen before, got %d; the log was"
                            + " rolled back, or this checkpoint is old").formatted(next.origin(), before.size(), next.size()));
        }
        if (before != null && next.size() == before.size() && !next.root().equals(before.root())) {
            throw new IntegrityException("EQUIVOCATION",
                    ("log %s: two signed checkpoints of size %d: expected root %s, as was seen before, got %s;"
                            + " keep both notes, they are proof").formatted(next.origin(), next.size(), before.root(), next.root()));
        }
        Map<String, SignedNote> all = new TreeMap<>(heads);
        all.put(next.origin(), note);
        return new FollowState(all);
    }

    /// The first log that has fewer leaves than were seen before; null if there is none.
    ///
    /// @param topic the audit topic
    /// @param logs as they are now; a log that is not among them was not looked at
    public @Nullable Refuted rolledBack(String topic, Collection<LogStatus> logs) {
        for (LogStatus log : logs) {
            Checkpoint head = head(log.origin().text());
            if (head != null && log.size() < head.size()) {
                return new Refuted("LOG_ROLLED_BACK", "log %s, seen before with root %s".formatted(head.origin(), head.root()),
                        "at least %d leaves".formatted(head.size()), "%d, root %s".formatted(log.size(), log.root()),
                        new Place(topic, log.origin().partition(), -1));
            }
        }
        return null;
    }

    public String encode() {
        StringBuilder out = new StringBuilder(FIRST_LINE);
        new TreeMap<>(heads).values().forEach(note -> {
            String text = note.encode();
            out.append(NOTE).append(text.lines().count()).append('\n').append(text);
        });
        String crc = crc(out.toString());
        return out.append(CRC).append(crc).append('\n').toString();
    }

    /// @throws IntegrityException code `FOLLOW_STATE` if the text is not that of a state, whole and unchanged
    public static FollowState parse(String text) {
        int last = text.lastIndexOf(CRC);
        require(text.startsWith(FIRST_LINE), "the first line " + FIRST_LINE.strip(), "another");
        require(last >= FIRST_LINE.length() && text.endsWith("\n"), "a last line crc32c", "none");
        String crc = text.substring(last + CRC.length(), text.length() - 1);
        String body = text.substring(0, last);
        require(crc.equals(crc(body)), CRC + crc(body), Shown.text(CRC + crc));
        Map<String, SignedNote> heads = new TreeMap<>();
        int at = FIRST_LINE.length();
        while (at < body.length()) {
            int end = body.indexOf('\n', at);
            String line = end < 0 ? "" : body.substring(at, end);
            require(line.matches(NOTE + "[1-9][0-9]?"), "note and a count of lines", Shown.text(line));
            int from = end + 1;
            at = from;
            for (int lines = Integer.parseInt(line.substring(NOTE.length())); lines > 0; lines--) {
                int next = body.indexOf('\n', at);
                require(next >= 0, "all lines of a note", "the end");
                at = next + 1;
            }
            SignedNote note = SignedNote.parse(body.substring(from, at));
            SignedNote twice = heads.put(Checkpoint.parse(note.text()).origin(), note);
            require(twice == null, "one note for each log", "a second");
        }
        return new FollowState(heads);
    }

    private static String crc(String text) {
        CRC32C crc = new CRC32C();
        crc.update(text.getBytes(StandardCharsets.UTF_8));
        return "%08x".formatted(crc.getValue());
    }

    private static void require(boolean condition, String expected, String got) {
        if (!condition) {
            throw new IntegrityException("FOLLOW_STATE", "follow state: expected %s, got %s".formatted(expected, got));
        }
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof FollowState that && heads.equals(that.heads);
    }

    @Override
    public int hashCode() {
        return heads.hashCode();
    }

    @Override
    public String toString() {
        return "FollowState" + heads.keySet();
    }
}

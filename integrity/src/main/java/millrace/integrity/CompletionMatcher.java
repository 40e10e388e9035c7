package millrace.integrity;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import millrace.integrity.LogVerifier.Violation;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Completion;
import millrace.schemas.Schemas;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;

/// Joins completions with the leaves that attest them, in whatever order they come: each completion has exactly one
/// leaf, at the position that it states and with the hash that it states, and the other way round; and what the leaf
/// says of it and commits to is what it says. Pure. Not for use by two threads at once.
///
/// Keeps a few hundred bytes per completion or leaf whose other half has not come yet; no text.
///
/// Codes: `RECON_UNDECODABLE`, `RECON_POSITION`, `RECON_DUPLICATE`, `RECON_LEAF_HASH`, `RECON_DIFFERS`,
/// `RECON_COMMITMENT`, and from [#verdict()] `RECON_LEAF_MISSING`, `RECON_COMPLETION_MISSING`.
public final class CompletionMatcher {
    private final String completionsTopic;
    private final WireReader<Completion> reader;
    private final @Nullable Consumer<Refuted> findings;
    private final Map<String, Log> logs = new TreeMap<>();
    private final Set<Integer> truncated = new HashSet<>();
    private final Set<Integer> leavesTruncated = new HashSet<>();
    private final Map<Integer, Beginning> beginnings = new HashMap<>();
    private @Nullable Refuted violation;
    private int round;
    private int asked;
    private long completions;
    private long matched;
    private long expired;

    /// The oldest leaf of a partition.
    private record Beginning(int epoch, long seq) {}

    /// One log's halves that still wait, by seq, and all that were ever seen.
    private static final class Log {
        final Origin origin;
        final Map<Long, Stated> completions = new HashMap<>();
        final Map<Long, Attested> leaves = new HashMap<>();
        final OffsetSet answered = new OffsetSet();
        long oldest = Long.MAX_VALUE; // seq of the oldest completion

        Log(Origin origin) {
            this.origin = origin;
        }

        Stream<Map.Entry<Long, Stated>> waitingCompletions(int asked) {
            return completions.entrySet().stream().filter(entry -> entry.getValue().round <= asked);
        }

        Stream<Map.Entry<Long, Attested>> waitingLeaves(int asked) {
            return leaves.entrySet().stream().filter(entry -> entry.getValue().round <= asked);
        }
    }

    /// What a leaf and a completion both say.
    private record Facts(
            String requestId, String modelDigest, String finish, int promptTokens, int completionTokens, long seed,
            String errorCode) {}

    /// How KV cache and weights were stored. Records of version 1 do not say it of both.
    private record Formats(String kv, String weights) {
        @Override
        public String toString() {
            return "KV %s, weights %s".formatted(Shown.text(kv), Shown.text(weights));
        }
    }

    /// How the logits were digested: the tokens of each digest, and what commits to the digests; null without any.
    private record Logits(int every, @Nullable Digest commit) {
        @Override
        public String toString() {
            return commit == null ? "none" : "%s of every %d tokens".formatted(commit, every);
        }
    }

    /// What a completion says, with its content reduced to commitments.
    private record Stated(
            Facts facts, Formats formats, Digest leaf, Digest textCommit, @Nullable Digest idsCommit, Logits logits,
            @Nullable Digest proofs, @Nullable Digest reply, Place place, int round) {}

    private record Attested(
            Facts facts, Formats formats, Digest leaf, Digest textCommit, Digest idsCommit, Logits logits,
            @Nullable Digest proofs, @Nullable Digest reply, int outPartition, Place place, int round) {}

    /// @param completionsTopic leaves that name another topic are answered there and are not expected here
    /// @param resolver see [WireReader]
    public CompletionMatcher(String completionsTopic, @Nullable IntFunction<Schema> resolver) {
        this(completionsTopic, resolver, null);
    }

    /// @param findings takes every violation, and the matching goes on after each; null ends it at the first
    public CompletionMatcher(
            String completionsTopic, @Nullable IntFunction<Schema> resolver, @Nullable Consumer<Refuted> findings) {
        this.completionsTopic = completionsTopic;
        this.findings = findings;
        this.reader = new WireReader<>(Schemas.COMPLETION, resolver);
    }

    /// Says which partitions of the completions topic have lost their oldest records. Then all completions must be
    /// given before the leaves, and leaves older than the oldest completion of their log are counted as expired.
    public void truncated(Collection<Integer> partitions) {
        truncated.addAll(partitions);
    }

    /// Says which partitions of the audit topic have lost their oldest leaves: completions older than the oldest that is left
    /// are counted and not held against anybody. Whether the logs may begin there is for [LogVerifier] to say.
    public void leavesTruncated(Collection<Integer> partitions) {
        leavesTruncated.addAll(partitions);
    }

    /// Takes a completion.
    ///
    /// @param onlyPartition of the audit topic, all other completions are passed over; null takes all
    /// @return whether nothing is violated so far
    public boolean completion(Place place, byte @Nullable [] value, @Nullable Integer onlyPartition) {
        if (violation != null) {
            return false;
        }
        try {
            Completion record = reader.read(value).record();
            if (onlyPartition != null && record.getAudit().getPartition() != onlyPartition) {
                return true;
            }
            completions++;
            take(record, place);
        } catch (Violation e) {
            found(e.refuted.at() == null ? e.refuted.at(place) : e.refuted);
        } catch (IntegrityException e) {
            found(new Refuted("RECON_UNDECODABLE", "completion", "a readable completion", e.getMessage(), place));
        }
        return violation == null;
    }

    private void take(Completion record, Place place) {
        String name = record.getAudit().getOrigin();
        Origin origin = Origin.parse(name);
        long seq = record.getAudit().getSeq();
        LogVerifier.require(origin.partition() == record.getAudit().getPartition() && seq >= 0, "RECON_POSITION",
                "completion: position in the audit log", "seq of at least 0 in partition " + origin.partition(),
                "seq %d in partition %d".formatted(seq, record.getAudit().getPartition()));
        Log log = logs.computeIfAbsent(name, key -> new Log(origin));
        LogVerifier.require(log.answered.add(seq), "RECON_DUPLICATE",
                "completion of leaf %d of log %s".formatted(seq, name), "one", "a second");
        Stated stated = stated(record, place);
        log.oldest = Math.min(log.oldest, seq);
        Attested leaf = log.leaves.remove(seq);
        if (leaf == null) {
            log.completions.put(seq, stated);
        } else {
            compare(leaf, stated);
        }
    }

    private Stated stated(Completion record, Place place) {
        byte[] salt = Buffers.bytes(record.getSalt());
        LogVerifier.require(salt.length == Commitment.SALT_BYTES, "RECON_COMMITMENT", "completion: salt", "32 bytes",
                salt.length + " bytes");
        String error = record.getErrorCode() == null ? "" : record.getErrorCode();
        Facts facts = new Facts(record.getRequestId(), modelDigest(record.getModelDigest()),
                record.getFinishReason().toString(), record.getUsage().getPromptTokens(),
                record.getUsage().getCompletionTokens(), record.getSeed(), error);
        return new Stated(facts, new Formats(record.getKvFormat(), record.getWeightFormat()),
                Digest.of(record.getAudit().getLeaf()), Commitment.completion(salt, record.getText()),
                record.getTokenIds() == null ? null : Commitment.tokenIds(salt, record.getTokenIds()),
                new Logits(record.getLogitsEvery(), record.getLogitsDigests() == null ? null
                        : Commitment.logits(salt, record.getLogitsDigests())),
                record.getActivationProofs() == null ? null
                        : Commitment.proofs(salt, Buffers.bytes(record.getActivationProofs())),
                ReplyForm.commit(salt, record), place, round);
    }

    /// As a leaf has it, which says zeros for a model without a digest.
    private static String modelDigest(String text) {
        return "sha256:" + (text.matches("sha256:[0-9a-f]{64}") ? text.substring(7) : Digest.ZERO.hex());
    }

    /// Takes a leaf that [LogVerifier] passed.
    ///
    /// @return whether nothing is violated so far
    public boolean leaf(LogVerifier.Checked checked) {
        if (violation != null) {
            return false;
        }
        AttestationRecord record = checked.record();
        try {
            take(record, checked);
        } catch (Violation e) {
            found(e.refuted.at() == null ? e.refuted.at(checked.place()) : e.refuted);
        }
        return violation == null;
    }

    private void found(Refuted refuted) {
        if (findings == null) {
            violation = refuted;
        } else {
            findings.accept(refuted);
        }
    }

    private void take(AttestationRecord record, LogVerifier.Checked checked) {
        Origin origin = Origin.parse(record.getLogOrigin());
        beginnings.putIfAbsent(origin.partition(), new Beginning(origin.epoch(), record.getSeq()));
        Log log = logs.computeIfAbsent(record.getLogOrigin(), key -> new Log(origin));
        boolean answers = record.getEvent() == AuditEvent.INFERENCE || record.getEvent() == AuditEvent.REFUSED;
        Stated stated = log.completions.remove(record.getSeq());
        if (!answers || !record.getOutTopic().equals(completionsTopic)) {
            if (stated != null) {
                throw new Violation(new Refuted("RECON_POSITION",
                        "completion: leaf %d of log %s".formatted(record.getSeq(), record.getLogOrigin()),
                        "INFERENCE or REFUSED for " + completionsTopic,
                        "%s for %s".formatted(record.getEvent(), Shown.text(record.getOutTopic())), stated.place));
            }
            return;
        }
        Attested leaf = new Attested(
                new Facts(record.getRequestId(), "sha256:" + Digest.of(record.getModelDigest()).hex(),
                        record.getFinish().toString(), record.getPromptTokens(), record.getCompletionTokens(),
                        record.getSeed(), record.getErrorCode()),
                new Formats(record.getKvFormat(), record.getWeightFormat()), checked.hash(),
                Digest.of(record.getCompletionCommit()), Digest.of(record.getTokenIdsCommit()),
                new Logits(record.getLogitsEvery(),
                        record.getLogitsCommit() == null ? null : Digest.of(record.getLogitsCommit())),
                record.getProofsCommit() == null ? null : Digest.of(record.getProofsCommit()),
                record.getReplyCommit() == null ? null : Digest.of(record.getReplyCommit()),
                record.getOutPartition(), checked.place(), round);
        if (stated == null && isExpired(record, log)) {
            expired++;
        } else if (stated == null) {
            log.leaves.put(record.getSeq(), leaf);
        } else {
            compare(leaf, stated);
        }
    }

    /// Topics delete their oldest records first, and a log's completions stand in order of seq: what is older than the
    /// oldest that is left was deleted by age.
    private boolean isExpired(AttestationRecord record, Log log) {
        boolean mayBe = record.getOutPartition() < 0 ? !truncated.isEmpty()
                : truncated.contains(record.getOutPartition());
        return mayBe && round == 0 && record.getSeq() < log.oldest;
    }

    private void compare(Attested leaf, Stated stated) {
        check(stated.leaf.equals(leaf.leaf), "RECON_LEAF_HASH", "completion: hash of " + leaf.place, leaf.leaf,
                stated.leaf, stated.place);
        check(stated.facts.equals(leaf.facts), "RECON_DIFFERS", "completion: what " + leaf.place + " says of it",
                shown(leaf.facts), shown(stated.facts), stated.place);
        check(leaf.formats.weights.isEmpty() || leaf.formats.equals(stated.formats), "RECON_DIFFERS",
                "completion: formats that " + leaf.place + " names", leaf.formats, stated.formats, stated.place);
        check(leaf.outPartition < 0 || leaf.outPartition == stated.place.partition(), "RECON_DIFFERS",
                "completion: partition that " + leaf.place + " names", leaf.outPartition, stated.place.partition(),
                stated.place);
        check(stated.textCommit.equals(leaf.textCommit), "RECON_COMMITMENT",
                "completion: text, as " + leaf.place + " commits to it", leaf.textCommit, stated.textCommit,
                stated.place);
        check(stated.idsCommit == null || stated.idsCommit.equals(leaf.idsCommit), "RECON_COMMITMENT",
                "completion: token ids, as " + leaf.place + " commits to them", leaf.idsCommit,
                String.valueOf(stated.idsCommit), stated.place);
        check(stated.logits.equals(leaf.logits), "RECON_COMMITMENT",
                "completion: logits digests, as " + leaf.place + " commits to them", leaf.logits, stated.logits,
                stated.place);
        check(Objects.equals(stated.proofs, leaf.proofs), "RECON_COMMITMENT",
                "completion: activation proofs, as " + leaf.place + " commits to them", shown(leaf.proofs),
                shown(stated.proofs), stated.place);
        check(Objects.equals(stated.reply, leaf.reply), "RECON_COMMITMENT",
                "completion: reply and log probabilities, as " + leaf.place + " commits to them", shown(leaf.reply),
                shown(stated.reply), stated.place);
        matched++;
    }

    private static String shown(@Nullable Digest commitment) {
        return commitment == null ? "none" : commitment.toString();
    }

    private static String shown(Facts facts) {
        return Shown.text(facts.requestId) + " " + facts.modelDigest + " " + facts.finish + " " + facts.promptTokens
                + "+" + facts.completionTokens + " tokens, seed " + facts.seed
                + (facts.errorCode.isEmpty() ? "" : ", error " + Shown.text(facts.errorCode));
    }

    private static void check(boolean condition, String code, String what, Object expected, Object got, Place place) {
        if (!condition) {
            throw new Violation(new Refuted(code, what, expected.toString(), got.toString(), place));
        }
    }

    public @Nullable Refuted violation() {
        return violation;
    }

    /// Says that what comes from now on only serves to match what came before: in a live topic there is always a
    /// newest record whose other half cannot be there yet, and it is not asked for. Called again, it asks for what came
    /// since the last call too.
    public void startSettling() {
        asked = round;
        round++;
    }

    /// Completions and leaves from before settling whose other half has not come.
    public long waiting() {
        return logs.values().stream().mapToLong(log -> orphans(log).count() + log.waitingLeaves(asked).count()).sum();
    }

    /// Completions that wait for a leaf which should be there.
    private Stream<Map.Entry<Long, Stated>> orphans(Log log) {
        return log.waitingCompletions(asked).filter(waiting -> !isPruned(log.origin, waiting.getKey()));
    }

    private boolean isPruned(Origin origin, long seq) {
        Beginning beginning = beginnings.get(origin.partition());
        return leavesTruncated.contains(origin.partition()) && (beginning == null || origin.epoch() < beginning.epoch
                || origin.epoch() == beginning.epoch && seq < beginning.seq);
    }

    /// The verdict over what came before settling, once nothing more will come.
    public Verdict verdict() {
        if (violation != null) {
            return violation;
        }
        return unmatched().findFirst().map(Verdict.class::cast).orElse(Verdict.VERIFIED);
    }

    /// What came before settling and has no other half, in order of log and seq, completions of a log first.
    public Stream<Refuted> unmatched() {
        return logs.entrySet().stream().flatMap(entry -> Stream.concat(
                orphans(entry.getValue()).sorted(Map.Entry.comparingByKey())
                        .map(waiting -> leafMissing(entry.getKey(), waiting.getKey(), waiting.getValue())),
                entry.getValue().waitingLeaves(asked).sorted(Map.Entry.comparingByKey())
                        .map(waiting -> completionMissing(entry.getKey(), waiting.getKey(), waiting.getValue()))));
    }

    private static Refuted leafMissing(String log, long seq, Stated completion) {
        return new Refuted("RECON_LEAF_MISSING", "completion: leaf %d of log %s".formatted(seq, log),
                completion.leaf.hex(), "no leaf there", completion.place);
    }

    private Refuted completionMissing(String log, long seq, Attested leaf) {
        return new Refuted("RECON_COMPLETION_MISSING", "leaf %d of log %s".formatted(seq, log),
                "a completion of request " + Shown.text(leaf.facts.requestId), "none in " + completionsTopic, leaf.place);
    }

    public long completions() {
        return completions;
    }

    /// Leaves whose completions are no longer in the topic.
    public long expired() {
        return expired;
    }

    /// Completions whose leaves are no longer in the topic.
    public long pruned() {
        return logs.values().stream().mapToLong(
                log -> log.completions.keySet().stream().filter(seq -> isPruned(log.origin, seq)).count()).sum();
    }

    /// Completions that were found to agree with their leaf.
    public long matched() {
        return matched;
    }
}

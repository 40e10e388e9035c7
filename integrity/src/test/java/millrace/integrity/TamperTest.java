package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.stream.Stream;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.Schemas;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.jspecify.annotations.Nullable;

/// What someone can do to the topics of an audit who may write to them, and in some cases has the signing key: each is
/// found, by the named check, with its code and its place.
class TamperTest {
    private static final String CHECKPOINTS = "millrace.checkpoints";
    private static final int LEAVES = 12;

    /// Which of the auditor's commands finds it.
    private enum Check { VERIFY, RECONCILE, FOLLOW }

    private record Tampering(String name, Check by, String code, Place at, Consumer<Copy> change) {}

    /// A copy of the three topics of one partition, and what a monitor remembers of the original.
    private static final class Copy {
        final TestLog log = new TestLog(0);
        final FollowState remembered;

        Copy() {
            log.add(5).checkpoint().add(4).checkpoint().add(3).checkpoint();
            remembered = FollowState.EMPTY.with(log.state.checkpoint().sign(TestLog.KEY));
        }

        AttestationRecord leaf(int at) {
            return new WireReader<AttestationRecord>(Schemas.ATTESTATION, null).read(log.leaves.get(at)).record();
        }

        Completion completion(int at) {
            return new WireReader<Completion>(Schemas.COMPLETION, null).read(log.completions.get(at)).record();
        }

        void leaf(int at, Consumer<AttestationRecord> change) {
            AttestationRecord record = leaf(at);
            change.accept(record);
            log.leaves.set(at, Leaf.of(record).wire(11));
        }

        void completion(int at, Consumer<Completion> change) {
            Completion completion = completion(at);
            change.accept(completion);
            log.completions.set(at, TestLog.wire(completion));
        }

        /// Numbers and chains the leaves anew, so that only the roots tell, and makes the completions name them.
        void chainAnew() {
            Digest before = Digest.ZERO;
            for (int i = 0; i < log.leaves.size(); i++) {
                AttestationRecord record = leaf(i);
                record.setSeq(i);
                record.setPrevLeaf(before.toHash());
                Leaf leaf = Leaf.of(record);
                log.leaves.set(i, leaf.wire(11));
                before = leaf.hash();
                for (int j = 0; j < log.completions.size(); j++) {
                    if (completion(j).getRequestId().equals(record.getRequestId())) {
                        long seq = i;
                        completion(j, completion -> {
                            completion.getAudit().setSeq(seq);
                            completion.getAudit().setLeaf(leaf.hash().toHash());
                        });
                    }
                }
            }
        }

        /// Signs the leaves as they are at the sizes of the checkpoints.
        void signAnew(NoteSigner key) {
            List<Integer> sizes = Stream.of(5, 9, LEAVES).filter(size -> size <= log.leaves.size()).toList();
            log.checkpoints.clear();
            TreeState state = TreeState.start(log.state.origin());
            for (int i = 0; i < log.leaves.size(); i++) {
                state = state.append(Leaf.of(leaf(i)).hash());
                if (sizes.contains(i + 1)) {
                    checkpoint(state.checkpoint(), state.checkpoint().sign(key).encode());
                }
            }
        }

        void checkpoint(Checkpoint fields, String note) {
            log.checkpoints.add(TestLog.wire(new CheckpointRecord(
                    fields.origin(), 0, fields.size(), fields.root().toHash(), note, 0L)));
        }

        String note(int at) {
            return new WireReader<CheckpointRecord>(Schemas.CHECKPOINT, null).read(log.checkpoints.get(at)).record().getNote();
        }

        Checkpoint head(int at) {
            return Checkpoint.parse(SignedNote.parse(note(at)).text());
        }
    }

    private static @Nullable Refuted refuted(Verdict verdict) {
        return verdict instanceof Refuted refuted ? refuted : null;
    }

    private static Verdict verify(Copy copy, boolean remembering) {
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        if (remembering) {
            copy.remembered.heads().values().forEach(note -> verifier.note(new Place("state file", 0, -1), note, null));
        }
        CompletionMatcher matcher = new CompletionMatcher(TestLog.COMPLETIONS, null);
        for (int i = 0; i < copy.log.completions.size(); i++) {
            matcher.completion(new Place(TestLog.COMPLETIONS, 0, i), copy.log.completions.get(i), null);
        }
        for (int i = 0; i < copy.log.checkpoints.size(); i++) {
            verifier.checkpoint(new Place(CHECKPOINTS, 0, i), copy.log.checkpoints.get(i));
        }
        for (int i = 0; i < copy.log.leaves.size(); i++) {
            LogVerifier.Checked checked = verifier.leaf(0, 2L * i, copy.log.leaves.get(i));
            if (checked != null) {
                matcher.leaf(checked);
            }
        }
        if (verifier.violation() != null) {
            return verifier.violation();
        }
        Refuted back = remembering ? copy.remembered.rolledBack(TestLog.TOPIC, verifier.logs()) : null;
        return back != null ? back : matcher.verdict().ok() ? verifier.verdict() : matcher.verdict();
    }

    private static Verdict reconcile(Copy copy) {
        List<Refuted> found = new ArrayList<>();
        CompletionMatcher matcher = new CompletionMatcher(TestLog.COMPLETIONS, null, found::add);
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        for (int i = 0; i < copy.log.completions.size(); i++) {
            matcher.completion(new Place(TestLog.COMPLETIONS, 0, i), copy.log.completions.get(i), null);
        }
        for (int i = 0; i < copy.log.leaves.size(); i++) {
            var decoded = reader.read(copy.log.leaves.get(i));
            matcher.leaf(new LogVerifier.Checked(decoded.record(), decoded.fingerprint(),
                    Leaf.hashOfWire(decoded.fingerprint(), copy.log.leaves.get(i)), new Place(TestLog.TOPIC, 0, 2L * i)));
        }
        matcher.unmatched().forEach(found::add);
        return found.isEmpty() ? Verdict.VERIFIED : found.getFirst();
    }

    private static Verdict run(Check check, Copy copy) {
        return switch (check) {
            case VERIFY -> verify(copy, false);
            case RECONCILE -> reconcile(copy);
            case FOLLOW -> verify(copy, true);
        };
    }

    private static Place leafAt(int index) {
        return new Place(TestLog.TOPIC, 0, 2L * index);
    }

    private static Place checkpointAt(int index) {
        return new Place(CHECKPOINTS, 0, index);
    }

    private static Place completionAt(int index) {
        return new Place(TestLog.COMPLETIONS, 0, index);
    }

    @Test
    void findsNothingInAnUntouchedCopy() {
        for (Check check : Check.values()) {
            assertThat(run(check, new Copy())).as("%s", check).isEqualTo(Verdict.VERIFIED);
        }
    }

    @TestFactory
    Stream<DynamicTest> findsEachTampering() {
        return Stream.of(ofLeaves(), ofPlaces(), ofCheckpoints(), ofCompletions(), ofWholeLogs()).flatMap(List::stream)
                .map(tampering -> DynamicTest.dynamicTest(tampering.by + ": " + tampering.name, () -> {
                    Copy copy = new Copy();
                    tampering.change.accept(copy);
                    Refuted found = refuted(run(tampering.by, copy));
                    assertThat(found).as("%s", run(tampering.by, copy)).isNotNull();
                    assertThat(found.code()).as("%s", found).isEqualTo(tampering.code);
                    assertThat(found.at()).as("%s", found).isEqualTo(tampering.at);
                }));
    }

    private static List<Tampering> ofLeaves() {
        return List.of(
                new Tampering("a leaf edited", Check.VERIFY, "LOG_PREV_LEAF", leafAt(4),
                        copy -> copy.leaf(3, r -> r.setMaxBatch(9))),
                new Tampering("the last leaf edited", Check.VERIFY, "LOG_ROOT", checkpointAt(2),
                        copy -> copy.leaf(LEAVES - 1, r -> r.setMaxBatch(9))),
                new Tampering("a leaf edited and the chain fixed up", Check.VERIFY, "LOG_ROOT", checkpointAt(0), copy -> {
                    copy.leaf(3, r -> r.setCompletionTokens(1));
                    copy.completion(3, c -> c.getUsage().setCompletionTokens(1));
                    copy.chainAnew();
                }),
                new Tampering("a leaf dropped", Check.VERIFY, "LOG_SEQ_SKIPPED", leafAt(6),
                        copy -> copy.log.leaves.remove(6)),
                new Tampering("a leaf and its answer dropped and the chain fixed up", Check.VERIFY, "LOG_ROOT", checkpointAt(1),
                        copy -> {
                            copy.log.leaves.remove(6);
                            copy.log.completions.remove(6);
                            copy.chainAnew();
                        }),
                new Tampering("two leaves in another order", Check.VERIFY, "LOG_SEQ_SKIPPED", leafAt(7),
                        copy -> Collections.swap(copy.log.leaves, 7, 8)),
                new Tampering("a leaf twice", Check.VERIFY, "LOG_SEQ_REPEATED", leafAt(3),
                        copy -> copy.log.leaves.add(3, copy.log.leaves.get(2))),
                new Tampering("the head cut off", Check.VERIFY, "LOG_SEQ_SKIPPED", leafAt(0),
                        copy -> copy.log.leaves.subList(0, 4).clear()),
                new Tampering("the tail cut off", Check.VERIFY, "RECON_LEAF_MISSING", completionAt(10),
                        copy -> copy.log.leaves.subList(10, LEAVES).clear()),
                new Tampering("a number skipped", Check.VERIFY, "LOG_SEQ_SKIPPED", leafAt(11),
                        copy -> copy.leaf(11, r -> r.setSeq(12))),
                new Tampering("a prompt answered twice", Check.VERIFY, "LOG_DUPLICATE_CAUSE", leafAt(4), copy -> {
                    copy.leaf(4, r -> r.setInOffset(copy.leaf(2).getInOffset()));
                    copy.chainAnew();
                }),
                new Tampering("a tombstone over a leaf", Check.VERIFY, "LOG_UNDECODABLE", leafAt(8),
                        copy -> copy.log.leaves.set(8, null)),
                new Tampering("a fault forged into the log", Check.VERIFY, "LOG_ROOT", checkpointAt(1), copy -> {
                    AttestationRecord fault = copy.leaf(5);
                    fault.setEvent(AuditEvent.FAULT);
                    fault.setRequestId("");
                    fault.setOutTopic("");
                    fault.setInOffset(-1L);
                    copy.log.leaves.add(6, Leaf.of(fault).wire(11));
                    copy.chainAnew();
                }));
    }

    private static List<Tampering> ofPlaces() {
        return List.of(
                new Tampering("leaves of another partition", Check.VERIFY, "LOG_PARTITION", leafAt(12),
                        copy -> copy.log.leaves.add(new TestLog(1).add().leaves.getFirst())),
                new Tampering("leaves of another cluster", Check.VERIFY, "LOG_ORIGIN", leafAt(12),
                        copy -> moved(copy, "another", null)),
                new Tampering("leaves of another topic", Check.VERIFY, "LOG_TOPIC", leafAt(12),
                        copy -> moved(copy, null, "another.audit")),
                new Tampering("an epoch that goes back", Check.VERIFY, "LOG_EPOCH_DECREASED", leafAt(13), copy -> {
                    byte[] old = copy.log.leaves.getLast();
                    copy.log.nextEpoch(record -> { });
                    copy.log.leaves.add(old);
                }),
                new Tampering("an epoch that hides leaves of the one before", Check.VERIFY, "LOG_EPOCH_START", leafAt(12),
                        copy -> copy.log.nextEpoch(record -> record.getPreviousLog().setSize(11L))));
    }

    private static void moved(Copy copy, @Nullable String cluster, @Nullable String topic) {
        AttestationRecord record = copy.log.next();
        record.setLogOrigin(new Origin("example.com", Objects.requireNonNullElse(cluster, "Q2x1c3Rlcg"),
                Objects.requireNonNullElse(topic, TestLog.TOPIC), 0, 0).text());
        copy.log.leaves.add(Leaf.of(record).wire(11));
    }

    private static List<Tampering> ofCheckpoints() {
        NoteSigner old = TestLog.key("example.com/millrace", 3);
        return List.of(
                new Tampering("a checkpoint of a key that is no longer valid", Check.VERIFY, "NOTE_UNKNOWN_KEY", checkpointAt(3),
                        copy -> copy.log.checkpoint(copy.log.state.checkpoint().sign(old))),
                new Tampering("all checkpoints signed anew with another key", Check.VERIFY, "NOTE_UNKNOWN_KEY", checkpointAt(0),
                        copy -> copy.signAnew(old)),
                new Tampering("the note of another checkpoint", Check.VERIFY, "NOTE_RECORD", checkpointAt(1), copy -> {
                    Checkpoint fields = copy.head(1);
                    String other = copy.note(0);
                    copy.log.checkpoints.remove(1);
                    copy.checkpoint(fields, other);
                    Collections.swap(copy.log.checkpoints, 1, 2);
                }),
                new Tampering("the signature of another checkpoint", Check.VERIFY, "NOTE_SIGNATURE", checkpointAt(3),
                        copy -> {
                    var signature = SignedNote.parse(copy.note(0)).signatures();
                    Checkpoint head = copy.head(1);
                    copy.checkpoint(head, new SignedNote(head.text(), signature).encode());
                }),
                new Tampering("another root, signed with the log's key", Check.VERIFY, "EQUIVOCATION", checkpointAt(3),
                        copy -> {
                    Checkpoint rolledBack = new Checkpoint(copy.head(1).origin(), 9, Digest.sha256("another history"));
                    copy.checkpoint(rolledBack, rolledBack.sign(TestLog.KEY).encode());
                }));
    }

    private static List<Tampering> ofCompletions() {
        byte[] otherSalt = Digest.sha256("another salt").bytes();
        return List.of(
                new Tampering("another text", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.setText("another answer"))),
                new Tampering("another salt", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.setSalt(ByteBuffer.wrap(otherSalt)))),
                new Tampering("another call of a tool", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.getReply().getToolCalls().getFirst().setName("delete_all"))),
                new Tampering("another log probability", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.getLogprobs().getFirst().setLogprob(-0.5f))),
                new Tampering("no reply", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.setReply(null))),
                new Tampering("other token ids", Check.RECONCILE, "RECON_COMMITMENT", completionAt(4),
                        copy -> copy.completion(4, c -> c.setTokenIds(List.of(9, 9, 9)))),
                new Tampering("a completion dropped", Check.RECONCILE, "RECON_COMPLETION_MISSING", leafAt(4),
                        copy -> copy.log.completions.remove(4)),
                new Tampering("a completion twice", Check.RECONCILE, "RECON_DUPLICATE", completionAt(12),
                        copy -> copy.log.completions.add(copy.log.completions.get(4))),
                new Tampering("a completion that nobody attested", Check.RECONCILE, "RECON_LEAF_MISSING", completionAt(12),
                        copy -> {
                    Completion forged = copy.completion(4);
                    forged.getAudit().setSeq(40L);
                    copy.log.completions.add(TestLog.wire(forged));
                }),
                new Tampering("the hash of another leaf", Check.RECONCILE, "RECON_LEAF_HASH", completionAt(4),
                        copy -> copy.completion(4, c -> c.getAudit().setLeaf(copy.completion(5).getAudit().getLeaf()))),
                new Tampering("other counts", Check.RECONCILE, "RECON_DIFFERS", completionAt(4),
                        copy -> copy.completion(4, c -> c.getUsage().setPromptTokens(1))),
                new Tampering("an answer under another request's name", Check.RECONCILE, "RECON_DIFFERS", completionAt(4),
                        copy -> copy.completion(4, c -> c.setRequestId("r-5"))));
    }

    /// The operator has the key, and makes everything agree; only who remembers, or has cosigned, can tell.
    private static List<Tampering> ofWholeLogs() {
        return List.of(
                new Tampering("leaves, answers and checkpoints cut off together", Check.FOLLOW, "LOG_ROLLED_BACK",
                        new Place(TestLog.TOPIC, 0, -1), copy -> {
                            copy.log.leaves.subList(9, LEAVES).clear();
                            copy.log.completions.subList(9, LEAVES).clear();
                            copy.log.checkpoints.removeLast();
                            assertThat(verify(copy, false)).isEqualTo(Verdict.VERIFIED);
                        }),
                new Tampering("the whole log rewritten and signed", Check.FOLLOW, "EQUIVOCATION", checkpointAt(2), copy -> {
                    copy.leaf(6, r -> r.setBuild("another build"));
                    copy.chainAnew();
                    copy.signAnew(TestLog.KEY);
                    assertThat(verify(copy, false)).isEqualTo(Verdict.VERIFIED);
                }),
                new Tampering("a rewritten log whose checkpoint was left out", Check.FOLLOW, "LOG_ROOT",
                        new Place("state file", 0, -1), copy -> {
                            copy.leaf(6, r -> r.setBuild("another build"));
                            copy.chainAnew();
                            copy.signAnew(TestLog.KEY);
                            copy.log.checkpoints.removeLast();
                        }));
    }
}

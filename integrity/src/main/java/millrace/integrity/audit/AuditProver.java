package millrace.integrity.audit;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Predicate;
import millrace.integrity.Checkpoint;
import millrace.integrity.ConsistencyProof;
import millrace.integrity.ConsistencyText;
import millrace.integrity.Digest;
import millrace.integrity.InclusionProof;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.MerkleFrontier;
import millrace.integrity.Origin;
import millrace.integrity.SignedNote;
import millrace.integrity.TlogProof;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.PruneMark;
import millrace.schemas.Schemas;
import org.jspecify.annotations.Nullable;

/// Makes the proofs of a log, for who cannot or should not read the topics. Needs 40 bytes of memory per leaf of the
/// partition.
public final class AuditProver {
    /// A proof and what it proves.
    ///
    /// @param leaf the hash that the proof is for
    public record Proven(TlogProof proof, Digest leaf, AttestationRecord record, Place place) {}

    /// What came of asking for a proof.
    ///
    /// @param proven null where the log is violated, or does not have what a proof needs
    public record Asked(Verdict verdict, @Nullable Proven proven) {
        private static Asked undecided(String code, String why) {
            return new Asked(new Verdict.Undecided(code, why), null);
        }
    }

    /// Whether a log grew from one checkpoint to another.
    ///
    /// @param proof null where the verdict needs none, or could not be given
    public record Grown(Verdict verdict, @Nullable ConsistencyText proof) {}

    /// Leaves of the log that is being read, and the one that was asked for.
    private static final class Found implements LeafScan.Sink {
        final Predicate<AttestationRecord> wanted;
        final List<byte[]> checkpoints = new ArrayList<>();
        final List<Digest> hashes = new ArrayList<>();
        String origin = "";

        /// Index of the log's first leaf that is still in the topic.
        long begins;

        /// Trees of the log's oldest leaves, as its PRUNE leaves state them.
        final List<PruneMark> marks = new ArrayList<>();

        @Nullable Checked leaf;

        Found(Predicate<AttestationRecord> wanted) {
            this.wanted = wanted;
        }

        long size() {
            return begins + hashes.size();
        }

        /// The tree of leaves that need not be there: empty where all are, null where nothing states one.
        @Nullable MerkleFrontier before() {
            return begins == 0 ? MerkleFrontier.EMPTY : marks.stream().filter(mark -> mark.getMinIndex() >= begins)
                    .min((a, b) -> Long.compare(a.getMinIndex(), b.getMinIndex())).map(MerkleFrontier::of).orElse(null);
        }

        @Override
        public void checkpoint(Place place, byte[] value) {
            checkpoints.add(value);
        }

        @Override
        public void leaf(Checked checked, byte[] value) {
            AttestationRecord record = checked.record();
            boolean sameLog = record.getLogOrigin().equals(origin);
            if (leaf != null && !sameLog) {
                return; // the log of the wanted leaf is complete
            }
            if (!sameLog) {
                origin = record.getLogOrigin();
                begins = record.getSeq();
                hashes.clear();
                marks.clear();
            }
            if (record.getEvent() == AuditEvent.PRUNE) {
                marks.add(record.getPrune());
            }
            hashes.add(checked.hash());
            if (leaf == null && wanted.test(record)) {
                leaf = checked;
            }
        }
    }

    private AuditProver() {}

    /// Reads the log up to a checkpoint and proves one leaf; verifies what it reads.
    ///
    /// @param options names the topics, and the one partition to read
    /// @param wanted true for the leaf to prove; the first such counts
    /// @return undecided with `PROVE_NOT_FOUND`, `PROVE_PRUNED` or `PROVE_NO_CHECKPOINT`, refuted with what does not hold
    /// @throws IntegrityException those of [AuditVerifier#run]
    public static Asked prove(
            AuditOptions options, Predicate<AttestationRecord> wanted, Consumer<AuditVerifier.Progress> progress) {
        if (options.checkpointsTopic() == null) {
            throw new IllegalArgumentException("prove: expected a checkpoints topic");
        }
        Found found = new Found(wanted);
        LogVerifier log = LeafScan.read(options, found, progress);
        Verdict violation = log.violation();
        if (violation != null) {
            return new Asked(violation, null);
        }
        Checked leaf = found.leaf;
        if (leaf == null) {
            return Asked.undecided("PROVE_NOT_FOUND", "expected a leaf of that request, got none in %s%s".formatted(
                    options.topic(), found.begins == 0 ? "" : "; leaves 0 to %d of %s are no longer there, it may have been one of them"
                            .formatted(found.begins - 1, found.origin)));
        }
        MerkleFrontier before = found.before();
        if (before == null || leaf.record().getSeq() < before.size()) {
            return Asked.undecided("PROVE_PRUNED",
                    ("leaf %d of %s: expected all leaves of the log, whose hashes its path is made of, got none of 0 to %d:"
                            + " retention has deleted them, and their tree is stated for leaves from %s on only. Prove it from a copy"
                            + " of the topic that has them, or from tiles that were exported before").formatted(
                                    leaf.record().getSeq(), found.origin, found.begins - 1, before == null ? "none" : before.size()));
        }
        SignedNote note = smallestCover(options, found, leaf);
        return note != null
                ? proven(found, before, leaf, note)
                : Asked.undecided("PROVE_NO_CHECKPOINT", "expected a checkpoint that covers leaf %d of %s, got none yet; try again later"
                        .formatted(leaf.record().getSeq(), found.origin));
    }

    /// The oldest checkpoint that covers the leaf: most readers have seen it, and its path is short.
    private static @Nullable SignedNote smallestCover(AuditOptions options, Found found, Checked wanted) {
        WireReader<CheckpointRecord> reader = new WireReader<>(Schemas.CHECKPOINT, options.resolver());
        return found.checkpoints.stream().map(value -> reader.read(value).record())
                .filter(record -> record.getOrigin().equals(found.origin) && record.getSize() > wanted.record().getSeq()
                        && record.getSize() <= found.size())
                .min((a, b) -> Long.compare(a.getSize(), b.getSize()))
                .map(record -> SignedNote.parse(record.getNote())).orElse(null);
    }

    /// What a PRUNE leaf states may be older than what was verified: the proof is held to the signed root.
    private static Asked proven(Found found, MerkleFrontier before, Checked wanted, SignedNote note) {
        Checkpoint head = Checkpoint.parse(note.text());
        List<Digest> known = found.hashes.subList(
                Math.toIntExact(before.size() - found.begins), Math.toIntExact(head.size() - found.begins));
        InclusionProof proof = InclusionProof.build(before, known, wanted.record().getSeq());
        if (proof.verify(wanted.hash(), head.root()) instanceof Verdict.Refuted other) {
            return new Asked(new Verdict.Refuted("PROVE_LOG_VIOLATED",
                    "path of leaf %d of %s, over the tree that a PRUNE leaf states for the leaves before %d: root of size %d"
                            .formatted(wanted.record().getSeq(), found.origin, before.size(), head.size()),
                    other.expected(), other.got()), null);
        }
        return new Asked(Verdict.VERIFIED,
                new Proven(new TlogProof(wanted.record().getSeq(), proof.path(), note), wanted.hash(), wanted.record(), wanted.place()));
    }

    /// Whether the log in the topic has both trees, and the proof of it for who has no access.
    ///
    /// @param options names the topics; the partition is that of the checkpoints' log
    /// @param newer a checkpoint of at least the older one's size
    public static Grown consistency(
            AuditOptions options, Checkpoint older, SignedNote newer, Consumer<AuditVerifier.Progress> progress) {
        Checkpoint head = Checkpoint.parse(newer.text());
        String origin = head.origin();
        Found found = new Found(record -> false);
        LeafScan.Sink sink = new LeafScan.Sink() {
            @Override
            public void leaf(Checked checked, byte[] value) {
                if (checked.record().getLogOrigin().equals(origin)) {
                    found.leaf(checked, value);
                }
            }

            // A PRUNE leaf behind the newer tree may state the older leaves.
            @Override
            public boolean more() {
                return found.begins > 0 || found.size() < head.size();
            }
        };
        LogVerifier log = LeafScan.read(options.only(Origin.parse(origin).partition()), sink, progress);
        Verdict violation = log.violation();
        if (violation != null) {
            return new Grown(violation, null);
        }
        if (found.size() < head.size()) {
            return new Grown(new Verdict.Undecided("CHECKPOINT_AHEAD",
                    "log %s: the newer checkpoint covers %d leaves, %d are here; they are late, or were removed"
                            .formatted(origin, head.size(), found.size())), null);
        }
        MerkleFrontier before = found.before();
        if (before == null || older.size() < before.size()) {
            return new Grown(new Verdict.Undecided("PROVE_PRUNED",
                    "log %s: leaves 0 to %d have expired; the trees of %s leaves and more can be told, the older checkpoint is of %d"
                            .formatted(origin, found.begins - 1, before == null ? "no" : before.size(), older.size())), null);
        }
        List<Digest> hashes = found.hashes.subList(
                Math.toIntExact(before.size() - found.begins), Math.toIntExact(head.size() - found.begins));
        for (Checkpoint claim : List.of(older, head)) {
            Digest root = before.and(hashes.subList(0, Math.toIntExact(claim.size() - before.size()))).root();
            if (!root.equals(claim.root())) {
                return new Grown(new Verdict.Refuted("LOG_ROOT",
                        "checkpoint of size %d of log %s: root".formatted(claim.size(), origin), root, claim.root()), null);
            }
        }
        ConsistencyProof proof = ConsistencyProof.build(before, hashes, older.size());
        return new Grown(Verdict.VERIFIED, new ConsistencyText(older.size(), proof.path(), newer));
    }
}

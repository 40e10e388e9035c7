package millrace.integrity.audit;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import millrace.integrity.Checkpoint;
import millrace.integrity.Digest;
import millrace.integrity.InclusionProof;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.SignedNote;
import millrace.integrity.TlogProof;
import millrace.integrity.Verdict.Place;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Schemas;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// Makes the proof that a log holds a leaf, for who cannot or should not read the topics.
public final class AuditProver {
    /// A proof and what it proves.
    ///
    /// @param leaf the hash that the proof is for
    public record Proven(TlogProof proof, Digest leaf, AttestationRecord record, Place place) {}

    /// Leaves of the log that is being read, and the one that was asked for.
    private static final class Found {
        final List<Digest> hashes = new ArrayList<>();
        String origin = "";
        @Nullable Checked wanted;
    }

    private AuditProver() {}

    /// Reads the log up to a checkpoint and proves one leaf; verifies what it reads.
    ///
    /// Needs 40 bytes of memory per leaf of the partition.
    ///
    /// @param options names the topics, and the one partition to read
    /// @param wanted true for the leaf to prove; the first such counts
    /// @throws IntegrityException code `PROVE_NOT_FOUND`, `PROVE_NO_CHECKPOINT`, `PROVE_LOG_VIOLATED`, and those of
    ///     [AuditVerifier#run]
    public static Proven prove(AuditOptions options, Predicate<AttestationRecord> wanted) {
        String checkpointsTopic = options.checkpointsTopic();
        if (checkpointsTopic == null) {
            throw new IllegalArgumentException("prove: expected a checkpoints topic");
        }
        LogVerifier log = new LogVerifier(options.topic(), options.keys(), options.resolver());
        List<byte[]> checkpoints = new ArrayList<>();
        try (KafkaLog heads = new KafkaLog(options.client(), checkpointsTopic, null, options.stall())) {
            heads.takeEnds();
            heads.read(record -> {
                checkpoints.add(record.value());
                return log.checkpoint(new Place(record.topic(), record.partition(), record.offset()), record.value(),
                        options.partition());
            });
        }
        Found found = new Found();
        try (KafkaLog leaves = new KafkaLog(options.client(), options.topic(), options.partition(), options.stall())) {
            leaves.takeEnds();
            leaves.read(record -> take(log.leaf(record.partition(), record.offset(), record.value()), found, wanted));
        }
        if (log.violation() != null) {
            throw new IntegrityException("PROVE_LOG_VIOLATED", "prove: the log does not hold: " + log.violation());
        }
        if (found.wanted == null) {
            throw new IntegrityException("PROVE_NOT_FOUND",
                    "prove: expected a leaf of that request, got none in %s".formatted(options.topic()));
        }
        return proven(found, found.wanted, smallestCover(options, checkpoints, found, found.wanted));
    }

    private static boolean take(@Nullable Checked leaf, Found found, Predicate<AttestationRecord> wanted) {
        if (leaf == null) {
            return false;
        }
        AttestationRecord record = leaf.record();
        Checked known = found.wanted;
        boolean sameLog = record.getLogOrigin().equals(found.origin);
        if (known != null && !sameLog) {
            return true; // the log of the wanted leaf is complete
        }
        if (!sameLog) {
            found.origin = record.getLogOrigin();
            found.hashes.clear();
        }
        found.hashes.add(leaf.hash());
        if (known == null && wanted.test(record)) {
            found.wanted = leaf;
        }
        return true;
    }

    /// The oldest checkpoint that covers the leaf: most readers have seen it, and its path is short.
    private static SignedNote smallestCover(
            AuditOptions options, List<byte[]> checkpoints, Found found, Checked wanted) {
        WireReader<CheckpointRecord> reader = new WireReader<>(Schemas.CHECKPOINT, options.resolver());
        return checkpoints.stream().map(value -> reader.read(value).record())
                .filter(record -> record.getOrigin().equals(found.origin) && record.getSize() > wanted.record().getSeq()
                        && record.getSize() <= found.hashes.size())
                .min((a, b) -> Long.compare(a.getSize(), b.getSize()))
                .map(record -> SignedNote.parse(record.getNote()))
                .orElseThrow(() -> new IntegrityException("PROVE_NO_CHECKPOINT",
                        "prove: expected a checkpoint that covers leaf %d of %s, got none yet; try again later"
                                .formatted(wanted.record().getSeq(), found.origin)));
    }

    private static Proven proven(Found found, Checked wanted, SignedNote note) {
        int size = Math.toIntExact(Checkpoint.parse(note.text()).size());
        int index = Math.toIntExact(wanted.record().getSeq());
        InclusionProof proof = InclusionProof.build(found.hashes.subList(0, size), index);
        return new Proven(new TlogProof(index, proof.path(), note), wanted.hash(), wanted.record(), wanted.place());
    }
}

package millrace.integrity.audit;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Predicate;
import millrace.integrity.Checkpoint;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.Lottery;
import millrace.integrity.NoteVerifier;
import millrace.integrity.SignedNote;
import millrace.integrity.Verdict.Place;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Schemas;
import org.jspecify.annotations.Nullable;

/// Draws leaves of a log by [Lottery], with the signatures of a witness or, without one, of the log itself.
public final class AuditLottery {
    /// @param drawn leaves, in order of partition and seq
    /// @param candidates leaves that could have been drawn
    /// @param early leaves that no signed checkpoint covers yet
    /// @param log the verifier, for its violation
    public record Draw(List<Checked> drawn, long candidates, long early, LogVerifier log) {
        public Draw {
            drawn = List.copyOf(drawn);
        }
    }

    private final Lottery lottery;
    private final Predicate<AttestationRecord> wanted;
    private final Map<String, TreeMap<Long, byte[]>> signatures = new HashMap<>();
    private final List<Checked> drawn = new ArrayList<>();
    private long candidates;
    private long early;

    private AuditLottery(BigDecimal rate, Predicate<AttestationRecord> wanted) {
        lottery = new Lottery(rate);
        this.wanted = wanted;
    }

    /// Draws.
    ///
    /// @param options names the topics; its keys sign the log
    /// @param witness whose cosignatures decide; null takes the log's own signatures, which the operator can foresee
    /// @param cosignaturesTopic where the witness publishes
    /// @param wanted true for a leaf that may be drawn
    /// @throws IntegrityException code `LOTTERY_KEY` without a key of the log, and those of [AuditVerifier#run]
    public static Draw draw(
            AuditOptions options, BigDecimal rate, @Nullable NoteVerifier witness, String cosignaturesTopic,
            Predicate<AttestationRecord> wanted, Consumer<AuditVerifier.Progress> progress) {
        if (options.keys().isEmpty()) {
            throw new IntegrityException("LOTTERY_KEY", "lottery: expected the key of the log, got none;"
                    + " who could have written the signatures could choose what is drawn");
        }
        AuditLottery draw = new AuditLottery(rate, wanted);
        if (witness != null) {
            draw.readCosignatures(options, witness, cosignaturesTopic);
        }
        WireReader<CheckpointRecord> reader = new WireReader<>(Schemas.CHECKPOINT, options.resolver());
        LogVerifier log = LeafScan.read(options, new LeafScan.Sink() {
            @Override
            public void leaf(Checked leaf, byte[] value) {
                draw.take(leaf);
            }

            @Override
            public void checkpoint(Place place, byte[] value) {
                if (witness == null) {
                    SignedNote note = SignedNote.parse(reader.read(value).record().getNote());
                    options.keys().stream().flatMap(key -> note.of(key).stream()).findFirst()
                            .ifPresent(line -> draw.put(note, line));
                }
            }
        }, progress);
        return new Draw(draw.drawn, draw.candidates, draw.early, log);
    }

    private void readCosignatures(AuditOptions options, NoteVerifier witness, String topic) {
        Map<String, Long> times = new HashMap<>();
        try (KafkaLog log = new KafkaLog(options.client(), topic, null, options.stall())) {
            log.takeEnds();
            log.read(record -> {
                SignedNote note = SignedNote.parse(new String(record.value(), StandardCharsets.UTF_8));
                for (SignedNote.Signature line : note.of(witness)) {
                    note.verify(List.of(witness));
                    note.verify(options.keys());
                    // Of several cosignatures of one checkpoint the oldest counts.
                    long time = ByteBuffer.wrap(line.signature()).getLong();
                    if (time < times.getOrDefault(note.text(), Long.MAX_VALUE)) {
                        times.put(note.text(), time);
                        put(note, line);
                    }
                }
                return true;
            });
        }
    }

    private void put(SignedNote note, SignedNote.Signature line) {
        Checkpoint head = Checkpoint.parse(note.text());
        signatures.computeIfAbsent(head.origin(), key -> new TreeMap<>()).put(head.size(), Lottery.signature(line));
    }

    private void take(Checked leaf) {
        if (!wanted.test(leaf.record())) {
            return;
        }
        long seq = leaf.record().getSeq();
        Map.Entry<Long, byte[]> next =
                signatures.getOrDefault(leaf.record().getLogOrigin(), new TreeMap<>()).higherEntry(seq);
        if (next == null) {
            early++;
            return;
        }
        candidates++;
        if (lottery.draws(next.getValue(), seq)) {
            drawn.add(leaf);
        }
    }
}

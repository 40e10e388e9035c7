package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteVerifier;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.audit.AuditLottery;
import millrace.integrity.audit.AuditOptions;
import millrace.schemas.AttestationRecord;
import millrace.streams.Replay;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit lottery`: draws what is to be replayed.
@Command(
        name = "lottery",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Draws answers to be computed again, by the signature of a witness over the next checkpoint: nobody could",
            "know it when the answers were given. Prints one JSON object for each, as audit replay --from takes them.",
            "Without a witness the log's own signature decides, which is unpredictable to outsiders only."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit lottery --rate 0.01 --key log.pub --witness witness.pub > drawn.jsonl",
            "  millrace audit lottery --rate 0.01 --key log.pub | millrace audit replay --model DIR --key log.pub --from -",
            "",
            "Exit codes: 0 drawn, 1 violated, 3 usage or input/output."
        })
final class AuditLotteryCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--rate", required = true, paramLabel = "P",
            description = "Share of the answers that is drawn, such as 0.01.")
    BigDecimal rate = BigDecimal.ONE;

    @Option(names = "--witness", paramLabel = "VKEY|FILE", description = "Public key of the witness whose signatures decide.")
    @Nullable String witness;

    @Option(names = "--cosignatures-topic", paramLabel = "TOPIC",
            description = "Topic of the cosignatures (default: topics.cosignatures).")
    @Nullable String cosignaturesTopic;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--json", description = "Prints one more JSON object at the end: a summary.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditLotteryCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> draw(console));
    }

    private int draw(AuditConsole console) throws IOException {
        ServiceConfig config = log.client.load();
        AuditOptions options = log.options(config, null, partition, Duration.ZERO, null);
        List<NoteVerifier> keys = witness == null ? List.of()
                : AuditLogOptions.keysOf("--witness", NoteKey.Kind.WITNESS, List.of(witness));
        if (keys.size() > 1) {
            throw new IllegalArgumentException("--witness: expected one witness, got " + keys.size());
        }
        String topic = cosignaturesTopic == null ? config.string("topics.cosignatures") : cosignaturesTopic;
        AuditLottery.Draw draw = AuditLottery.draw(
                options, rate, keys.isEmpty() ? null : keys.getFirst(), topic, Replay::isAnswer, console.progress());
        Refuted violation = draw.log().violation();
        if (violation != null) {
            return console.end("the log", violation, AuditConsole.object().put("drawn", 0));
        }
        draw.drawn().forEach(leaf -> console.print(line(leaf.record())));
        String seededBy = keys.isEmpty() ? "log" : keys.getFirst().label();
        console.note("%d of %d answers drawn at a rate of %s; %d are too new: no %s covers them yet".formatted(
                draw.drawn().size(), draw.candidates(), rate, draw.early(), keys.isEmpty() ? "checkpoint" : "cosignature"));
        if (keys.isEmpty()) {
            console.note("drawn by the log's own signatures: unpredictable to outsiders only; give --witness");
        }
        if (json) {
            console.print(AuditConsole.put(AuditConsole.object(), Verdict.VERIFIED).put("drawn", draw.drawn().size())
                    .put("candidates", draw.candidates()).put("too_new", draw.early()).put("rate", rate)
                    .put("seeded_by", seededBy)
                    .put("unpredictable_to", keys.isEmpty() ? "outsiders only" : "all but the witness"));
        }
        return AuditCommand.OK;
    }

    private static ObjectNode line(AttestationRecord record) {
        return AuditConsole.object().put("origin", record.getLogOrigin()).put("seq", record.getSeq())
                .put("request_id", record.getRequestId());
    }
}

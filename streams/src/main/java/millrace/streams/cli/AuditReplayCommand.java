package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.Function;
import millrace.engine.Engine;
import millrace.integrity.IntegrityException;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.WireReader;
import millrace.integrity.audit.AnswerReader;
import millrace.integrity.audit.AnswerReader.Answer;
import millrace.integrity.audit.AuditOptions;
import millrace.schemas.Prompt;
import millrace.schemas.Schemas;
import millrace.streams.Replay;
import millrace.streams.Replay.Result;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit replay`: computes answers again.
@Command(
        name = "replay",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Verifies the log, takes answers from it, computes them again from their prompt records with the model at",
            "hand, and compares prompt, sampling, token ids, logits digests and text with what was attested, bit for",
            "bit. Threads, batches and backend may be others than the service had: they do not change the bits.",
            "Answers of another profile, as of a GPU on a processor, are followed token by token: each token must be what",
            "comes out here or a near tie, and activation proofs must agree within their tolerance."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit replay --model glm-tiny --key log.pub --sample 200 --seed 7",
            "  millrace audit replay --model DIR --key log.pub --request-id r-17",
            "  millrace audit replay --model DIR --key log.pub --partition 0 --range 100-199 --threads 2 --backend scalar",
            "  millrace audit lottery --rate 0.01 --key log.pub | millrace audit replay --model DIR --from -",
            "",
            "Exit codes: 0 all agree, 1 violated, 2 cannot be decided (another model or profile, a prompt or",
            "completion that has expired, nothing to replay), 3 usage or input/output."
        })
final class AuditReplayCommand implements Callable<Integer> {
    private static final int SHOWN = 20;
    private static final String SCHEMA_HEADER = "__value_schema_id";

    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Mixin
    AuditAnswerOptions answers = new AuditAnswerOptions();

    @Mixin
    AuditEngineOptions engine = new AuditEngineOptions();

    @Option(names = "--completions-topic", paramLabel = "TOPIC",
            description = "Topic of the completions (default: topics.completions).")
    @Nullable String completionsTopic;

    @Option(names = "--json", description = "Prints a JSON object for each answer that is not bit-exact, and one at the end.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditReplayCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> replay(console));
    }

    private int replay(AuditConsole console) throws IOException {
        ServiceConfig config = log.client.load();
        String completions = completionsTopic == null ? config.string("topics.completions") : completionsTopic;
        if (log.client.registry == null) {
            WireReader<Prompt> reader = new WireReader<>(Schemas.PROMPT, null);
            AuditOptions options = log.options(config, completions, answers.partition, Duration.ZERO, null);
            return replay(console, config, options, record -> reader.read(record.value()).record());
        }
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry())) {
            AvroDecoder<Prompt> decoder = new AvroDecoder<>(registry, Prompt.class);
            AuditOptions options = log.options(config, completions, answers.partition, Duration.ZERO, registry::byId);
            return replay(console, config, options, record -> decode(decoder, record));
        }
    }

    private static Prompt decode(AvroDecoder<Prompt> decoder, ConsumerRecord<byte[], byte[]> record) {
        Header schema = record.headers().lastHeader(SCHEMA_HEADER);
        try {
            return decoder.decode(record.value(), schema == null ? null : schema.value());
        } catch (DecodeException e) {
            throw new IntegrityException("AVRO_DECODE", String.valueOf(e.getMessage()), e);
        }
    }

    private int replay(
            AuditConsole console, ServiceConfig config, AuditOptions options, Function<ConsumerRecord<byte[], byte[]>, Prompt> decoder)
            throws IOException {
        long start = System.nanoTime();
        AnswerReader.Read read = AnswerReader.read(options, answers.selection(Replay::isAnswer), console.progress());
        Refuted violation = read.log().violation();
        if (violation != null) {
            return console.end("the log", violation, AuditConsole.object().put("replayed", 0));
        }
        List<Answer> found = read.answers();
        if (found.isEmpty()) {
            return console.end("replay", new Undecided("REPLAY_NOTHING", "no answer in %s fits what was asked for"
                    .formatted(options.topic())), AuditConsole.object().put("replayed", 0));
        }
        console.note("%d answers to compute again".formatted(found.size()));
        int logitsEvery = found.stream().mapToInt(answer -> answer.leaf().record().getLogitsEvery()).max().orElse(0);
        boolean proofs = found.stream().anyMatch(answer -> answer.leaf().record().getProofsCommit() != null);
        try (Engine opened = engine.open(config, found.getFirst().leaf().record(), logitsEvery, proofs)) {
            console.note("engine: %s, %s, KV %s, weights %s, %s".formatted(opened.card().name(), opened.card().backend(),
                    opened.card().kvFormat(), opened.card().weightFormat(), opened.card().profile()));
            List<Result> results = new Replay(opened, opened::trace, decoder, logitsEvery)
                    .run(found, done -> console.progress("answers", done, found.size()));
            return report(console, results, (System.nanoTime() - start) / 1e9);
        }
    }

    private int report(AuditConsole console, List<Result> results, double seconds) {
        long exact = results.stream().filter(result -> result.verdict().ok() && result.bitExact()).count();
        long within = results.stream().filter(result -> result.verdict().ok() && !result.bitExact()).count();
        long nearTies = results.stream().mapToLong(Result::nearTies).sum();
        long proofs = results.stream().mapToLong(Result::proofs).sum();
        long differing = results.stream().filter(result -> result.verdict() instanceof Refuted).count();
        long logits = results.stream().filter(result -> result.verdict().ok() && result.bitExact()
                && result.answer().leaf().record().getLogitsCommit() != null).count();
        long tokens = results.stream().mapToLong(Result::tokens).sum();
        List<Result> others = results.stream().filter(result -> !result.verdict().ok()).toList();
        Verdict verdict = others.stream().map(Result::verdict).filter(Refuted.class::isInstance).findFirst()
                .or(() -> others.stream().map(Result::verdict).findFirst()).orElse(Verdict.VERIFIED);
        if (json) {
            others.forEach(result -> console.print(line(result)));
            ObjectNode fields = AuditConsole.object().put("replayed", results.size()).put("bit_exact", exact)
                    .put("within_tolerance", within).put("near_ties", nearTies).put("proofs", proofs)
                    .put("differing", differing).put("undecided", results.size() - exact - within - differing)
                    .put("with_logits", logits).put("tokens", tokens).put("seconds", Math.round(seconds * 1000) / 1000.0);
            return console.end("replay", verdict, fields);
        }
        others.stream().limit(SHOWN).forEach(result -> console.say("  " + result.verdict()));
        if (others.size() > SHOWN) {
            console.say("  and %d more".formatted(others.size() - SHOWN));
        }
        console.say(String.format(Locale.ROOT, "%d of %d answers bit-exact (%d with logits digests), %d tokens, %.1f s",
                exact, results.size(), logits, tokens, seconds));
        if (within > 0) {
            console.say("%d answers of another profile within its tolerance: %d near ties, %d activation proofs agree"
                    .formatted(within, nearTies, proofs));
        }
        console.say("verdict: " + (verdict instanceof Refuted ? "VIOLATED" : AuditConsole.word(verdict)));
        return AuditConsole.exitCode(verdict);
    }

    private static ObjectNode line(Result result) {
        var record = result.answer().leaf().record();
        ObjectNode line = AuditConsole.object().put("origin", record.getLogOrigin()).put("seq", record.getSeq())
                .put("request_id", record.getRequestId());
        return AuditConsole.put(line, result.verdict());
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.engine.Engine;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// How good a model, as served, is: right answers and perplexity.
@Command(
        name = "eval",
        mixinStandardHelpOptions = true,
        description = "Measures right answers by category and the perplexity of a text.",
        footer = {
            "",
            "--questions: JSON lines {\"prompt\", \"answer\", \"category\"}. Each prompt is sent",
            "  as a single user message and completed greedily; an answer is right if it",
            "  equals the expected one, white space at the ends aside.",
            "--tokens: a JSON array of token ids, cut into consecutive windows; each",
            "  window's first token is not predicted.",
            "At least one of the two is needed. Figures go to standard output, progress to",
            "standard error.",
            "",
            "Examples:",
            "  millrace eval --model glm-tiny --questions questions.jsonl",
            "  millrace eval --model DIR --tokens ids.json --window 256 --kv int8 --json"
        })
final class EvalCommand implements Callable<Integer> {
    @Mixin
    EngineOptions options = new EngineOptions();

    @Option(names = "--questions", paramLabel = "FILE", description = "Questions with their answers; - for standard input.")
    @Nullable String questions;

    @Option(names = "--tokens", paramLabel = "FILE", description = "Token ids of a text.")
    @Nullable Path tokens;

    @Option(names = "--window", paramLabel = "N", description = "Tokens of a window; default: 256.")
    int window = 256;

    @Option(names = "--max-tokens", paramLabel = "N", description = "The most tokens of an answer; default: 64.")
    int maxTokens = 64;

    @Option(names = "--json", description = "One JSON object instead of a table.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    EvalCommand() {}

    @Override
    public Integer call() throws Exception {
        if (questions == null && tokens == null) {
            throw new ParameterException(spec.commandLine(), "expected --questions, --tokens, or both, got neither");
        }
        if (window < 2) {
            throw new ParameterException(spec.commandLine(), "--window: expected at least 2 tokens, got " + window);
        }
        var config = options.config();
        QuestionScore answers = questions == null ? null : QuestionScore.read(questions);
        PerplexityScore text = tokens == null ? null : PerplexityScore.read(tokens, window);
        PrintWriter err = spec.commandLine().getErr();
        long start = System.nanoTime();
        ObjectNode report = JsonLines.mapper().createObjectNode();
        try (Engine engine = options.open(config)) {
            report.put("model", engine.card().name());
            report.put("model_digest", engine.card().modelDigest());
            report.put("backend", engine.card().backend());
            report.put("kv_format", engine.card().kvFormat());
            if (answers != null) {
                answers.run(engine, maxTokens, config.maxBatch(), err);
            }
            if (text != null) {
                text.run(engine, config.maxBatch(), err);
            }
        }
        if (answers != null) {
            answers.report(report.putObject("accuracy"));
        }
        if (text != null) {
            text.report(report.putObject("nll"));
        }
        report.put("seconds", Math.round((System.nanoTime() - start) / 1e7) / 100.0);
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(JsonLines.mapper().writeValueAsString(report));
        } else {
            print(report, out);
        }
        out.flush();
        return 0;
    }

    private static void print(ObjectNode report, PrintWriter out) {
        out.println("model       " + report.get("model").asText() + "  " + report.get("model_digest").asText());
        out.println("backend     " + report.get("backend").asText() + ", KV " + report.get("kv_format").asText());
        for (Map.Entry<String, com.fasterxml.jackson.databind.JsonNode> entry : report.path("accuracy").properties()) {
            var counts = entry.getValue();
            out.println(String.format(
                    Locale.ROOT, "%-24s %5d of %5d  %6.2f %%", entry.getKey(), counts.get("correct").asInt(),
                    counts.get("questions").asInt(), 100 * counts.get("accuracy").asDouble()));
        }
        var nll = report.get("nll");
        if (nll != null) {
            out.println(String.format(
                    Locale.ROOT, "mean NLL    %.6f over %d of %d tokens, windows of %d", nll.get("mean_nll").asDouble(),
                    nll.get("predicted_tokens").asInt(), nll.get("tokens").asInt(), nll.get("window").asInt()));
            out.println(String.format(Locale.ROOT, "perplexity  %.4f", nll.get("perplexity").asDouble()));
        }
        out.println(String.format(Locale.ROOT, "seconds     %.2f", report.get("seconds").asDouble()));
    }
}

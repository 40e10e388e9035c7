package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.TextCodec;
import millrace.streams.Models;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// How good a model, as served, is: right answers, perplexity, and what its KV and weight format cost.
@Command(
        name = "eval",
        mixinStandardHelpOptions = true,
        subcommands = QualityCommand.class,
        description = "Measures right answers, the perplexity of a text, and what a KV or weight format costs.",
        footer = {
            "",
            "--questions: JSON lines {\"prompt\", \"answer\", \"category\"}. Each prompt is sent",
            "  as a single user message and completed greedily; an answer is right if it",
            "  equals the expected one, white space at the ends aside.",
            "--text, or --tokens: running text, or a JSON array of its token ids, cut into",
            "  consecutive windows; each window's first token is not predicted.",
            "Without any of these a bundled model takes the questions and the text that come",
            "with it. Figures go to standard output, progress to standard error.",
            "",
            "Unless the model runs on an f32 KV cache and its stored weights, such an engine",
            "runs beside it and the two are compared: mean, 99th percentile and largest",
            "Kullback-Leibler divergence (nats) of the next token's distribution, how often",
            "both put the same token first, and the difference of the mean negative",
            "log-likelihood. It needs the memory of both; --no-reference does without.",
            "",
            "Examples:",
            "  millrace eval --model glm-tiny --kv int8",
            "  millrace eval --model DIR --questions questions.jsonl --no-reference",
            "  millrace eval --model DIR --text held-out.txt --weights int4 --json",
            "  millrace eval quality --write docs/quality.md"
        })
final class EvalCommand implements Callable<Integer> {
    @Mixin
    EngineOptions options = new EngineOptions();

    @Option(names = "--questions", paramLabel = "FILE", description = "Questions with their answers; - for standard input.")
    @Nullable String questions;

    @Option(names = "--text", paramLabel = "FILE", description = "A text in UTF-8.")
    @Nullable Path text;

    @Option(names = "--tokens", paramLabel = "FILE", description = "Token ids of a text.")
    @Nullable Path tokens;

    @Option(names = "--window", paramLabel = "N", description = "Tokens of a window; default: 256.")
    int window = 256;

    @Option(names = "--max-tokens", paramLabel = "N", description = "The most tokens of an answer; default: 64.")
    int maxTokens = 64;

    @Option(
            names = "--reference",
            negatable = true,
            description = "Compares with an f32 KV cache and the stored weights; default: where something else runs.")
    @Nullable Boolean reference;

    @Option(names = "--json", description = "One JSON object instead of a table; docs/quality.md says what is in it.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    EvalCommand() {}

    @Override
    public Integer call() throws Exception {
        if (text != null && tokens != null) {
            throw new ParameterException(spec.commandLine(), "expected --text or --tokens, got both");
        }
        if (window < 2) {
            throw new ParameterException(spec.commandLine(), "--window: expected at least 2 tokens, got " + window);
        }
        EngineConfig config = options.config();
        Evaluation evaluation = evaluation(config);
        long start = System.nanoTime();
        ObjectNode report = JsonLines.mapper().createObjectNode();
        try (Engine engine = options.open(config)) {
            report.put("model", engine.card().name());
            report.put("model_digest", engine.card().modelDigest());
            report.put("backend", engine.card().backend());
            Evaluation.describe(report, engine.card());
            if (reference == null ? Evaluation.isReference(config) : !reference) {
                evaluation.measure(report, engine);
            } else {
                try (Engine beside = options.open(Evaluation.reference(config))) {
                    evaluation.compare(report, engine, beside, evaluation.answers(beside));
                }
            }
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

    private Evaluation evaluation(EngineConfig config) throws IOException {
        PrintWriter err = spec.commandLine().getErr();
        String bundled = options.bundled();
        if (questions == null && text == null && tokens == null) {
            if (bundled == null) {
                throw new ParameterException(spec.commandLine(), "expected --questions, --text or --tokens, got none");
            }
            return bundled(bundled, options.codec(), window, maxTokens, config.maxBatch(), err);
        }
        TextWindows windows = null;
        if (text != null) {
            windows = windows(options.codec(), Files.readString(text), window, text.toString());
        } else if (tokens != null) {
            windows = TextWindows.read(tokens, window);
        }
        QuestionScore answers = questions == null ? null : QuestionScore.read(questions);
        return new Evaluation(answers, windows, maxTokens, config.maxBatch(), err);
    }

    /// The questions and the text that come with a model.
    static Evaluation bundled(
            String model, TextCodec codec, int window, int maxTokens, int maxBatch, PrintWriter err) {
        return new Evaluation(
                QuestionScore.bundled(model), windows(codec, Models.text(model), window, "text of " + model), maxTokens,
                maxBatch, err);
    }

    private static TextWindows windows(TextCodec codec, String text, int window, String where) {
        return TextWindows.of(Arrays.stream(codec.encode(text, false)).boxed().toList(), window, where);
    }

    private static void print(ObjectNode report, PrintWriter out) {
        out.println("model       " + report.get("model").asText() + "  " + report.get("model_digest").asText());
        out.println("backend     " + report.get("backend").asText() + ", " + formats(report));
        JsonNode beside = report.path("reference");
        for (Map.Entry<String, JsonNode> entry : report.path("accuracy").properties()) {
            JsonNode counts = entry.getValue();
            JsonNode expected = beside.path("accuracy").path(entry.getKey());
            out.println(String.format(
                    Locale.ROOT, "%-24s %5d of %5d  %6.2f %%%s", entry.getKey(), counts.get("correct").asInt(),
                    counts.get("questions").asInt(), 100 * counts.get("accuracy").asDouble(),
                    expected.isMissingNode() ? "" : "  reference " + expected.get("correct").asInt()));
        }
        JsonNode nll = report.get("nll");
        if (nll != null) {
            out.println(String.format(
                    Locale.ROOT, "mean NLL    %.6f over %d of %d tokens, windows of %d", nll.get("mean_nll").asDouble(),
                    nll.get("predicted_tokens").asInt(), nll.get("tokens").asInt(), nll.get("window").asInt()));
            out.println(String.format(Locale.ROOT, "perplexity  %.4f", nll.get("perplexity").asDouble()));
        }
        if (!beside.isMissingNode()) {
            out.println("against     " + formats(beside));
            printQuality(report.get("quality"), out);
        }
        out.println(String.format(Locale.ROOT, "seconds     %.2f", report.get("seconds").asDouble()));
    }

    private static String formats(JsonNode report) {
        return "KV " + report.get("kv_format").asText() + ", weights " + report.get("weight_format").asText();
    }

    private static void printQuality(JsonNode quality, PrintWriter out) {
        if (quality.has("mean_kl")) {
            for (String name : List.of("mean", "p99", "max")) {
                out.println(String.format(
                        Locale.ROOT, "%-11s %.6f nats", name + " KL", quality.get(name + "_kl").asDouble()));
            }
            out.println(String.format(
                    Locale.ROOT, "top-1       %.3f %% agree", 100 * quality.get("top1_agreement").asDouble()));
            out.println(String.format(Locale.ROOT, "delta NLL   %+.6f", quality.get("delta_nll").asDouble()));
        }
        if (quality.has("questions")) {
            out.println(String.format(
                    Locale.ROOT, "answers     %d of %d are the same", quality.get("same_answers").asInt(),
                    quality.get("questions").asInt()));
        }
    }
}

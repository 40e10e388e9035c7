package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.InvalidRequestException;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.streams.BesideText;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Completes the prompts of a file, without Kafka.
@Command(
        name = "generate",
        mixinStandardHelpOptions = true,
        description = "Completes the prompts of a file of JSON lines, without Kafka.",
        footer = {
            "",
            "Input: {\"id\": any, \"messages\": [{\"role\", \"content\"}]}, or instead of messages",
            "  \"prompt\": text or \"ids\": [token ids]; optionally max_tokens (64),",
            "  temperature (0: greedy), top_p, top_k, min_p, repetition_penalty, seed,",
            "  stop, logprobs, response_format; with messages also tools, tool_choice,",
            "  thinking, reasoning_effort. Options stand for fields that a line lacks. A",
            "  prompt is completed as it stands: no chat format, no special token in it.",
            "Output, in the order of the input: {\"id\", \"text\", \"ids\", \"finish_reason\",",
            "  \"usage\"}, with messages \"reply\", and \"logprobs\" where asked for; ids hold",
            "  the stop token, text does not. A line that can not be served gets",
            "  finish_reason rejected or failed and an error, and the exit code is 1.",
            "",
            "Examples:",
            "  millrace generate --model glm-tiny --input prompts.jsonl --output out.jsonl",
            "  echo '{\"id\": 1, \"prompt\": \"To be\"}' \\",
            "    | millrace generate --model DIR --input - --output - --kv f32"
        })
final class GenerateCommand implements Callable<Integer> {
    @Mixin
    EngineOptions options = new EngineOptions();

    @Mixin
    AnswerOptions answer = new AnswerOptions();

    @Option(names = "--input", required = true, paramLabel = "FILE", description = "JSON lines; - for standard input.")
    String input = "";

    @Option(names = "--output", required = true, paramLabel = "FILE", description = "JSON lines; - for standard output.")
    String output = "";

    @Spec
    CommandSpec spec;

    private final AtomicLong done = new AtomicLong();
    private final AtomicLong tokens = new AtomicLong();
    private final AtomicLong bad = new AtomicLong();

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    GenerateCommand() {}

    @Override
    public Integer call() throws Exception {
        var config = options.config();
        PrintWriter err = spec.commandLine().getErr();
        List<JsonLines.Line> lines = JsonLines.read(input);
        List<GenerationRequest> requests = new ArrayList<>(lines.size());
        TreeSet<String> ignored = new TreeSet<>();
        ObjectNode missing = answer.fields();
        for (JsonLines.Line written : lines) {
            JsonLines.Line line = written.withMissing(missing);
            requests.add(RequestLines.request(line));
            ignored.addAll(RequestLines.unknown(line));
        }
        if (!ignored.isEmpty()) {
            err.println("millrace generate: fields without a meaning here are ignored: " + String.join(", ", ignored));
        }
        try (OutputFile file = OutputFile.open(output);
                TextEngine engine = options.open(config)) {
            Progress progress = new Progress(err, "prompts", lines.size());
            var results = new InOrder<ObjectNode>(
                    Math.max(64, 4 * config.maxBatch()), file::write, () -> progress.show(done.get(), tokens.get()));
            for (int i = 0; i < lines.size(); i++) {
                results.add(submit(engine, lines.get(i).id(), requests.get(i)).thenApply(this::counted));
            }
            results.finish();
            file.commit();
            progress.end(done.get(), tokens.get());
        }
        if (bad.get() > 0) {
            err.println("millrace generate: " + bad + " of " + lines.size() + " lines could not be served; see their error");
        }
        return bad.get() == 0 ? 0 : 1;
    }

    // Runs on the engine's thread or, for refusals, on the caller's.
    private ObjectNode counted(ObjectNode result) {
        done.incrementAndGet();
        tokens.addAndGet(result.path("usage").path("completion_tokens").asLong());
        bad.addAndGet(result.has("error") ? 1 : 0);
        return result;
    }

    private static CompletableFuture<ObjectNode> submit(TextEngine engine, JsonNode id, GenerationRequest request) {
        var result = new CompletableFuture<ObjectNode>();
        try {
            PreparedPrompt prompt = engine.prepare(request);
            engine.submit(prompt, end -> result.complete(line(id, end, BesideText.of(engine, prompt, end))));
        } catch (InvalidRequestException e) {
            result.complete(rejected(id, e));
        }
        return result;
    }

    private static ObjectNode line(JsonNode id, GenerationResult result, BesideText beside) {
        ObjectNode line = JsonLines.mapper().createObjectNode();
        line.set("id", id);
        line.put("text", result.text());
        ArrayNode ids = line.putArray("ids");
        result.tokenIds().forEach(ids::add);
        line.put("finish_reason", result.reason().name().toLowerCase(Locale.ROOT));
        CompletionJson.beside(line, beside.reply(), beside.logprobs());
        line.putObject("usage")
                .put("prompt_tokens", result.usage().promptTokens())
                .put("completion_tokens", result.usage().completionTokens());
        if (result.reason() == FinishReason.FAILED) {
            line.putObject("error").put("code", result.errorCode()).put("message", result.errorMessage());
        }
        return line;
    }

    private static ObjectNode rejected(JsonNode id, InvalidRequestException e) {
        ObjectNode line = JsonLines.mapper().createObjectNode();
        line.set("id", id);
        line.put("text", "");
        line.putArray("ids");
        line.put("finish_reason", "rejected");
        line.putObject("usage").put("prompt_tokens", 0).put("completion_tokens", 0);
        line.putObject("error").put("code", e.code()).put("message", e.getMessage());
        return line;
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.FinishReason;
import millrace.engine.InvalidRequestException;
import millrace.engine.ScoreListener;
import millrace.engine.Speculation;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// The logits that follow given token ids.
@Command(
        name = "logits",
        mixinStandardHelpOptions = true,
        description = "Computes the logits that follow the token ids of each line.",
        footer = {
            "",
            "Input: {\"id\": any, \"ids\": [token ids]}. The ids are fed as they are.",
            "Output, for the last position: {\"id\", \"top\": [[token, logit], ...]}, the",
            "  largest first, or with --all {\"id\", \"logits\": [...]}, one for each token of",
            "  the vocabulary. With --positions {\"id\", \"rows\": [{\"position\", ...}, ...]}, a row",
            "  of the same form for each position. A line that can not be served gets an",
            "  error, and the exit code is 1.",
            "With --mtp the logits are those of the draft layer: at position t of the token",
            "  two behind it, from what the model has at t and the token behind it. So T",
            "  ids have T - 1 positions, and a line needs at least two ids.",
            "",
            "Examples:",
            "  millrace logits --model glm-tiny --input ids.jsonl --output out.jsonl --top 5",
            "  echo '{\"id\": \"a\", \"ids\": [1, 2, 3]}' \\",
            "    | millrace logits --model DIR --input - --output - --all --kv f32",
            "  millrace logits --model DIR --input ids.jsonl --output - --mtp --positions --kv f32",
            "",
            "Exit codes: 0 all lines served, 1 a line or the model is not good, 2 wrong usage."
        })
final class LogitsCommand implements Callable<Integer> {
    @Mixin
    EngineOptions options = new EngineOptions();

    @Option(names = "--input", required = true, paramLabel = "FILE", description = "JSON lines; - for standard input.")
    String input = "";

    @Option(names = "--output", required = true, paramLabel = "FILE", description = "JSON lines; - for standard output.")
    String output = "";

    @ArgGroup(exclusive = true)
    Selection selection = new Selection();

    @Option(names = "--mtp", description = "Logits of the draft layer; needs a checkpoint that has one.")
    boolean mtp;

    @Option(names = "--positions", description = "A row for every position instead of the last.")
    boolean positions;

    @Spec
    CommandSpec spec;

    /// How much of a row is written.
    static final class Selection {
        @Option(names = "--top", paramLabel = "K", description = "The K largest logits with their tokens; default: 10.")
        int top = 10;

        @Option(names = "--all", description = "All logits, in order of token id.")
        boolean all;
    }

    private final AtomicLong done = new AtomicLong();
    private final AtomicLong tokens = new AtomicLong();
    private final AtomicLong bad = new AtomicLong();

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    LogitsCommand() {}

    @Override
    public Integer call() throws Exception {
        if (selection.top < 1) {
            throw new ParameterException(
                    spec.commandLine(), "--top: expected a number of at least 1, got " + selection.top);
        }
        EngineConfig config = mtp ? drafting(options.config()) : options.config();
        PrintWriter err = spec.commandLine().getErr();
        List<JsonLines.Line> lines = JsonLines.read(input);
        List<List<Integer>> allIds = new ArrayList<>(lines.size());
        for (JsonLines.Line line : lines) {
            List<Integer> ids = line.ids("ids");
            if (ids == null) {
                throw line.problem("ids: expected an array of token ids, got nothing");
            }
            allIds.add(ids);
        }
        try (OutputFile file = OutputFile.open(output);
                Engine engine = options.open(config)) {
            Progress progress = new Progress(err, "sequences", lines.size());
            var results = new InOrder<ObjectNode>(
                    Math.max(32, 2 * config.maxBatch()), file::write, () -> progress.show(done.get(), tokens.get()));
            for (int i = 0; i < lines.size(); i++) {
                results.add(score(engine, lines.get(i), allIds.get(i)));
            }
            results.finish();
            file.commit();
            progress.end(done.get(), tokens.get());
        }
        if (bad.get() > 0) {
            err.println("millrace logits: " + bad + " of " + lines.size() + " lines could not be served; see their error");
        }
        return bad.get() == 0 ? 0 : 1;
    }

    /// The draft layer is there where tokens may be drafted.
    private static EngineConfig drafting(EngineConfig config) {
        return config.speculation().mode() == Speculation.Mode.MTP
                ? config
                : config.withSpeculation(new Speculation(Speculation.Mode.MTP, config.speculation().tokens()));
    }

    private CompletableFuture<ObjectNode> score(Engine engine, JsonLines.Line line, List<Integer> ids) {
        var result = new CompletableFuture<ObjectNode>();
        int vocabSize = engine.card().vocabSize();
        try {
            var listener = new ScoreListener() {
                private final ArrayNode rows = JsonLines.mapper().createArrayNode();

                @Override
                public void onLogits(int position, float[] logits, int offset) {
                    ObjectNode row = rows.addObject();
                    if (positions) {
                        row.put("position", position);
                    }
                    put(row, Arrays.copyOfRange(logits, offset, offset + vocabSize));
                }

                @Override
                public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                    done.incrementAndGet();
                    tokens.addAndGet(ids.size());
                    result.complete(
                            reason == FinishReason.LENGTH ? line(line.id(), rows) : error(line.id(), errorCode, errorMessage));
                }
            };
            if (mtp) {
                engine.scoreDrafts(line.where(), ids, positions, listener);
            } else {
                engine.score(line.where(), ids, positions, listener);
            }
        } catch (InvalidRequestException e) {
            result.complete(error(line.id(), e.code(), e.getMessage()));
        }
        return result;
    }

    private ObjectNode error(JsonNode id, @Nullable String code, @Nullable String message) {
        bad.incrementAndGet();
        ObjectNode line = JsonLines.mapper().createObjectNode();
        line.set("id", id);
        line.putObject("error").put("code", code).put("message", message);
        return line;
    }

    private ObjectNode line(JsonNode id, ArrayNode rows) {
        ObjectNode line = JsonLines.mapper().createObjectNode();
        line.set("id", id);
        return positions ? line.set("rows", rows) : line.setAll((ObjectNode) rows.get(0));
    }

    private void put(ObjectNode line, float[] row) {
        if (selection.all) {
            ArrayNode logits = line.putArray("logits");
            for (float logit : row) {
                logits.add(logit);
            }
            return;
        }
        ArrayNode top = line.putArray("top");
        for (int token : largest(row, selection.top)) {
            top.addArray().add(token).add(row[token]);
        }
    }

    /// The `k` tokens with the largest logits, the largest first, equal ones in order of id.
    static int[] largest(float[] row, int k) {
        Integer[] order = new Integer[row.length];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (a, b) -> row[a] == row[b] ? Integer.compare(a, b) : Float.compare(row[b], row[a]));
        int[] top = new int[Math.min(k, row.length)];
        Arrays.setAll(top, i -> order[i]);
        return top;
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.KvFormat;
import millrace.engine.ModelInspection;
import millrace.streams.Models;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Every weight format with every KV format that a bundled model can have, against the reference.
@Command(
        name = "quality",
        mixinStandardHelpOptions = true,
        description = "Measures every KV and weight format of the bundled models and writes the tables of docs/quality.md.",
        footer = {
            "",
            "Each row is what `eval --model NAME --kv FORMAT --weights FORMAT` measures, on the",
            "questions and the text that come with the model. Formats that a kind of model",
            "cannot have are left out, and so are names of what is already there: bf16 of",
            "weights that are stored so.",
            "",
            "Examples:",
            "  millrace eval quality",
            "  millrace eval quality --model kimi-tiny --json",
            "  millrace eval quality --write docs/quality.md",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class QualityCommand implements Callable<Integer> {
    private static final int WINDOW = 256;
    private static final int MAX_TOKENS = 64;

    @Option(names = "--model", paramLabel = "NAME", description = "A bundled model, may be repeated; default: all that answer differently.")
    List<String> models = new ArrayList<>();

    @Option(names = "--backend", paramLabel = "NAME", description = "auto (default), native, vector or scalar: the same figures.")
    String backend = "auto";

    @Option(names = "--threads", paramLabel = "N", description = "Compute threads; default: one per core.")
    int threads;

    @Option(names = "--write", paramLabel = "FILE", description = "Replaces the tables of this page.")
    @Nullable Path page;

    @Option(names = "--json", description = "A JSON object for each row instead of tables, with the keys of `eval --json`.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    QualityCommand() {}

    @Override
    public Integer call() throws Exception {
        for (String model : models) {
            if (!Models.bundled().contains(model)) {
                throw new ParameterException(
                        spec.commandLine(), "--model: expected one of " + Models.bundled() + ", got \"" + model + "\"");
            }
        }
        if (page != null && !models.isEmpty()) {
            throw new ParameterException(spec.commandLine(), "--write: expected no --model: a page has the tables of all");
        }
        QualityPage target = page == null ? null : QualityPage.read(page);
        List<ObjectNode> rows = new ArrayList<>();
        for (String model : models.isEmpty() ? Models.distinct() : models) {
            rows.addAll(measure(model));
        }
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            for (ObjectNode row : rows) {
                out.println(JsonLines.mapper().writeValueAsString(row));
            }
        } else if (target == null) {
            out.print(QualityPage.tables(rows));
        }
        out.flush();
        if (target != null) {
            target.write(rows);
        }
        return 0;
    }

    private List<ObjectNode> measure(String model) throws IOException, InterruptedException {
        PrintWriter err = spec.commandLine().getErr();
        List<ObjectNode> rows = new ArrayList<>();
        try (LocalModel local = LocalModel.of(model)) {
            EngineConfig config = EngineConfig.of(local.directory()).withBackend(backend).withThreads(threads);
            List<ModelInspection.KvCost> kv = ModelInspection.of(local.directory(), null).kv();
            try (Engine reference = Engine.open(Evaluation.reference(config))) {
                Evaluation evaluation = EvalCommand.bundled(
                        model, reference.codec(), WINDOW, MAX_TOKENS, config.maxBatch(), err);
                QuestionScore expected = evaluation.answers(reference);
                Set<String> seen = new HashSet<>();
                for (String weights : EngineConfig.WEIGHT_FORMATS) {
                    for (ModelInspection.KvCost cost : kv) {
                        EngineConfig wanted =
                                config.withWeightFormat(weights).withKvFormat(KvFormat.ofId(cost.format()));
                        try (Engine engine = Engine.open(wanted)) {
                            if (!seen.add(engine.card().weightFormat() + " " + cost.format())) {
                                continue;
                            }
                            err.println(model + ": weights " + weights + ", KV " + cost.format());
                            err.flush();
                            ObjectNode row = JsonLines.mapper().createObjectNode().put("model", model).put("weights", weights);
                            Evaluation.describe(row, engine.card());
                            row.put("weight_bytes", engine.card().memory().weights());
                            row.put("kv_bytes_per_token", engine.card().kvBytesPerToken());
                            evaluation.compare(row, engine, reference, expected);
                            rows.add(row);
                        }
                    }
                }
            }
        }
        return rows;
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import millrace.engine.ModelInspection;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Commands about checkpoints.
@Command(
        name = "model",
        mixinStandardHelpOptions = true,
        description = "Looks into checkpoints, packs them, signs them and verifies their signatures.",
        subcommands = {
            ModelCommand.Inspect.class,
            PackCommand.class,
            ModelSignCommand.class,
            ModelVerifyCommand.class,
            ModelKeygenCommand.class
        })
final class ModelCommand implements Callable<Integer> {
    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    ModelCommand() {}

    @Override
    public Integer call() {
        throw new ParameterException(spec.commandLine(), "expected a command of model, got none; for example inspect");
    }

    /// What a checkpoint is, without computing with it.
    @Command(
            name = "inspect",
            mixinStandardHelpOptions = true,
            description = "Checks a checkpoint and says what it is: parts, sizes, KV cache, draft layer, tokenizer, digest.",
            footer = {
                "",
                "Every header, shape and file is checked as at the start of a service; a",
                "checkpoint that would be refused there is refused here, with exit code 1.",
                "",
                "Examples:",
                "  millrace model inspect glm-tiny",
                "  millrace model inspect DIR --kv-bytes 8g --json"
            })
    static final class Inspect implements Callable<Integer> {
        @Parameters(
                paramLabel = "DIR",
                description = "Directory with a Hugging Face checkpoint, or glm-tiny, glm-tiny-mtp or kimi-tiny, which come along.")
        String model = "";

        @Option(
                names = "--kv-bytes",
                paramLabel = "BYTES",
                converter = ByteSize.class,
                description = "Says how many tokens fit this budget of the KV cache; default: 1g.")
        long kvBytes = 1L << 30;

        @Option(names = "--chat-format", paramLabel = "ID", description = "Chat format; default: detected.")
        @Nullable String chatFormat;

        @Option(names = "--json", description = "One JSON object instead of text.")
        boolean json;

        @Spec
        CommandSpec spec;

        @SuppressWarnings("NullAway.Init") // picocli sets spec
        Inspect() {}

        @Override
        public Integer call() throws Exception {
            ModelInspection inspection = inspect();
            PrintWriter out = spec.commandLine().getOut();
            if (json) {
                out.println(JsonLines.mapper().writeValueAsString(report(inspection)));
            } else {
                print(inspection, out);
            }
            out.flush();
            return 0;
        }

        private ModelInspection inspect() {
            try (LocalModel local = LocalModel.of(model)) {
                return ModelInspection.of(local.directory(), chatFormat);
            }
        }

        private ObjectNode report(ModelInspection model) {
            ObjectNode report = JsonLines.mapper().createObjectNode();
            report.put("name", model.name());
            report.put("architecture", model.architecture());
            report.put("family", model.family());
            report.put("parameters", model.parameters());
            report.put("active_parameters", model.activeParameters());
            ObjectNode parts = report.putObject("parameters_by_part");
            model.parametersByPart().forEach(parts::put);
            ObjectNode dtypes = report.putObject("bytes_by_dtype");
            model.bytesByDtype().forEach(dtypes::put);
            ObjectNode weights = report.putObject("weights");
            for (ModelInspection.WeightCost cost : model.weights()) {
                weights.putObject(cost.format())
                        .put("matrices", cost.matrices())
                        .put("weights", cost.weights())
                        .put("bytes", cost.bytes())
                        .put("bits_per_weight", cost.bitsPerWeight())
                        .put("escapes", cost.escapes())
                        .put("raw_panels", cost.rawPanels());
            }
            var escapes = report.putArray("most_escapes");
            model.mostEscapes().forEach(one -> escapes.addObject()
                    .put("tensor", one.tensor())
                    .put("escape_share", one.share())
                    .put("raw_panels", one.rawPanels()));
            report.put("tensors_skipped", model.tensorsSkipped());
            report.put("layers", model.layers());
            report.put("vocab_size", model.vocabSize());
            report.put("max_context", model.maxContext());
            describeCaches(report, model);
            describeSparse(report, model);
            describeDrafting(report, model.drafting());
            ObjectNode tokenizer = report.putObject("tokenizer");
            tokenizer.put("kind", model.tokenizer()).put("vocab_size", model.tokenizerVocabSize());
            tokenizer.put("digest", model.tokenizerDigest()).put("chat_format", model.chatFormat());
            ObjectNode special = tokenizer.putObject("special_tokens");
            model.specialTokens().forEach(special::put);
            var stop = tokenizer.putArray("stop_token_ids");
            model.stopTokenIds().forEach(stop::add);
            report.put("digest", model.digest());
            var files = report.putArray("files");
            model.files().forEach(file -> files.addObject()
                    .put("name", file.name())
                    .put("bytes", file.bytes())
                    .put("sha256", file.sha256()));
            return report;
        }

        private void describeCaches(ObjectNode report, ModelInspection model) {
            ObjectNode kv = report.putObject("kv");
            kv.put("budget_bytes", kvBytes);
            for (ModelInspection.KvCost cost : model.kv()) {
                kv.putObject(cost.format())
                        .put("bytes_per_token", cost.bytesPerToken())
                        .put("page_bytes", cost.pageBytes())
                        .put("tokens_in_budget", cost.tokensIn(kvBytes))
                        .put("index_format", cost.indexFormat().isEmpty() ? null : cost.indexFormat())
                        .put("index_bytes_per_token", cost.indexBytesPerToken())
                        .put("draft_bytes_per_token", cost.draftBytesPerToken());
            }
        }

        private static void describeSparse(ObjectNode report, ModelInspection model) {
            ModelInspection.SparseAttention sparse = model.sparse();
            if (sparse == null) {
                report.putNull("indexer");
                return;
            }
            ObjectNode shares = report.putObject("indexer")
                    .put("top_k", sparse.topK())
                    .put("heads", sparse.heads())
                    .put("head_dim", sparse.headDim())
                    .put("rotation", sparse.rotation())
                    .put("full_layers", sparse.fullLayers())
                    .put("shared_layers", sparse.sharedLayers())
                    .putObject("selected_share");
            contexts(model).forEach(context -> shares.put(Integer.toString(context), sparse.shareAt(context)));
        }

        private static void describeDrafting(ObjectNode report, ModelInspection.Drafting drafting) {
            report.putObject("draft_layer")
                    .put("present", drafting.layer())
                    .put("parameters", drafting.parameters())
                    .put("own_embedding", drafting.ownEmbedding())
                    .put("own_head", drafting.ownHead());
            report.putObject("speculation")
                    .put("available", drafting.layer())
                    .put("reason", drafting.layer() ? null : drafting.reason());
        }

        /// Some lengths up to the model's, and that.
        private static IntStream contexts(ModelInspection model) {
            int most = model.maxContext();
            return IntStream.concat(
                    IntStream.of(4096, 32_768, 131_072).filter(context -> context < most), IntStream.of(most));
        }

        private void print(ModelInspection model, PrintWriter out) {
            out.println("model        " + model.name() + ": " + model.architecture() + " (" + model.family() + "), "
                    + model.layers() + " layers, context " + model.maxContext());
            out.println(String.format(
                    Locale.ROOT, "parameters   %,d, of which a token uses %,d", model.parameters(), model.activeParameters()));
            for (Map.Entry<String, Long> part : model.parametersByPart().entrySet()) {
                out.println(String.format(
                        Locale.ROOT, "             %,18d  %5.1f %%  %s", part.getValue(),
                        100.0 * part.getValue() / model.parameters(), part.getKey()));
            }
            printWeights(model, out);
            if (model.tensorsSkipped() > 0) {
                out.println("             " + model.tensorsSkipped() + " tensors are not needed and skipped");
            }
            printCaches(model, out);
            out.println("tokenizer    " + model.tokenizer() + ", " + model.tokenizerVocabSize() + " tokens of "
                    + model.vocabSize() + ", chat format " + model.chatFormat());
            out.println("special      " + specials(model.specialTokens()));
            out.println("stop         " + model.stopTokenIds());
            out.println("digest       " + model.digest());
            for (var file : model.files()) {
                out.println("             " + file.sha256() + "  " + file.name() + "  " + ByteSize.text(file.bytes()));
            }
        }

        private void printCaches(ModelInspection model, PrintWriter out) {
            for (ModelInspection.KvCost cost : model.kv()) {
                String index = cost.indexFormat().isEmpty()
                        ? ""
                        : String.format(
                                Locale.ROOT, ", of which index keys in %s %,d", cost.indexFormat(), cost.indexBytesPerToken());
                String draft = cost.draftBytesPerToken() == 0
                        ? ""
                        : String.format(Locale.ROOT, ", %,d more with drafts", cost.draftBytesPerToken());
                out.println(String.format(
                        Locale.ROOT, "KV %-9s %,d bytes per token%s%s; %,d tokens in %s", cost.format(), cost.bytesPerToken(),
                        index, draft, cost.tokensIn(kvBytes), ByteSize.text(kvBytes)));
            }
            ModelInspection.SparseAttention sparse = model.sparse();
            if (sparse != null) {
                out.println(String.format(
                        Locale.ROOT, "indexer      at most %,d positions, %d heads of %d, %s; layers: %d full, %d shared",
                        sparse.topK(), sparse.heads(), sparse.headDim(), sparse.rotation(), sparse.fullLayers(), sparse.sharedLayers()));
                out.println("             attends to " + contexts(model)
                        .mapToObj(context -> String.format(Locale.ROOT, "%.1f %% of %,d", 100 * sparse.shareAt(context), context))
                        .collect(Collectors.joining(", ")));
            }
            ModelInspection.Drafting drafting = model.drafting();
            out.println(drafting.layer()
                    ? String.format(Locale.ROOT, "draft layer  %,d parameters%s; engine.speculation may be mtp or auto",
                            drafting.parameters(), own(drafting))
                    : "draft layer  none to draft with: " + drafting.reason());
        }

        private static String own(ModelInspection.Drafting drafting) {
            String own = Stream.of(drafting.ownEmbedding() ? "embedding" : "", drafting.ownHead() ? "output head" : "")
                    .filter(part -> !part.isEmpty())
                    .collect(Collectors.joining(" and "));
            return own.isEmpty() ? "" : ", its own " + own + " among them";
        }

        private static void printWeights(ModelInspection model, PrintWriter out) {
            model.bytesByDtype()
                    .forEach((dtype, bytes) -> out.println("weights      " + ByteSize.text(bytes) + " in " + dtype));
            for (ModelInspection.WeightCost cost : model.weights()) {
                String escapes = cost.format().equals("packed")
                        ? String.format(Locale.ROOT, ", %.4f %% escapes, %d panels in BF16",
                                100.0 * cost.escapes() / cost.weights(), cost.rawPanels())
                        : "";
                out.println(String.format(
                        Locale.ROOT, "             %,18d  in %d matrices of %s, %.3f bits each%s", cost.weights(),
                        cost.matrices(), cost.format(), cost.bitsPerWeight(), escapes));
            }
            model.mostEscapes().forEach(one -> out.println(String.format(
                    Locale.ROOT, "             %17.4f %%  escapes in %s", 100 * one.share(), one.tensor())));
        }

        /// Reserved names come in hundreds and mean nothing; two dozen of the others are enough for people.
        private static String specials(Map<String, Integer> tokens) {
            var named = tokens.entrySet().stream()
                    .filter(token -> !token.getKey().contains("reserved_"))
                    .limit(24)
                    .toList();
            String text = named.stream()
                    .map(token -> token.getKey() + " " + token.getValue())
                    .collect(Collectors.joining(", "));
            int more = tokens.size() - named.size();
            return more == 0 ? text : text + ", and " + more + " more";
        }
    }
}

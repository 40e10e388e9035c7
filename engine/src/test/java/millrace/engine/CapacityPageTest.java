package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import millrace.engine.kv.KvLayout;
import millrace.engine.model.DraftConfig;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.MoeConfig;
import millrace.engine.model.Transformer;
import org.junit.jupiter.api.Test;

/// docs/capacity.md plans with the numbers that the engine plans with.
class CapacityPageTest {
    private static final Map<String, ModelConfig> MODELS = Map.of(
            "Kimi K2", kimi(), "GLM-5.2", glm5(), "GLM-4.5", glm(5120, 92, 12_288, 1_536, 160, 3, true),
            "GLM-4.5-Air", glm(4096, 46, 10_944, 1_408, 128, 1, false),
            "Llama 3.1 8B", config(RandomShapes.llamaConfig(4096, 32, 32, 8, 14_336, 128_256, 131_072).put("tie_word_embeddings", false)));

    /// Counted once for each model: the largest has 70,000 tensors.
    private record Counts(long all, long active, long unrouted) {
        static final Map<String, Counts> OF = MODELS.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, entry -> new Counts(
                ModelInspection.parameters(entry.getValue()), ModelInspection.activeParameters(entry.getValue()),
                ModelInspection.unroutedParameters(entry.getValue()))));
    }

    private static ModelConfig config(ObjectNode config) {
        return ModelConfig.of(config.toString().getBytes(StandardCharsets.UTF_8));
    }

    /// K2-Instruct and its successors up to K2.7, whose layers are the same.
    private static ModelConfig kimi() {
        ObjectNode config = PublishedShapes.config("kimi-k2", 61);
        return config(config.put("n_routed_experts", 384).put("vocab_size", 163_840));
    }

    /// GLM-5.2 and 5.3; 5 and 5.1 have an indexer in every layer.
    private static ModelConfig glm5() {
        ObjectNode config = PublishedShapes.config("glm-5.2", 78);
        config.put("n_routed_experts", 256).put("vocab_size", 154_880).put("first_k_dense_replace", 3);
        return config(config.put("index_skip_topk_offset", 3).put("max_position_embeddings", 1_048_576));
    }

    /// With the draft layer that it is published with: GLM-4.5 and 4.5-Air repeat the vocabulary in theirs.
    private static ModelConfig drafting(String model) {
        boolean own = !model.equals("GLM-5.2");
        return MODELS.get(model).withDraft(new DraftConfig(own, own, true));
    }

    private static ModelConfig glm(int hidden, int layers, int dense, int expert, int experts, int firstMoe, boolean normed) {
        ObjectNode config = PublishedShapes.config("glm-4.5-air", layers);
        config.put("hidden_size", hidden).put("intermediate_size", dense).put("moe_intermediate_size", expert);
        config.put("n_routed_experts", experts).put("first_k_dense_replace", firstMoe).put("use_qk_norm", normed);
        return config(config.put("vocab_size", 151_552));
    }

    /// The cells of the table that follows a heading, without its head.
    private static List<List<String>> table(String heading) throws IOException {
        Path page = Path.of("..", "docs", "capacity.md").toAbsolutePath().normalize();
        List<List<String>> rows = new ArrayList<>();
        boolean at = false;
        for (String line : Files.readAllLines(page)) {
            at = line.startsWith("#") ? line.equals("## " + heading) : at;
            if (at && line.startsWith("|")) {
                rows.add(List.of(line.substring(1, line.length() - 1).split("\\|")).stream().map(String::strip).toList());
            }
        }
        assertThat(rows).as("a table below \"## %s\"", heading).hasSizeGreaterThan(2);
        return rows.subList(2, rows.size());
    }

    private static String number(String format, double value) {
        return String.format(Locale.ROOT, format, value);
    }

    private static double gigabytes(long weights, double bytesEach) {
        return weights * bytesEach / 1e9;
    }

    @Test
    void weightsAreThoseOfTheShapes() throws IOException {
        for (List<String> row : table("Weights")) {
            Counts counts = Counts.OF.get(row.getFirst());
            long all = counts.all();
            assertThat(row).isEqualTo(List.of(
                    row.getFirst(), number("%.1f", all / 1e9), number("%.1f", counts.active() / 1e9),
                    number("%.0f", gigabytes(all, 2)), number("%.0f", gigabytes(all, 1.5)), number("%.0f", gigabytes(all, 1.0625)),
                    number("%.0f", gigabytes(all, 0.5625))));
        }
    }

    @Test
    void bytesOfATokenAreThoseOfTheCache() throws IOException {
        for (List<String> row : table("KV cache")) {
            ModelConfig config = MODELS.get(row.getFirst());
            Map<String, KvFormat> formats = Transformer.kvFormats(config).stream()
                    .collect(Collectors.toMap(KvFormat::id, Function.identity()));
            List<String> expected = new ArrayList<>(List.of(row.getFirst()));
            for (String format : List.of("bf16", "int8", "fp8", "int4")) {
                expected.add(formats.containsKey(format)
                        ? Long.toString(Transformer.kvLayout(config, formats.get(format)).bytesPerToken())
                        : "-");
            }
            assertThat(row).isEqualTo(expected);
        }
    }

    @Test
    void indexKeysAndDraftLayersAreThoseOfTheCache() throws IOException {
        for (List<String> row : table("Sparse attention and draft layers")) {
            String model = row.getFirst();
            KvFormat format = KvFormat.ofId(row.get(1));
            KvLayout layout = Transformer.kvLayout(MODELS.get(model), format);
            boolean sparse = MODELS.get(model).indexer() != null;
            assertThat(row).isEqualTo(List.of(
                    model,
                    row.get(1),
                    Long.toString(layout.bytesPerToken() - layout.indexBytesPerToken()),
                    sparse ? layout.indexBytesPerToken() + " (" + layout.indexFormat().id() + ")" : "-",
                    Long.toString(layout.bytesPerToken()),
                    Long.toString(Transformer.kvLayout(drafting(model), format).bytesPerToken()),
                    number("%.1f", (ModelInspection.parameters(drafting(model)) - Counts.OF.get(model).all()) / 1e9)));
        }
    }

    /// What one token reads of the cache: of latents those that are chosen, of index keys all.
    private static double cacheRead(ModelConfig config, KvFormat kv, long context) {
        KvLayout layout = Transformer.kvLayout(config, kv);
        long chosen = config.indexer() == null ? context : Math.min(context, config.indexer().topK());
        return (double) chosen * (layout.bytesPerToken() - layout.indexBytesPerToken())
                + (double) context * layout.indexBytesPerToken();
    }

    /// What one step reads of the weights: all that is not routed, and the experts that a batch meets.
    private static double readPerStep(String model, int batch) {
        Counts counts = Counts.OF.get(model);
        MoeConfig moe = MODELS.get(model).moe();
        if (moe == null) {
            return counts.active();
        }
        long routedOfOne = counts.active() - counts.unrouted();
        double met = moe.nRoutedExperts() * (1 - Math.pow(1 - (double) moe.numExpertsPerTok() / moe.nRoutedExperts(), batch));
        return counts.unrouted() + (double) routedOfOne / moe.numExpertsPerTok() * met;
    }

    @Test
    void boundsOfDecodingFollowFromBoth() throws IOException {
        for (List<String> row : table("Tokens per second")) {
            ModelConfig config = MODELS.get(row.get(0));
            double bytesEach = Map.of("bf16", 2.0, "packed", 1.5, "int8", 1.0625, "int4", 0.5625).get(row.get(1));
            KvFormat kv = KvFormat.ofIdOrAuto(row.get(2));
            int batch = Integer.parseInt(row.get(3));
            long context = Long.parseLong(row.get(4));
            double bandwidth = Double.parseDouble(row.get(5)) * 1e9;
            double bytes = readPerStep(row.get(0), batch) * bytesEach
                    + batch * cacheRead(config, kv, context);
            assertThat(row.get(6)).as("GB a step in %s", row).isEqualTo(number("%.1f", bytes / 1e9));
            assertThat(row.get(7)).as("tokens per second in %s", row).isEqualTo(number("%.0f", batch * bandwidth / bytes));
        }
    }

    @Test
    void theBundledModelsAreWhatThePageSays() throws IOException {
        for (List<String> row : table("The bundled models")) {
            ObjectNode config = (ObjectNode) new ObjectMapper().readTree(
                    Files.readAllBytes(Path.of("..", "streams", "src", "main", "resources", "models", row.getFirst(), "config.json")));
            ModelConfig model = config(config);
            assertThat(row.subList(1, 3)).isEqualTo(List.of(
                    Long.toString(ModelInspection.parameters(model)),
                    Long.toString(Transformer.kvLayout(model, KvFormat.ofIdOrAuto(row.get(3))).bytesPerToken())));
        }
    }
}

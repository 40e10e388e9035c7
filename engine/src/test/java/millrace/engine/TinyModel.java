package millrace.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import millrace.engine.model.DraftConfig;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.weights.ByteLevelTokenizer;

/// A small model of any family, made from its name alone: the same bits on every machine.
///
/// Every weight is a hash of its tensor's name and its index, so that golden logits, computed in float64 elsewhere,
/// hold here. Sizes are in `golden/tiny_configs.json`, expected values in `golden/golden_tiny.json`.
public final class TinyModel {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long GOLDEN_RATIO = 0x9E3779B97F4A7C15L;

    private final ObjectNode config;
    private boolean wrapped;
    private boolean sharded;
    private boolean tokenizer;
    private boolean ownMtpEmbedding;
    private boolean ownMtpHead;
    private String dtype = "BF16";
    private Predicate<String> omitted = name -> false;
    private final List<SafetensorsWriter.Tensor> extra = new ArrayList<>();

    private TinyModel(ObjectNode config) {
        this.config = config;
    }

    /// A model of that name: glm4_moe, glm4_moe_lite, kimi_k2, glm_moe_dsa, deepseek_v32, glm4, llama, qwen2 or qwen3.
    public static TinyModel of(String modelType) {
        // No golden for this one: the dimensions of latent attention where values are wider than keys.
        boolean lite = modelType.equals("glm4_moe_lite");
        // Nor for this: GLM-5's dimensions, an indexer in every layer, which rotates half-split, and YaRN.
        boolean v32 = modelType.equals("deepseek_v32");
        JsonNode all = golden("tiny_configs");
        ObjectNode config = all.get(lite ? "kimi_k2" : v32 ? "glm_moe_dsa" : modelType).deepCopy();
        if (v32) {
            config.remove(List.of("indexer_types", "indexer_rope_interleave"));
            config.set("rope_scaling", all.get("kimi_k2").get("rope_scaling"));
        }
        if (lite) {
            config.put("qk_nope_head_dim", 24).put("v_head_dim", 48).put("head_dim", 16);
            config.remove("rope_scaling");
        }
        String architecture =
                switch (modelType) {
                    case "glm4_moe" -> "Glm4MoeForCausalLM";
                    case "glm4_moe_lite" -> "Glm4MoeLiteForCausalLM";
                    case "kimi_k2" -> "DeepseekV3ForCausalLM";
                    case "glm_moe_dsa" -> "GlmMoeDsaForCausalLM";
                    case "deepseek_v32" -> "DeepseekV32ForCausalLM";
                    case "glm4" -> "Glm4ForCausalLM";
                    case "llama" -> "LlamaForCausalLM";
                    case "qwen2" -> "Qwen2ForCausalLM";
                    case "qwen3" -> "Qwen3ForCausalLM";
                    default -> throw new IllegalArgumentException(modelType);
                };
        config.putArray("architectures").add(architecture);
        config.put("model_type", modelType).put("hidden_act", "silu").put("torch_dtype", "bfloat16");
        if (config.hasNonNull("n_routed_experts")) {
            config.put("scoring_func", "sigmoid").put("topk_method", "noaux_tc");
        }
        if (!config.has("max_position_embeddings")) {
            config.put("max_position_embeddings", 512);
        }
        ByteLevelTokenizer.stopIds(config.get("vocab_size").intValue()).forEach(config.withArray("/eos_token_id")::add);
        return new TinyModel(config);
    }

    /// A file of `golden/`, by its name without `.json`.
    public static JsonNode golden(String name) {
        try (InputStream in = TinyModel.class.getResourceAsStream("/golden/" + name + ".json")) {
            return JSON.readTree(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// The config, to be changed before [#write].
    public ObjectNode config() {
        return config;
    }

    /// Sets a key of the config; null removes it.
    public TinyModel with(String key, Object value) {
        if (value == null) {
            config.remove(key);
        } else {
            config.set(key, JSON.valueToTree(value));
        }
        return this;
    }

    /// Queries projected directly, without a latent.
    public TinyModel withoutQueryLatent() {
        config.putNull("q_lora_rank");
        return this;
    }

    /// Without draft layers.
    public TinyModel withoutMtp() {
        return with("num_nextn_predict_layers", 0);
    }

    /// Draft layers with an embedding and an output projection of their own, as GLM-4.5 has.
    public TinyModel withOwnMtpEmbedding() {
        return withOwnMtp(true, true);
    }

    /// Draft layers with an embedding, an output projection, or both of their own.
    public TinyModel withOwnMtp(boolean embedding, boolean head) {
        ownMtpEmbedding = embedding;
        ownMtpHead = head;
        return this;
    }

    /// Without the list of indexers: `index_topk_freq` and `index_skip_topk_offset` say the same.
    public TinyModel withIndexersByFormula() {
        return with("indexer_types", null).with("index_topk_freq", 4).with("index_skip_topk_offset", 3);
    }

    /// Without the list of indexers: `index_topk_pattern` says the same.
    public TinyModel withIndexersByPattern() {
        return with("indexer_types", null).with("index_topk_pattern", "FFFSSSF");
    }

    /// Without a word on which layers have an indexer: all have.
    public TinyModel withIndexersEverywhere() {
        return with("indexer_types", null);
    }

    /// Leaves out the tensors with such names; prefixes of a wrapper do not count.
    public TinyModel withoutTensors(Predicate<String> which) {
        omitted = omitted.or(which);
        return this;
    }

    /// As Kimi K2.5 wraps its text model, with a tensor of a vision tower. Values follow the unprefixed names, so the
    /// golden values hold.
    public TinyModel wrapped() {
        wrapped = true;
        return this;
    }

    /// Two shards and an index; tensors of draft layers in an `mtp.safetensors`.
    public TinyModel sharded() {
        sharded = true;
        return this;
    }

    /// Weights as F16 or F32, of the same values; the routers' bias stays F32.
    public TinyModel dtype(String value) {
        dtype = value;
        return this;
    }

    /// A byte-level tokenizer beside the weights.
    public TinyModel withTokenizer() {
        tokenizer = true;
        return this;
    }

    /// One more tensor.
    public TinyModel withTensor(SafetensorsWriter.Tensor tensor) {
        extra.add(tensor);
        return this;
    }

    /// Writes the checkpoint into an existing directory and returns that.
    public Path write(Path dir) throws IOException {
        Files.writeString(dir.resolve("config.json"), writtenConfig().toPrettyString());
        if (tokenizer) {
            ByteLevelTokenizer.write(dir, config.get("vocab_size").intValue());
        }
        Map<String, long[]> shapes = shapes();
        shapes.keySet().removeIf(omitted);
        var main = new ArrayList<SafetensorsWriter.Tensor>();
        var drafts = new ArrayList<SafetensorsWriter.Tensor>();
        String draftLayer = "model.layers." + config.get("num_hidden_layers").intValue() + ".";
        shapes.forEach((name, shape) ->
                (name.startsWith(draftLayer) && sharded ? drafts : main).add(tensor(name, shape)));
        main.addAll(extra);
        if (wrapped) {
            main.add(new SafetensorsWriter.Tensor("vision_tower.x", "F32", new long[] {1}, new byte[4]));
        }
        if (!sharded) {
            SafetensorsWriter.write(dir.resolve("model.safetensors"), main);
            return dir;
        }
        int half = main.size() / 2;
        var files = new LinkedHashMap<String, List<SafetensorsWriter.Tensor>>();
        files.put("model-00001-of-00002.safetensors", main.subList(0, half));
        files.put("model-00002-of-00002.safetensors", main.subList(half, main.size()));
        if (!drafts.isEmpty()) {
            files.put("mtp.safetensors", drafts);
        }
        ObjectNode index = JSON.createObjectNode();
        index.putObject("metadata").put("total_size", 0);
        ObjectNode map = index.putObject("weight_map");
        for (var file : files.entrySet()) {
            SafetensorsWriter.write(dir.resolve(file.getKey()), file.getValue());
            file.getValue().forEach(tensor -> map.put(tensor.name(), file.getKey()));
        }
        Files.writeString(dir.resolve("model.safetensors.index.json"), index.toString());
        return dir;
    }

    private ObjectNode writtenConfig() {
        if (!wrapped) {
            return config;
        }
        ObjectNode outer = JSON.createObjectNode();
        outer.putArray("architectures").add("KimiK25ForConditionalGeneration");
        outer.put("model_type", "kimi_k25").put("media_placeholder_token_id", 1);
        outer.putObject("vision_config").put("hidden_size", 8);
        outer.set("text_config", config);
        return outer;
    }

    /// Every tensor of the checkpoint by its unwrapped name.
    private Map<String, long[]> shapes() {
        ModelConfig plain = ModelConfig.of(config.toString().getBytes(StandardCharsets.UTF_8));
        if (config.path("num_nextn_predict_layers").asInt() > 0) {
            plain = plain.withDraft(new DraftConfig(ownMtpEmbedding, ownMtpHead, false));
        }
        Map<String, long[]> shapes = new LinkedHashMap<>();
        TensorExpectation.of(plain).forEach(one ->
                shapes.put(one.name(), one.shape().stream().mapToLong(Long::longValue).toArray()));
        return shapes;
    }

    private SafetensorsWriter.Tensor tensor(String name, long[] shape) {
        float[] values = values(name, shape);
        String type = name.endsWith("e_score_correction_bias") ? "F32" : dtype;
        int bytes = values.length * (type.equals("F32") ? Float.BYTES : Short.BYTES);
        ByteBuffer data = ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (float value : values) {
            switch (type) {
                case "F32" -> data.putFloat(value);
                case "F16" -> data.putShort(Float.floatToFloat16(value));
                default -> data.putShort((short) (Float.floatToRawIntBits(value) >>> 16));
            }
        }
        return new SafetensorsWriter.Tensor(wrapped ? "language_model." + name : name, type, shape, data.array());
    }

    /// The values of a tensor by the recipe; all but the routers' bias are exact in BF16.
    public static float[] values(String name, long[] shape) {
        int count = 1;
        for (long dimension : shape) {
            count = Math.multiplyExact(count, Math.toIntExact(dimension));
        }
        long seed = seed(name);
        double scale = Math.sqrt(3.0 / (shape.length == 0 ? 1 : shape[shape.length - 1]));
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            double r = uniform(seed, i);
            if (name.endsWith("e_score_correction_bias")) {
                values[i] = (float) (6.9 + 0.12 * r);
            } else if (name.endsWith(".bias")) {
                values[i] = bfloat16(0.5 * r);
            } else if (name.equals("model.embed_tokens.weight")) {
                values[i] = bfloat16(r);
            } else {
                values[i] = bfloat16(shape.length == 1 ? 1 + 0.25 * r : r * scale);
            }
        }
        return values;
    }

    /// The prompt of the golden values, as long as asked for.
    public static int[] tokens(int count) {
        int[] tokens = new int[count];
        for (int i = 0; i < count; i++) {
            tokens[i] = (int) Math.floor((uniform(seed("tokens"), i) + 1) / 2 * 2048);
        }
        return tokens;
    }

    /// FNV-1a, 64 bits.
    private static long seed(String name) {
        long hash = 0xcbf29ce484222325L;
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            hash = (hash ^ (b & 0xff)) * 0x100000001b3L;
        }
        return hash;
    }

    /// Element i of a stream of SplitMix64, from -1 to 1.
    private static double uniform(long seed, long i) {
        long z = seed + (i + 1) * GOLDEN_RATIO;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        z = z ^ z >>> 31;
        return (z >>> 40) / (double) (1 << 24) * 2 - 1;
    }

    /// Rounded to the nearest value of BF16, ties to even.
    private static float bfloat16(double value) {
        int bits = Float.floatToRawIntBits((float) value);
        return Float.intBitsToFloat(bits + 0x7fff + (bits >>> 16 & 1) & 0xffff0000);
    }
}

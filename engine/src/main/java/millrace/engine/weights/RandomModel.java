package millrace.engine.weights;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/// Writes a Llama checkpoint of random BF16 weights, with config and tokenizer: real sizes without a download.
///
/// A tensor's values depend on the seed and its name only, so shards of any size hold the same numbers. They are scaled
/// so that activations keep unit variance; logits stay finite at any depth.
public final class RandomModel {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int ELEMENTS_PER_WRITE = 1 << 17;

    /// Sizes of the model, named as in config.json; embedding and output projection are tied.
    public record Shape(
            int hiddenSize,
            int numHiddenLayers,
            int numAttentionHeads,
            int numKeyValueHeads,
            int intermediateSize,
            int vocabSize,
            int maxPositionEmbeddings) {}

    private record Planned(String name, long[] shape) {
        long elements() {
            long product = 1;
            for (long dimension : shape) {
                product = Math.multiplyExact(product, dimension);
            }
            return product;
        }
    }

    private RandomModel() {}

    /// Writes into a directory that is empty or not there yet.
    ///
    /// @param maxShardBytes a new shard is begun rather than exceed this; one tensor may
    public static void write(Path dir, long seed, Shape shape, long maxShardBytes) throws IOException {
        if (shape.hiddenSize() % shape.numAttentionHeads() != 0) {
            throw new IllegalArgumentException("hidden size: expected a multiple of the heads "
                    + shape.numAttentionHeads() + ", got " + shape.hiddenSize());
        }
        ByteLevelTokenizer.requireVocab(shape.vocabSize());
        Files.createDirectories(dir);
        try (Stream<Path> entries = Files.list(dir)) {
            if (entries.findAny().isPresent()) {
                throw new IOException(dir + ": expected an empty directory, got one with files; choose another");
            }
        }
        Files.write(dir.resolve(ModelFiles.CONFIG), JSON.writeValueAsBytes(config(shape)));
        ByteLevelTokenizer.write(dir, shape.vocabSize());
        List<List<Planned>> shards = shards(plan(shape), maxShardBytes);
        ObjectNode map = JSON.createObjectNode();
        for (int s = 0; s < shards.size(); s++) {
            String name = shards.size() == 1
                    ? ModelFiles.WEIGHTS
                    : String.format("model-%05d-of-%05d.safetensors", s + 1, shards.size());
            writeShard(dir.resolve(name), shards.get(s), seed);
            shards.get(s).forEach(tensor -> map.put(tensor.name(), name));
        }
        if (shards.size() > 1) {
            ObjectNode index = JSON.createObjectNode();
            index.putObject("metadata");
            index.set("weight_map", map);
            Files.write(dir.resolve(ModelFiles.INDEX), JSON.writeValueAsBytes(index));
        }
    }

    private static ObjectNode config(Shape shape) {
        ObjectNode config = JSON.createObjectNode();
        config.putArray("architectures").add("LlamaForCausalLM");
        config.put("model_type", "llama").put("hidden_act", "silu").put("torch_dtype", "bfloat16");
        config.put("vocab_size", shape.vocabSize()).put("hidden_size", shape.hiddenSize());
        config.put("num_hidden_layers", shape.numHiddenLayers());
        config.put("num_attention_heads", shape.numAttentionHeads());
        config.put("num_key_value_heads", shape.numKeyValueHeads());
        config.put("intermediate_size", shape.intermediateSize());
        config.put("rope_theta", 500_000.0).put("rms_norm_eps", 1e-5);
        config.put("max_position_embeddings", shape.maxPositionEmbeddings());
        config.put("attention_bias", false).put("mlp_bias", false).put("tie_word_embeddings", true);
        ByteLevelTokenizer.stopIds(shape.vocabSize()).forEach(config.withArray("/eos_token_id")::add);
        return config;
    }

    private static List<Planned> plan(Shape shape) {
        var all = new ArrayList<Planned>();
        long hidden = shape.hiddenSize();
        long inner = shape.intermediateSize();
        long keys = hidden / shape.numAttentionHeads() * shape.numKeyValueHeads();
        add(all, "model.embed_tokens.weight", shape.vocabSize(), hidden);
        for (int layer = 0; layer < shape.numHiddenLayers(); layer++) {
            String p = "model.layers." + layer + ".";
            add(all, p + "input_layernorm.weight", hidden);
            add(all, p + "self_attn.q_proj.weight", hidden, hidden);
            add(all, p + "self_attn.k_proj.weight", keys, hidden);
            add(all, p + "self_attn.v_proj.weight", keys, hidden);
            add(all, p + "self_attn.o_proj.weight", hidden, hidden);
            add(all, p + "post_attention_layernorm.weight", hidden);
            add(all, p + "mlp.gate_proj.weight", inner, hidden);
            add(all, p + "mlp.up_proj.weight", inner, hidden);
            add(all, p + "mlp.down_proj.weight", hidden, inner);
        }
        add(all, "model.norm.weight", hidden);
        return all;
    }

    private static void add(List<Planned> all, String name, long... shape) {
        all.add(new Planned(name, shape));
    }

    private static List<List<Planned>> shards(List<Planned> tensors, long maxShardBytes) {
        var shards = new ArrayList<List<Planned>>();
        long bytes = Long.MAX_VALUE / 2;
        for (Planned tensor : tensors) {
            if (bytes + 2 * tensor.elements() > maxShardBytes) {
                shards.add(new ArrayList<>());
                bytes = 0;
            }
            shards.getLast().add(tensor);
            bytes += 2 * tensor.elements();
        }
        return shards;
    }

    private static void writeShard(Path file, List<Planned> tensors, long seed) throws IOException {
        ObjectNode header = JSON.createObjectNode();
        long offset = 0;
        for (Planned tensor : tensors) {
            ObjectNode entry = header.putObject(tensor.name()).put("dtype", "BF16");
            for (long dimension : tensor.shape()) {
                entry.withArray("/shape").add(dimension);
            }
            entry.putArray("data_offsets").add(offset).add(offset += 2 * tensor.elements());
        }
        byte[] json = JSON.writeValueAsBytes(header);
        int padded = json.length + 7 & ~7;
        byte[] prefix = ByteBuffer.allocate(8)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(padded)
                .array();
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file), 1 << 16)) {
            out.write(prefix);
            out.write(json);
            out.write(" ".repeat(padded - json.length).getBytes(StandardCharsets.US_ASCII));
            for (Planned tensor : tensors) {
                writeValues(out, tensor, seed);
            }
        }
    }

    private static void writeValues(OutputStream out, Planned tensor, long seed) throws IOException {
        var random = new SplittableRandom(seed ^ (long) tensor.name().hashCode() * 0x9E3779B97F4A7C15L);
        boolean norm = tensor.shape().length == 1;
        boolean embedding = tensor.name().contains("embed_tokens");
        long width = tensor.shape()[tensor.shape().length - 1];
        float offset = norm ? 1 : 0;
        // A uniform value from -1 to 1 has variance 1/3.
        float scale = (norm ? 0.25f : embedding ? 1f : (float) Math.sqrt(3.0 / width)) / 32768f;
        byte[] chunk = new byte[2 * ELEMENTS_PER_WRITE];
        for (long at = 0; at < tensor.elements(); at += ELEMENTS_PER_WRITE) {
            int count = (int) Math.min(ELEMENTS_PER_WRITE, tensor.elements() - at);
            long bits = 0;
            for (int i = 0; i < count; i++) {
                // Four values from one draw.
                bits = (i & 3) == 0 ? random.nextLong() : bits >>> 16;
                int raw = Float.floatToRawIntBits((short) bits * scale + offset);
                int rounded = raw + 0x7fff + (raw >>> 16 & 1) >>> 16;
                chunk[2 * i] = (byte) rounded;
                chunk[2 * i + 1] = (byte) (rounded >>> 8);
            }
            out.write(chunk, 0, 2 * count);
        }
    }
}

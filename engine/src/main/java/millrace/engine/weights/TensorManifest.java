package millrace.engine.weights;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.Golden;
import millrace.engine.InvalidModelException;
import millrace.engine.kernel.DType;
import org.jspecify.annotations.Nullable;

/// `integrity/tensors.json`: what every tensor of a model is, down to blocks of 1 MiB, and prompts whose answers are known.
///
/// It lies in the model's directory, so that a signature of the directory covers it. Streamed both ways, since large
/// models have 200,000 tensors. docs/formats.md has it field by field.
public final class TensorManifest {
    /// Where it lies in a model's directory.
    public static final String PATH = "integrity/tensors.json";

    /// Codec of a tensor whose stored bytes are what is computed with.
    public static final String PLAIN = "none";
    /// Codec of a tensor that `model pack` has packed.
    public static final String PACKED = "packed";

    static final int MAX_BYTES = 256 << 20;
    private static final String FORMAT = "tensor-manifest/v1";
    private static final String ALGORITHM = "crc32c";
    private static final int MAX_TENSORS = 1_000_000;
    private static final int MAX_GOLDEN = 64;
    private static final int MAX_IDS = 4096;
    private static final ObjectMapper JSON = new ObjectMapper(JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNestingDepth(8)
                    .maxNumberLength(32)
                    .maxNameLength(1024)
                    .maxStringLength(64 << 20)
                    .build())
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .build());

    private final Map<String, Entry> tensors;
    private final List<Golden> golden;

    private TensorManifest(Map<String, Entry> tensors, List<Golden> golden) {
        this.tensors = Collections.unmodifiableMap(tensors);
        this.golden = List.copyOf(golden);
    }

    /// One tensor.
    ///
    /// @param begin first byte in the file
    /// @param end byte after the last
    /// @param sha256 of the stored bytes, lower-case hexadecimal
    /// @param blocks CRC-32C of each MiB of the stored bytes
    /// @param decoded what packed bytes decode to; null for a plain tensor
    public record Entry(
            String name,
            DType dtype,
            long[] shape,
            String file,
            long begin,
            long end,
            String sha256,
            int[] blocks,
            @Nullable Decoded decoded) {
        public Entry {
            shape = shape.clone();
            blocks = blocks.clone();
        }

        @Override
        public long[] shape() {
            return shape.clone();
        }

        @Override
        public int[] blocks() {
            return blocks.clone();
        }
    }

    /// The numbers that a packed tensor decodes to: BF16, little-endian, row by row.
    ///
    /// @param bytes of all of them
    /// @param blockBytes of a block: 16 rows, the last block may have fewer
    /// @param blocks CRC-32C of each block
    public record Decoded(long bytes, long blockBytes, int[] blocks) {
        public Decoded {
            blocks = blocks.clone();
        }

        @Override
        public int[] blocks() {
            return blocks.clone();
        }
    }

    public static TensorManifest of(Collection<Entry> tensors, List<Golden> golden) {
        Map<String, Entry> map = new LinkedHashMap<>();
        tensors.forEach(entry -> map.put(entry.name(), entry));
        return new TensorManifest(map, golden);
    }

    /// In the order of the file.
    public Collection<Entry> tensors() {
        return tensors.values();
    }

    /// The tensor of that name, or null.
    public @Nullable Entry tensor(String name) {
        return tensors.get(name);
    }

    public List<Golden> golden() {
        return golden;
    }

    // --------------------------------------------------------------------------------------------------- writing

    /// The file's bytes.
    public byte[] toJson() {
        var out = new ByteArrayOutputStream();
        try (JsonGenerator json = JSON.getFactory().createGenerator(out)) {
            json.writeStartObject();
            json.writeStringField("format", FORMAT);
            json.writeNumberField("block_bytes", BlockSums.BLOCK);
            json.writeStringField("alg", ALGORITHM);
            json.writeArrayFieldStart("tensors");
            for (Entry entry : tensors.values()) {
                // One tensor a line: a reader may search and compare.
                json.writeRaw('\n');
                write(json, entry);
            }
            json.writeEndArray();
            json.writeArrayFieldStart("golden");
            for (Golden one : golden) {
                write(json, one);
            }
            json.writeEndArray();
            json.writeEndObject();
            json.writeRaw('\n');
        } catch (IOException e) {
            throw new IllegalStateException("bytes can be written to memory", e);
        }
        return out.toByteArray();
    }

    private static void write(JsonGenerator json, Entry entry) throws IOException {
        json.writeStartObject();
        json.writeStringField("name", entry.name);
        json.writeStringField("dtype", entry.dtype.name());
        json.writeFieldName("shape");
        json.writeArray(entry.shape, 0, entry.shape.length);
        json.writeStringField("file", entry.file);
        json.writeNumberField("begin", entry.begin);
        json.writeNumberField("end", entry.end);
        json.writeStringField("sha256", entry.sha256);
        json.writeStringField("blocks_crc32c", base64(entry.blocks));
        Decoded decoded = entry.decoded;
        json.writeStringField("codec", decoded == null ? PLAIN : PACKED);
        if (decoded != null) {
            json.writeNumberField("raw_bytes", decoded.bytes);
            json.writeNumberField("raw_block_bytes", decoded.blockBytes);
            json.writeStringField("raw_crc32c", base64(decoded.blocks));
        }
        json.writeEndObject();
    }

    private static void write(JsonGenerator json, Golden golden) throws IOException {
        json.writeStartObject();
        json.writeArrayFieldStart("prompt_ids");
        for (int id : golden.promptIds()) {
            json.writeNumber(id);
        }
        json.writeEndArray();
        json.writeNumberField("max_tokens", golden.maxTokens());
        json.writeStringField("profile", golden.profile());
        json.writeStringField("kv_format", golden.kvFormat());
        json.writeStringField("weight_format", golden.weightFormat());
        json.writeStringField("tokens_sha256", golden.tokensSha256());
        json.writeEndObject();
    }

    private static String base64(int[] words) {
        ByteBuffer bytes = ByteBuffer.allocate(Integer.BYTES * words.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(words);
        return Base64.getEncoder().encodeToString(bytes.array());
    }

    // --------------------------------------------------------------------------------------------------- reading

    /// Reads the file; whether it belongs to these weights is asked later.
    ///
    /// @throws InvalidModelException `BT_FORMAT`
    public static TensorManifest parse(byte[] json) {
        Map<String, Entry> tensors = new LinkedHashMap<>();
        List<Golden> golden = new ArrayList<>();
        Map<String, String> head = new LinkedHashMap<>();
        var reader = new InputStreamReader(new ByteArrayInputStream(json), SafetensorsHeader.strictUtf8());
        try (JsonParser parser = JSON.getFactory().createParser(reader)) {
            require(parser.nextToken() == JsonToken.START_OBJECT, "a JSON object");
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String key = parser.currentName();
                JsonToken value = parser.nextToken();
                switch (key) {
                    case "format", "alg", "block_bytes" -> head.put(key, value.isScalarValue() ? parser.getText() : "");
                    case "tensors" -> readTensors(parser, tensors);
                    case "golden" -> readGolden(parser, golden);
                    default -> parser.skipChildren();
                }
            }
            require(parser.nextToken() == null, "nothing after the object");
        } catch (JsonProcessingException e) {
            throw new InvalidModelException("BT_FORMAT",
                    PATH + ": expected strict JSON, got: " + JsonFiles.oneLine(e) + "; sign the model again", e);
        } catch (IOException e) {
            throw new InvalidModelException("BT_FORMAT", PATH + ": expected UTF-8, got other bytes; sign the model again", e);
        }
        require(FORMAT.equals(head.get("format")), "the format " + FORMAT);
        require(ALGORITHM.equals(head.get("alg")), "the alg " + ALGORITHM);
        require(String.valueOf(BlockSums.BLOCK).equals(head.get("block_bytes")), "block_bytes of " + BlockSums.BLOCK);
        require(!tensors.isEmpty(), "tensors");
        return new TensorManifest(tensors, golden);
    }

    private static void readTensors(JsonParser parser, Map<String, Entry> tensors) throws IOException {
        require(parser.currentToken() == JsonToken.START_ARRAY, "tensors to be an array");
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            Entry entry = entry(JSON.readTree(parser));
            require(tensors.put(entry.name, entry) == null, "every tensor once");
            require(tensors.size() <= MAX_TENSORS, "at most " + MAX_TENSORS + " tensors");
        }
    }

    private static Entry entry(JsonNode node) {
        long begin = number(node, "begin");
        long end = number(node, "end");
        String codec = text(node, "codec");
        require(begin <= end, "begin up to end");
        require(codec.equals(PLAIN) || codec.equals(PACKED), "codec " + PLAIN + " or " + PACKED);
        String sha256 = text(node, "sha256");
        require(sha256.matches("[0-9a-f]{64}"), "sha256 of 64 hexadecimal digits");
        String file = text(node, "file");
        require(WeightIndex.isPlainName(file), "plain file names");
        JsonNode shape = node.path("shape");
        require(shape.isArray(), "shape to be an array");
        long[] dimensions = new long[shape.size()];
        for (int i = 0; i < dimensions.length; i++) {
            require(shape.get(i).isIntegralNumber() && shape.get(i).canConvertToLong(), "shape of whole numbers");
            dimensions[i] = shape.get(i).longValue();
        }
        return new Entry(text(node, "name"), dtype(text(node, "dtype")), dimensions, file, begin, end, sha256,
                words(node, "blocks_crc32c", end - begin, BlockSums.BLOCK), codec.equals(PLAIN) ? null : decoded(node));
    }

    private static Decoded decoded(JsonNode node) {
        long bytes = number(node, "raw_bytes");
        long blockBytes = number(node, "raw_block_bytes");
        require(bytes > 0 && blockBytes > 0, "raw_bytes and raw_block_bytes above 0");
        return new Decoded(bytes, blockBytes, words(node, "raw_crc32c", bytes, blockBytes));
    }

    private static DType dtype(String name) {
        return Arrays.stream(DType.values()).filter(type -> type.name().equals(name)).findFirst()
                .orElseThrow(() -> wrong("a dtype of safetensors"));
    }

    private static int[] words(JsonNode node, String field, long bytes, long blockBytes) {
        byte[] octets;
        try {
            octets = Base64.getDecoder().decode(text(node, field));
        } catch (IllegalArgumentException e) {
            throw wrong(field + " in base64");
        }
        long blocks = bytes / blockBytes + (bytes % blockBytes == 0 ? 0 : 1);
        require(octets.length == Integer.BYTES * blocks, field + " of one word for each block");
        int[] words = new int[octets.length / Integer.BYTES];
        ByteBuffer.wrap(octets).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(words);
        return words;
    }

    private static void readGolden(JsonParser parser, List<Golden> golden) throws IOException {
        require(parser.currentToken() == JsonToken.START_ARRAY, "golden to be an array");
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            JsonNode node = JSON.readTree(parser);
            List<Integer> ids = new ArrayList<>();
            for (JsonNode id : node.path("prompt_ids")) {
                require(id.isInt() && id.intValue() >= 0, "prompt_ids of token ids");
                ids.add(id.intValue());
            }
            long maxTokens = number(node, "max_tokens");
            require(!ids.isEmpty() && ids.size() <= MAX_IDS, "prompt_ids of 1 to " + MAX_IDS);
            require(maxTokens > 0 && maxTokens <= MAX_IDS, "max_tokens of 1 to " + MAX_IDS);
            golden.add(new Golden(ids, (int) maxTokens, text(node, "profile"), text(node, "kv_format"),
                    text(node, "weight_format"), text(node, "tokens_sha256")));
            require(golden.size() <= MAX_GOLDEN, "at most " + MAX_GOLDEN + " golden prompts");
        }
    }

    private static String text(JsonNode node, String field) {
        require(node.path(field).isTextual(), field + " to be a string");
        return node.path(field).textValue();
    }

    private static long number(JsonNode node, String field) {
        JsonNode value = node.path(field);
        require(value.isIntegralNumber() && value.canConvertToLong() && value.longValue() >= 0, field + " of 0 or more");
        return value.longValue();
    }

    private static void require(boolean condition, String expected) {
        if (!condition) {
            throw wrong(expected);
        }
    }

    private static InvalidModelException wrong(String expected) {
        return new InvalidModelException("BT_FORMAT",
                PATH + ": expected " + expected + ", got something else; sign the model again");
    }
}

package millrace.streams.batch;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.StreamSupport;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// What a batch is: written once, before the first prompt is sent.
///
/// @param createdMs milliseconds since the epoch, UTC
/// @param expiresMs when unanswered lines stop being wanted, milliseconds since the epoch, UTC
/// @param inputName of the file that was submitted, or its id
/// @param inputSha256 of its bytes, hexadecimal
/// @param inputBytes its size
/// @param lines that are not blank
/// @param cluster id of the Kafka cluster
/// @param positions of the completions topic's partitions when the batch was made: no answer lies before
public record Manifest(
        String id,
        @Nullable String tenant,
        Endpoint endpoint,
        long createdMs,
        long expiresMs,
        String inputName,
        String inputSha256,
        long inputBytes,
        int lines,
        Map<String, String> metadata,
        String cluster,
        String completionsTopic,
        List<Long> positions) {
    static final String FILE = "batch.json";
    private static final int VERSION = 1;

    public Manifest {
        metadata = Map.copyOf(metadata);
        positions = List.copyOf(positions);
    }

    void write(Path directory) {
        ObjectNode node = Json.object().put("version", VERSION).put("id", id).put("tenant", tenant).put("endpoint", endpoint.path())
                .put("created_ms", createdMs).put("expires_ms", expiresMs).put("cluster", cluster).put("completions_topic", completionsTopic);
        node.putObject("input").put("name", inputName).put("sha256", inputSha256).put("bytes", inputBytes).put("lines", lines);
        ObjectNode entries = node.putObject("metadata");
        metadata.forEach(entries::put);
        positions.forEach(node.putArray("positions")::add);
        Durable.replace(directory.resolve(FILE), node);
    }

    static Manifest read(Path directory) {
        ObjectNode node = Durable.read(directory.resolve(FILE));
        if (node == null || node.path("version").asInt() != VERSION) {
            throw new BatchException("BATCH_STATE", directory + ": expected " + FILE + " of version " + VERSION
                    + ", got " + (node == null ? "none" : "another") + "; is it a directory of batches?");
        }
        Map<String, String> metadata = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> entry : node.path("metadata").properties()) {
            metadata.put(entry.getKey(), entry.getValue().asText());
        }
        JsonNode input = node.path("input");
        return new Manifest(
                node.path("id").asText(),
                node.path("tenant").isTextual() ? node.path("tenant").textValue() : null,
                Endpoint.of(node.path("endpoint").asText()),
                node.path("created_ms").asLong(),
                node.path("expires_ms").asLong(),
                input.path("name").asText(),
                input.path("sha256").asText(),
                input.path("bytes").asLong(),
                input.path("lines").asInt(),
                metadata,
                node.path("cluster").asText(),
                node.path("completions_topic").asText(),
                longs(node.path("positions")).boxed().toList());
    }

    static LongStream longs(JsonNode array) {
        return array instanceof ArrayNode numbers
                ? StreamSupport.stream(numbers.spliterator(), false).mapToLong(JsonNode::asLong)
                : LongStream.empty();
    }
}

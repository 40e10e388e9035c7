package millrace.streams.registry.server;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Keys and values of the `_schemas` topic, in Confluent's format, so that their registry can take the topic over.
///
/// | key                                                      | value                                           |
/// |----------------------------------------------------------|-------------------------------------------------|
/// | `{"keytype":"SCHEMA","subject":s,"version":v,"magic":1}` | `{"subject","version","id","schema","deleted"}` |
/// | `{"keytype":"CONFIG","subject":s or null,"magic":0}`     | `{"compatibilityLevel":"FULL"}`                 |
/// | `{"keytype":"MODE","subject":s or null,"magic":0}`       | `{"mode":"READONLY"}`                           |
/// | `{"keytype":"DELETE_SUBJECT","subject":s,"magic":0}`     | `{"subject":s,"version":last that is deleted}`  |
/// | `{"keytype":"CLEAR_SUBJECT","subject":s,"magic":0}`      | `{"subject":s}`                                 |
/// | `{"keytype":"NOOP","magic":0}`                           | nothing                                         |
final class RegistryRecords {
    static final ObjectMapper JSON = new ObjectMapper();

    private RegistryRecords() {}

    static String schemaKey(String subject, int version) {
        return JSON.createObjectNode()
                .put("keytype", "SCHEMA")
                .put("subject", subject)
                .put("version", version)
                .put("magic", 1)
                .toString();
    }

    static String key(String type, @Nullable String subject) {
        return JSON.createObjectNode()
                .put("keytype", type)
                .put("subject", subject)
                .put("magic", 0)
                .toString();
    }

    static String value(StoredSchema schema) {
        ObjectNode value = JSON.createObjectNode()
                .put("subject", schema.subject())
                .put("version", schema.version())
                .put("id", schema.id());
        putReferences(value, schema.references());
        return value.put("schema", schema.schema()).put("deleted", schema.deleted()).toString();
    }

    static StoredSchema schema(JsonNode value) {
        return new StoredSchema(
                value.path("subject").asText(),
                value.path("version").asInt(),
                value.path("id").asInt(),
                value.path("schema").asText(),
                references(value),
                value.path("deleted").asBoolean(false));
    }

    static List<StoredSchema.Reference> references(JsonNode value) {
        List<StoredSchema.Reference> references = new ArrayList<>();
        for (JsonNode r : value.path("references")) {
            references.add(new StoredSchema.Reference(
                    r.path("name").asText(),
                    r.path("subject").asText(),
                    r.path("version").asInt()));
        }
        return references;
    }

    /// Adds the field `references` unless there are none.
    static void putReferences(ObjectNode target, List<StoredSchema.Reference> references) {
        if (references.isEmpty()) {
            return;
        }
        ArrayNode array = target.putArray("references");
        for (StoredSchema.Reference r : references) {
            array.addObject()
                    .put("name", r.name())
                    .put("subject", r.subject())
                    .put("version", r.version());
        }
    }
}

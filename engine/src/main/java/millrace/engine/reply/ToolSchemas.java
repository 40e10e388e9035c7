package millrace.engine.reply;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/// The tools that a prompt declares: their names, in order, and the schemas of their parameters.
public record ToolSchemas(Map<String, JsonNode> parameters) {
    /// Deeper than this, alternatives within alternatives are not looked at.
    private static final int MAX_ALTERNATIVES_DEPTH = 8;

    /// @param tools a JSON array as text; what is no tool in it is passed over
    public static ToolSchemas of(@Nullable String tools) {
        Map<String, JsonNode> all = new LinkedHashMap<>();
        JsonNode array = tools == null ? null : JsonText.parse(tools);
        if (array != null && array.isArray()) {
            for (JsonNode tool : array) {
                JsonNode function = tool.path("function").isObject() ? tool.path("function") : tool;
                if (function.path("name").isTextual()) {
                    all.putIfAbsent(function.path("name").textValue(), function.path("parameters"));
                }
            }
        }
        return new ToolSchemas(all);
    }

    boolean isEmpty() {
        return parameters.isEmpty();
    }

    boolean has(String name) {
        return parameters.containsKey(name);
    }

    /// Names, the longest first.
    List<String> longestFirst() {
        return parameters.keySet().stream()
                .sorted((a, b) -> Integer.compare(b.length(), a.length()))
                .toList();
    }

    /// The only tool that takes arguments of exactly these names, those that it requires among them; null if there is none or
    /// more than one.
    @Nullable String taking(Set<String> keys) {
        List<String> fitting = parameters.entrySet().stream()
                .filter(tool -> takes(tool.getValue(), keys))
                .map(Map.Entry::getKey)
                .toList();
        return fitting.size() == 1 ? fitting.getFirst() : null;
    }

    private static boolean takes(JsonNode schema, Set<String> keys) {
        for (JsonNode required : schema.path("required")) {
            if (!keys.contains(required.asText())) {
                return false;
            }
        }
        return keys.stream().allMatch(schema.path("properties")::has);
    }

    /// The JSON types that a parameter may have, as JSON Schema names them; empty where the schema does not say.
    public Set<String> types(String tool, String key) {
        JsonNode schema = parameters.get(tool);
        Set<String> types = new TreeSet<>();
        if (schema != null) {
            collect(schema.path("properties").path(key), types, 0);
        }
        return types;
    }

    private static void collect(JsonNode schema, Set<String> types, int depth) {
        if (depth > MAX_ALTERNATIVES_DEPTH) {
            return;
        }
        JsonNode type = schema.path("type");
        if (type.isTextual()) {
            types.add(type.textValue());
        }
        type.forEach(one -> types.add(one.asText()));
        if (type.isMissingNode()) {
            schema.path("enum").forEach(one -> types.add(typeOf(one)));
            if (schema.has("const")) {
                types.add(typeOf(schema.get("const")));
            }
        }
        for (String alternatives : new String[] {"anyOf", "oneOf"}) {
            schema.path(alternatives).forEach(one -> collect(one, types, depth + 1));
        }
    }

    static String typeOf(JsonNode value) {
        return switch (value.getNodeType()) {
            case STRING -> "string";
            case BOOLEAN -> "boolean";
            case NUMBER -> value.isIntegralNumber() ? "integer" : "number";
            case ARRAY -> "array";
            case OBJECT -> "object";
            default -> "null";
        };
    }
}

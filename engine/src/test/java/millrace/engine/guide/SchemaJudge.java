package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;

/// Says whether a value meets a schema, word by word as JSON Schema 2020-12 has it (and `nullable`): written for tests, from the
/// specification, apart from what is tested.
public final class SchemaJudge {
    private final JsonNode root;
    private static final int MAX_REFERENCES = 200;
    private final boolean narrow;
    private int references;

    public SchemaJudge(JsonNode root) {
        this(root, false);
    }

    /// @param narrow whether values are held to what is made: no undeclared properties where some are declared and nothing is
    ///        said of others, and no other types than those that the words of a schema speak of
    SchemaJudge(JsonNode root, boolean narrow) {
        this.root = root;
        this.narrow = narrow;
    }

    public boolean accepts(JsonNode value) {
        return accepts(root, value);
    }

    boolean accepts(JsonNode schema, JsonNode value) {
        if (schema.isBoolean()) {
            return schema.booleanValue();
        }
        if (schema.path("nullable").asBoolean() && value.isNull()) {
            return true;
        }
        if (schema.has("$ref") && !refers(root.at(schema.get("$ref").textValue().substring(1)), value)) {
            return false;
        }
        return type(schema, value)
                && literals(schema, value)
                && combinations(schema, value)
                && (!value.isObject() || object(schema, value))
                && (!value.isArray() || array(schema, value))
                && (!value.isTextual() || string(schema, value.textValue()))
                && (!value.isNumber() || number(schema, value.decimalValue()));
    }

    /// A reference that leads to nothing but itself is met by no value.
    private boolean refers(JsonNode schema, JsonNode value) {
        if (references == MAX_REFERENCES) {
            return false;
        }
        references++;
        boolean accepted = accepts(schema, value);
        references--;
        return accepted;
    }

    private boolean type(JsonNode schema, JsonNode value) {
        JsonNode type = schema.path("type");
        if (type.isMissingNode()) {
            boolean object = schema.has("properties") || schema.has("required") || schema.has("additionalProperties");
            return !narrow || !object || value.isObject();
        }
        if (type.isTextual()) {
            return is(type.textValue(), value);
        }
        for (JsonNode one : type) {
            if (is(one.textValue(), value)) {
                return true;
            }
        }
        return false;
    }

    private static boolean is(String type, JsonNode value) {
        return switch (type) {
            case "object" -> value.isObject();
            case "array" -> value.isArray();
            case "string" -> value.isTextual();
            case "number" -> value.isNumber();
            case "integer" -> value.isNumber() && value.decimalValue().remainder(BigDecimal.ONE).signum() == 0;
            case "boolean" -> value.isBoolean();
            default -> value.isNull();
        };
    }

    private static boolean literals(JsonNode schema, JsonNode value) {
        if (schema.has("const") && !same(schema.get("const"), value)) {
            return false;
        }
        if (!schema.has("enum")) {
            return true;
        }
        for (JsonNode one : schema.get("enum")) {
            if (same(one, value)) {
                return true;
            }
        }
        return false;
    }

    private static boolean same(JsonNode a, JsonNode b) {
        return a.equals(
                (x, y) -> x.isNumber() && y.isNumber() ? x.decimalValue().compareTo(y.decimalValue()) : x.equals(y) ? 0 : 1, b);
    }

    private boolean combinations(JsonNode schema, JsonNode value) {
        if (schema.has("anyOf") && count(schema.get("anyOf"), value) == 0) {
            return false;
        }
        if (schema.has("oneOf") && count(schema.get("oneOf"), value) != 1) {
            return false;
        }
        return !schema.has("allOf") || count(schema.get("allOf"), value) == schema.get("allOf").size();
    }

    private int count(JsonNode schemas, JsonNode value) {
        int met = 0;
        for (JsonNode schema : schemas) {
            met += accepts(schema, value) ? 1 : 0;
        }
        return met;
    }

    private boolean object(JsonNode schema, JsonNode value) {
        for (JsonNode name : schema.path("required")) {
            if (!value.has(name.textValue())) {
                return false;
            }
        }
        for (var member : value.properties()) {
            boolean declares = schema.path("properties").size() + schema.path("required").size() > 0;
            boolean required = false;
            for (JsonNode name : schema.path("required")) {
                required |= name.textValue().equals(member.getKey());
            }
            if (narrow && declares && !required && !schema.has("additionalProperties")
                    && !schema.path("properties").has(member.getKey())) {
                return false;
            }
            JsonNode own = schema.path("properties").path(member.getKey());
            JsonNode its = own.isMissingNode() ? schema.path("additionalProperties") : own;
            if (!its.isMissingNode() && !accepts(its, member.getValue())) {
                return false;
            }
        }
        return true;
    }

    private boolean array(JsonNode schema, JsonNode value) {
        JsonNode first = schema.path("prefixItems");
        for (int i = 0; i < value.size(); i++) {
            JsonNode its = i < first.size() ? first.get(i) : schema.path("items");
            if (!its.isMissingNode() && !accepts(its, value.get(i))) {
                return false;
            }
        }
        return value.size() >= schema.path("minItems").asInt(0)
                && value.size() <= schema.path("maxItems").asInt(Integer.MAX_VALUE);
    }

    private static boolean string(JsonNode schema, String value) {
        int length = value.codePointCount(0, value.length());
        return length >= schema.path("minLength").asInt(0) && length <= schema.path("maxLength").asInt(Integer.MAX_VALUE);
    }

    private static boolean number(JsonNode schema, BigDecimal value) {
        return (!schema.has("minimum") || value.compareTo(schema.get("minimum").decimalValue()) >= 0)
                && (!schema.has("maximum") || value.compareTo(schema.get("maximum").decimalValue()) <= 0)
                && (!schema.has("exclusiveMinimum") || value.compareTo(schema.get("exclusiveMinimum").decimalValue()) > 0)
                && (!schema.has("exclusiveMaximum") || value.compareTo(schema.get("exclusiveMaximum").decimalValue()) < 0);
    }
}

package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/// Documents that meet a schema, properties in the order of the schema, and ways to write them.
final class RandomDocuments {
    private static final JsonNodeFactory MAKE = JsonNodeFactory.instance;
    private static final List<String> TEXTS = List.of("a", "b", "é", "€", "😀", "\"", "\\", "\n", "<", "name", "0");
    private final JsonNode root;
    private final SchemaJudge judge;
    private final SchemaJudge narrow;
    private final SplittableRandom random;

    RandomDocuments(JsonNode root, SplittableRandom random) {
        this.root = root;
        this.random = random;
        judge = new SchemaJudge(root);
        narrow = new SchemaJudge(root, true);
    }

    /// null if none was found.
    @Nullable JsonNode next() {
        for (int i = 0; i < 20; i++) {
            JsonNode value = value(root, 6);
            if (value != null && judge.accepts(value)) {
                return value;
            }
        }
        return null;
    }

    private @Nullable JsonNode value(JsonNode schema, int depth) {
        JsonNode value = made(schema, depth);
        return value == null || !narrow.accepts(schema, value) ? null : value;
    }

    private @Nullable JsonNode made(JsonNode schema, int depth) {
        if (depth < 0) {
            return null;
        }
        if (schema.isBoolean()) {
            return schema.booleanValue() ? any(Math.min(depth, 2)) : null;
        }
        if (schema.path("nullable").asBoolean() && random.nextInt(3) == 0) {
            return MAKE.nullNode();
        }
        if (schema.has("$ref")) {
            return value(root.at(schema.get("$ref").textValue().substring(1)), depth - 1);
        }
        for (String word : List.of("anyOf", "oneOf", "allOf")) {
            if (schema.has(word)) {
                return value(schema.get(word).get(random.nextInt(schema.get(word).size())), depth - 1);
            }
        }
        if (schema.has("const")) {
            return schema.get("const");
        }
        if (schema.has("enum")) {
            return schema.get("enum").get(random.nextInt(schema.get("enum").size()));
        }
        JsonNode types = schema.path("type");
        String inferred = schema.has("properties") || schema.has("required") || schema.has("additionalProperties") ? "object" : "any";
        String type = types.isArray() ? types.get(random.nextInt(types.size())).textValue() : types.asText(inferred);
        return switch (type) {
            case "object" -> object(schema, depth);
            case "array" -> array(schema, depth);
            case "string" -> string(schema);
            case "integer" -> number(schema, 0);
            case "number" -> number(schema, random.nextInt(4));
            case "boolean" -> MAKE.booleanNode(random.nextBoolean());
            case "null" -> MAKE.nullNode();
            default -> any(Math.min(depth, 2));
        };
    }

    private JsonNode any(int depth) {
        return switch (random.nextInt(depth > 0 ? 7 : 5)) {
            case 0 -> string(MAKE.objectNode());
            case 1 -> MAKE.numberNode(random.nextInt(-1000, 1000));
            case 2 -> MAKE.numberNode(new BigDecimal("-12.5e-7"));
            case 3 -> MAKE.booleanNode(true);
            case 4 -> MAKE.nullNode();
            case 5 -> MAKE.arrayNode().add(any(depth - 1)).add(any(depth - 1));
            default -> ((ObjectNode) MAKE.objectNode().set("k", any(depth - 1))).set("other", any(depth - 1));
        };
    }

    private JsonNode string(JsonNode schema) {
        int min = schema.path("minLength").asInt(0);
        int length = random.nextInt(min, Math.max(min, schema.path("maxLength").asInt(6)) + 1);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            text.append(TEXTS.get(random.nextInt(TEXTS.size())));
        }
        return MAKE.textNode(text.toString());
    }

    private JsonNode number(JsonNode schema, int scale) {
        JsonNode low = schema.has("minimum") ? schema.get("minimum") : schema.path("exclusiveMinimum");
        JsonNode high = schema.has("maximum") ? schema.get("maximum") : schema.path("exclusiveMaximum");
        BigDecimal from = low.isMissingNode() ? high.isMissingNode() ? BigDecimal.ZERO : high.decimalValue() : low.decimalValue();
        BigDecimal value = from.add(BigDecimal.valueOf(random.nextInt(-40, 400), scale));
        return MAKE.numberNode(scale == 0 ? value.setScale(0, java.math.RoundingMode.HALF_UP) : value);
    }

    private @Nullable JsonNode object(JsonNode schema, int depth) {
        ObjectNode object = MAKE.objectNode();
        List<String> required = new ArrayList<>();
        schema.path("required").forEach(name -> required.add(name.textValue()));
        List<String> names = new ArrayList<>();
        schema.path("properties").fieldNames().forEachRemaining(names::add);
        required.stream().filter(name -> !names.contains(name)).forEach(names::add);
        JsonNode others = schema.path("additionalProperties");
        for (String name : names) {
            JsonNode its = schema.path("properties").path(name);
            if (its.isMissingNode()) {
                its = others.isMissingNode() ? MAKE.booleanNode(true) : others;
            }
            if (required.contains(name) || random.nextBoolean()) {
                JsonNode value = value(its, depth - 1);
                if (value != null) {
                    object.set(name, value);
                } else if (required.contains(name)) {
                    return null;
                }
            }
        }
        boolean open = !others.isMissingNode() || names.isEmpty();
        if (open && random.nextBoolean()) {
            JsonNode value = value(others.isMissingNode() ? MAKE.booleanNode(true) : others, depth - 1);
            if (value != null) {
                object.set("extra\"", value);
            }
        }
        return object;
    }

    private @Nullable JsonNode array(JsonNode schema, int depth) {
        ArrayNode array = MAKE.arrayNode();
        JsonNode first = schema.path("prefixItems");
        int min = schema.path("minItems").asInt(0);
        int size = random.nextInt(min, Math.max(min, schema.path("maxItems").asInt(4)) + 1);
        for (int i = 0; i < size; i++) {
            JsonNode items = schema.path("items");
            JsonNode value = value(i < first.size() ? first.get(i) : items.isMissingNode() ? MAKE.booleanNode(true) : items, depth - 1);
            if (value == null) {
                return i >= min ? array : null;
            }
            array.add(value);
        }
        return array;
    }

    /// @param style 0 without white space, 1 with a space after each colon and comma, 2 indented
    static String print(JsonNode value, int style) {
        StringBuilder out = new StringBuilder();
        print(value, style, "\n", out);
        return out.toString();
    }

    private static void print(JsonNode value, int style, String line, StringBuilder out) {
        String inner = style == 2 ? line + "  " : "";
        String comma = style == 1 ? ", " : "," + inner;
        if (value.isObject() && !value.isEmpty()) {
            String before = "{" + inner;
            for (var member : value.properties()) {
                out.append(before).append(JsonText.quote(member.getKey())).append(style == 0 ? ":" : ": ");
                print(member.getValue(), style, line + "  ", out);
                before = comma;
            }
            out.append(style == 2 ? line : "").append('}');
        } else if (value.isArray() && !value.isEmpty()) {
            String before = "[" + inner;
            for (JsonNode item : value) {
                out.append(before);
                print(item, style, line + "  ", out);
                before = comma;
            }
            out.append(style == 2 ? line : "").append(']');
        } else if (value.isTextual()) {
            out.append(JsonText.quote(value.textValue()));
        } else {
            out.append(value.isBigDecimal() && value.decimalValue().scale() < 8 ? value.decimalValue().toPlainString() : value.toString());
        }
    }
}

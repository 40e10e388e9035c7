package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.SplittableRandom;

/// Schemas as nobody would write them, of all words that are understood.
final class RandomSchemas {
    private static final JsonNodeFactory MAKE = JsonNodeFactory.instance;
    private static final List<String> NAMES = List.of("a", "b", "ab", "name", "é", "q\"\\\n", "id", "c", "<tool_call>", "\u0001");
    private static final List<String> DEFINITIONS = List.of("X", "Y/Z", "W~");
    private final SplittableRandom random;

    RandomSchemas(SplittableRandom random) {
        this.random = random;
    }

    ObjectNode next() {
        ObjectNode root = object(3);
        if (random.nextInt(4) == 0) {
            root = (ObjectNode) any(3, true);
        }
        ObjectNode definitions = root.putObject("$defs");
        for (String name : DEFINITIONS) {
            definitions.set(name, any(2, true));
        }
        return root;
    }

    private JsonNode any(int depth, boolean object) {
        JsonNode schema = pick(depth, object);
        if (schema instanceof ObjectNode node && random.nextInt(12) == 0) {
            node.put("title", "t").put("description", "d").put("format", "date");
        }
        return schema;
    }

    private JsonNode pick(int depth, boolean object) {
        int kind = random.nextInt(depth > 0 ? 16 : 8);
        return switch (kind) {
            case 0 -> string();
            case 1, 2 -> number();
            case 3 -> typed(random.nextBoolean() ? "boolean" : "null");
            case 4 -> values();
            case 5 -> {
                ObjectNode types = MAKE.objectNode();
                types.putArray("type").add("string").add("null").add(random.nextBoolean() ? "integer" : "boolean");
                yield types;
            }
            case 6 -> object || random.nextInt(3) > 0 ? string() : MAKE.booleanNode(random.nextInt(4) > 0);
            case 7 -> {
                ObjectNode reference = MAKE.objectNode();
                String name = DEFINITIONS.get(random.nextInt(DEFINITIONS.size()));
                yield reference.put("$ref", "#/$defs/" + name.replace("~", "~0").replace("/", "~1"));
            }
            case 8, 9, 10 -> object(depth);
            case 11, 12, 13 -> array(depth);
            case 14 -> alternatives("anyOf", depth);
            default -> random.nextInt(3) == 0 ? alternatives("oneOf", depth) : tagged(depth);
        };
    }

    private static ObjectNode typed(String type) {
        return MAKE.objectNode().put("type", type);
    }

    private ObjectNode string() {
        ObjectNode schema = typed("string");
        if (random.nextInt(3) == 0) {
            schema.put("minLength", random.nextInt(4));
        }
        if (random.nextInt(3) == 0) {
            schema.put("maxLength", random.nextInt(8));
        }
        if (random.nextInt(6) == 0) {
            schema.put("nullable", true);
        }
        return schema;
    }

    private ObjectNode number() {
        boolean integer = random.nextBoolean();
        ObjectNode schema = typed(integer ? "integer" : "number");
        if (random.nextInt(2) == 0) {
            schema.put(random.nextBoolean() ? "minimum" : "exclusiveMinimum", bound(integer));
        }
        if (random.nextInt(2) == 0) {
            schema.put(random.nextBoolean() ? "maximum" : "exclusiveMaximum", bound(integer));
        }
        return schema;
    }

    private java.math.BigDecimal bound(boolean integer) {
        int scale = integer && random.nextInt(4) > 0 ? 0 : random.nextInt(3);
        return java.math.BigDecimal.valueOf(random.nextInt(-300, 1200), scale);
    }

    private ObjectNode values() {
        ObjectNode schema = MAKE.objectNode();
        if (random.nextInt(4) == 0) {
            schema.set("const", value(2));
            return schema;
        }
        ArrayNode values = schema.putArray("enum");
        for (int i = random.nextInt(1, 5); i > 0; i--) {
            values.add(value(1));
        }
        return schema;
    }

    private JsonNode value(int depth) {
        return switch (random.nextInt(depth > 0 ? 8 : 6)) {
            case 0 -> MAKE.textNode(NAMES.get(random.nextInt(NAMES.size())));
            case 1 -> MAKE.textNode("red");
            case 2 -> MAKE.numberNode(random.nextInt(-20, 200));
            case 3 -> MAKE.numberNode(java.math.BigDecimal.valueOf(random.nextInt(1000), 2));
            case 4 -> MAKE.booleanNode(random.nextBoolean());
            case 5 -> MAKE.nullNode();
            case 6 -> MAKE.arrayNode().add(value(0)).add(value(depth - 1));
            default -> MAKE.objectNode().set("a", value(depth - 1));
        };
    }

    private ObjectNode object(int depth) {
        ObjectNode schema = typed("object");
        if (random.nextInt(8) == 0) {
            return schema;
        }
        if (random.nextInt(6) == 0) {
            schema.remove("type");
        }
        ObjectNode properties = schema.putObject("properties");
        ArrayNode required = MAKE.arrayNode();
        for (int i = random.nextInt(5); i > 0; i--) {
            String name = NAMES.get(random.nextInt(NAMES.size()));
            properties.set(name, any(depth - 1, false));
        }
        for (var property : properties.properties()) {
            if (random.nextBoolean()) {
                required.add(property.getKey());
            }
        }
        if (random.nextInt(10) == 0) {
            required.add("undeclared");
        }
        if (!required.isEmpty()) {
            schema.set("required", required);
        }
        switch (random.nextInt(4)) {
            case 0 -> schema.put("additionalProperties", false);
            case 1 -> schema.set("additionalProperties", any(depth - 1, false));
            default -> {}
        }
        return schema;
    }

    private ObjectNode array(int depth) {
        ObjectNode schema = typed("array");
        if (random.nextInt(3) == 0) {
            ArrayNode first = schema.putArray("prefixItems");
            for (int i = random.nextInt(3); i > 0; i--) {
                first.add(any(depth - 1, false));
            }
        }
        if (random.nextInt(4) > 0) {
            schema.set("items", any(depth - 1, false));
        }
        if (random.nextInt(3) == 0) {
            schema.put("minItems", random.nextInt(4));
        }
        if (random.nextInt(3) == 0) {
            schema.put("maxItems", random.nextInt(5));
        }
        return schema;
    }

    private ObjectNode alternatives(String word, int depth) {
        ObjectNode schema = MAKE.objectNode();
        ArrayNode list = schema.putArray(word);
        for (int i = random.nextInt(1, 4); i > 0; i--) {
            list.add(any(depth - 1, false));
        }
        return schema;
    }

    /// Objects that a constant tells apart.
    private ObjectNode tagged(int depth) {
        ObjectNode schema = MAKE.objectNode();
        ArrayNode list = schema.putArray("oneOf");
        for (String tag : List.of("red", "green")) {
            ObjectNode one = object(depth - 1);
            one.put("type", "object");
            if (!one.has("properties")) {
                one.putObject("properties");
            }
            ((ObjectNode) one.get("properties")).set("kind", MAKE.objectNode().put("const", tag));
            one.remove("required");
            one.putArray("required").add("kind");
            list.add(one);
        }
        return schema;
    }
}

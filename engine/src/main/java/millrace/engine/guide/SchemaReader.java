package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Makes rules of a JSON Schema. What it does not understand it refuses by name: nothing that restricts a value is passed over.
///
/// Each subschema becomes one shape, found by where it stands, so references may go in circles; they are read one after another from
/// a queue, not one within the other.
final class SchemaReader {
    /// Subschemas of one schema.
    static final int MAX_SHAPES = 4_096;

    /// Properties of one object, items with a schema of their own of one array.
    static final int MAX_MEMBERS = 1_000;

    /// Values of one `enum`.
    static final int MAX_VALUES = 2_000;

    /// Alternatives of one value, references looked through.
    static final int MAX_ALTERNATIVES = 64;

    /// Words that restrict nothing.
    static final Set<String> ANNOTATIONS = Set.of(
            "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
            "$schema", "$id", "format", "contentEncoding", "contentMediaType", "discriminator");

    static final Set<String> DEFINITIONS = Set.of("$defs", "definitions");
    static final Set<String> COMBINATIONS = Set.of("anyOf", "oneOf", "allOf", "$ref");
    static final Set<String> OBJECT = Set.of("properties", "required", "additionalProperties");
    static final Set<String> ARRAY = Set.of("items", "prefixItems", "minItems", "maxItems");
    static final Set<String> STRING = Set.of("minLength", "maxLength");
    static final Set<String> NUMBER = Set.of("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum");

    private static final List<String> TYPES =
            List.of("object", "array", "string", "number", "integer", "boolean", "null");

    private record Open(Shape shape, JsonNode schema) {}

    private final JsonNode root;
    private final AnyJson any;
    private final Map<String, Shape> shapes = new HashMap<>();
    private final Deque<Open> open = new ArrayDeque<>();
    private final List<OneOf> exclusive = new ArrayList<>();
    private final SchemaValues values = new SchemaValues(this);

    /// Alternatives of which a value may meet one only.
    private record OneOf(String where, List<Shape> alternatives) {}

    private SchemaReader(JsonNode root, AnyJson any) {
        this.root = root;
        this.any = any;
    }

    /// The shape of what a schema describes.
    ///
    /// @param any what stands for values of which the schema says nothing
    /// @throws millrace.engine.InvalidRequestException GUIDE_UNSUPPORTED, GUIDE_SCHEMA, GUIDE_LIMIT, GUIDE_UNSATISFIABLE
    static Shape read(JsonNode root, AnyJson any) {
        SchemaReader reader = new SchemaReader(root, any);
        Shape shape = reader.shape("#", root);
        reader.readAll();
        Linker.link(shape, reader.shapes.values());
        for (OneOf oneOf : reader.exclusive) {
            Apart.check(oneOf.where, oneOf.alternatives);
        }
        return shape;
    }

    /// Whether [Guard] may not stand in what is described.
    boolean guarded() {
        return any == AnyJson.GUARDED;
    }

    /// @throws millrace.engine.InvalidRequestException GUIDE_UNSUPPORTED for a text that would end the value that it stands in
    void requireUnguarded(String where, String text) {
        if (guarded() && text.contains(Guard.TEXT)) {
            throw Refusal.unsupported(where, Guard.TEXT);
        }
    }

    private void readAll() {
        for (Open next = open.poll(); next != null; next = open.poll()) {
            fill(next.shape, next.schema);
        }
    }

    /// The shape of a subschema, which is read later.
    Shape shape(String where, JsonNode schema) {
        Shape known = shapes.get(where);
        if (known != null) {
            return known;
        }
        if (shapes.size() == MAX_SHAPES) {
            throw Refusal.limit(where, "at most " + MAX_SHAPES + " subschemas", "more", "describe less");
        }
        Shape shape = new Shape(where);
        shapes.put(where, shape);
        open.add(new Open(shape, schema));
        return shape;
    }

    /// A shape for a part of a value that is given whole.
    Shape anonymous(String where) {
        Shape shape = shape(where + "/" + shapes.size() + " of a value", MissingNode.getInstance());
        open.removeLast();
        return shape;
    }

    private void fill(Shape shape, JsonNode schema) {
        if (schema.isBoolean()) {
            if (schema.booleanValue()) {
                shape.parts.add(any.value);
            }
            return;
        }
        if (!schema.isObject()) {
            throw Refusal.schema(shape.where, "an object, true or false", Refusal.kind(schema));
        }
        Set<String> words = words(shape.where, schema);
        Set<String> combined = among(words, COMBINATIONS);
        boolean literal = words.contains("enum") || words.contains("const");
        if (!combined.isEmpty()) {
            combine(shape, schema, words, combined.iterator().next());
        } else if (literal) {
            values.read(shape, schema, words);
        } else {
            typed(shape, schema, words);
        }
        if (nullable(shape.where, schema)) {
            shape.parts.add(LiteralRule.NULL);
        }
    }

    /// The words of a subschema that restrict.
    private static Set<String> words(String where, JsonNode schema) {
        Set<String> words = new LinkedHashSet<>();
        Iterator<String> names = schema.fieldNames();
        while (names.hasNext()) {
            String name = names.next();
            boolean known = COMBINATIONS.contains(name)
                    || OBJECT.contains(name)
                    || ARRAY.contains(name)
                    || STRING.contains(name)
                    || NUMBER.contains(name)
                    || name.equals("type")
                    || name.equals("enum")
                    || name.equals("const");
            boolean silent = ANNOTATIONS.contains(name) || DEFINITIONS.contains(name) || name.equals("nullable");
            if (known) {
                words.add(name);
            } else if (name.equals("uniqueItems") && schema.get(name).isBoolean() && !schema.get(name).booleanValue()) {
                continue;
            } else if (!silent) {
                throw Refusal.unsupported(where, name);
            }
        }
        return words;
    }

    private static Set<String> among(Set<String> words, Set<String> these) {
        Set<String> found = new LinkedHashSet<>(words);
        found.retainAll(these);
        return found;
    }

    private static boolean nullable(String where, JsonNode schema) {
        JsonNode nullable = schema.path("nullable");
        if (!nullable.isMissingNode() && !nullable.isBoolean()) {
            throw Refusal.schema(where + "/nullable", "true or false", Refusal.kind(nullable));
        }
        return nullable.asBoolean(false);
    }

    private void combine(Shape shape, JsonNode schema, Set<String> words, String word) {
        for (String other : words) {
            if (!other.equals(word)) {
                throw Refusal.unsupported(shape.where, other + "\" beside \"" + word);
            }
        }
        String where = shape.where + "/" + word;
        if (word.equals("$ref")) {
            shape.parts.add(referred(where, schema.get(word)));
            return;
        }
        JsonNode list = schema.get(word);
        if (!list.isArray() || list.isEmpty()) {
            throw Refusal.schema(where, "an array of at least one schema", Refusal.kind(list));
        }
        if (word.equals("allOf") && list.size() > 1) {
            throw Refusal.unsupported(shape.where, "allOf\" of more than one schema, got \"" + list.size());
        }
        List<Shape> alternatives = new ArrayList<>();
        for (int i = 0; i < list.size(); i++) {
            alternatives.add(shape(where + "/" + i, list.get(i)));
        }
        shape.parts.addAll(alternatives);
        if (word.equals("oneOf") && alternatives.size() > 1) {
            exclusive.add(new OneOf(where, alternatives));
        }
    }

    /// A reference within the schema.
    private Shape referred(String where, JsonNode reference) {
        if (!reference.isTextual()) {
            throw Refusal.schema(where, "a string", Refusal.kind(reference));
        }
        String text = reference.textValue();
        if (!text.equals("#") && !text.startsWith("#/")) {
            throw Refusal.unsupported(where, text);
        }
        JsonNode at = root;
        if (!text.equals("#")) {
            for (String name : text.substring(2).split("/", -1)) {
                String plain = Refusal.percentDecoded(name).replace("~1", "/").replace("~0", "~");
                at = at.isArray() && plain.matches("0|[1-9][0-9]{0,8}") ? at.path(Integer.parseInt(plain)) : at.path(plain);
            }
        }
        if (at.isMissingNode()) {
            throw Refusal.schema(where, "a place in the schema", "\"" + Refusal.cut(text) + "\"");
        }
        return shape(text, at);
    }

    private void typed(Shape shape, JsonNode schema, Set<String> words) {
        Set<String> types = types(shape.where, schema);
        if (types == null) {
            if (words.isEmpty()) {
                shape.parts.add(any.value);
                return;
            }
            shape.inferred = true;
            types = inferred(words);
        }
        for (String type : types) {
            Rule rule = switch (type) {
                case "object" -> object(shape.where, schema, words);
                case "array" -> array(shape.where, schema, words);
                case "string" -> values.string(shape.where, schema);
                case "integer" -> SchemaValues.number(shape.where, schema, true);
                case "number" -> SchemaValues.number(shape.where, schema, false);
                case "boolean" -> LiteralRule.BOOLEAN;
                default -> LiteralRule.NULL;
            };
            shape.parts.add(rule);
        }
    }

    /// The types that are written; null without any.
    static @Nullable Set<String> types(String where, JsonNode schema) {
        JsonNode type = schema.path("type");
        if (type.isMissingNode()) {
            return null;
        }
        Set<String> types = new LinkedHashSet<>();
        boolean list = type.isArray() && !type.isEmpty();
        for (JsonNode one : list ? type : List.of(type)) {
            if (!one.isTextual() || !TYPES.contains(one.textValue())) {
                throw Refusal.schema(where + "/type", String.join(", ", TYPES) + ", or a list of some", Refusal.shown(one));
            }
            types.add(one.textValue());
        }
        if (types.contains("number")) {
            types.remove("integer");
        }
        return types;
    }

    private static Set<String> inferred(Set<String> words) {
        Set<String> types = new LinkedHashSet<>();
        for (String word : words) {
            types.add(OBJECT.contains(word) ? "object"
                    : ARRAY.contains(word) ? "array" : STRING.contains(word) ? "string" : "number");
        }
        return types;
    }

    private Rule object(String where, JsonNode schema, Set<String> words) {
        if (among(words, OBJECT).isEmpty()) {
            return any.object;
        }
        Map<String, Shape> properties = new LinkedHashMap<>();
        JsonNode declared = schema.path("properties");
        if (!declared.isMissingNode() && !declared.isObject()) {
            throw Refusal.schema(where + "/properties", "an object", Refusal.kind(declared));
        }
        for (Map.Entry<String, JsonNode> property : declared.properties()) {
            Refusal.requireText(where + "/properties", property.getKey());
            requireUnguarded(where + "/properties", property.getKey());
            properties.put(property.getKey(), shape(where + "/properties/" + Refusal.escaped(property.getKey()), property.getValue()));
        }
        JsonNode additional = schema.path("additionalProperties");
        Shape others = additional.isMissingNode() ? any.value : others(where + "/additionalProperties", additional);
        Set<String> required = required(where + "/required", schema.path("required"));
        for (String name : required) {
            properties.computeIfAbsent(name, n -> others == null ? new Shape(where + "/required") : others);
        }
        if (properties.size() > MAX_MEMBERS) {
            throw Refusal.limit(where, "at most " + MAX_MEMBERS + " properties", String.valueOf(properties.size()), "declare fewer");
        }
        boolean[] needed = new boolean[properties.size()];
        int i = 0;
        for (String name : properties.keySet()) {
            needed[i++] = required.contains(name);
        }
        boolean closed = additional.isMissingNode() && !properties.isEmpty();
        return new ObjectRule(
                List.copyOf(properties.keySet()), List.copyOf(properties.values()), needed, closed ? null : others, others, false, guarded());
    }

    private @Nullable Shape others(String where, JsonNode schema) {
        return schema.isBoolean() && !schema.booleanValue() ? null : shape(where, schema);
    }

    private Set<String> required(String where, JsonNode names) {
        Set<String> required = new LinkedHashSet<>();
        if (!names.isMissingNode() && !names.isArray()) {
            throw Refusal.schema(where, "an array of strings", Refusal.kind(names));
        }
        for (JsonNode name : names) {
            if (!name.isTextual()) {
                throw Refusal.schema(where, "strings", Refusal.kind(name));
            }
            Refusal.requireText(where, name.textValue());
            requireUnguarded(where, name.textValue());
            required.add(name.textValue());
        }
        return required;
    }

    private Rule array(String where, JsonNode schema, Set<String> words) {
        if (among(words, ARRAY).isEmpty()) {
            return any.array;
        }
        JsonNode prefix = schema.path("prefixItems");
        if (!prefix.isMissingNode() && !prefix.isArray()) {
            throw Refusal.schema(where + "/prefixItems", "an array of schemas", Refusal.kind(prefix));
        }
        if (prefix.size() > MAX_MEMBERS) {
            throw Refusal.limit(where, "at most " + MAX_MEMBERS + " prefixItems", String.valueOf(prefix.size()), "declare fewer");
        }
        List<Shape> first = new ArrayList<>();
        for (int i = 0; i < prefix.size(); i++) {
            first.add(shape(where + "/prefixItems/" + i, prefix.get(i)));
        }
        JsonNode items = schema.path("items");
        if (items.isArray()) {
            throw Refusal.unsupported(where, "items\" as an array; say \"prefixItems");
        }
        Shape others = items.isMissingNode() ? any.value : others(where + "/items", items);
        int min = SchemaValues.count(where, schema, "minItems", 0);
        int max = SchemaValues.count(where, schema, "maxItems", ArrayRule.UNBOUNDED);
        return new ArrayRule(first, others, min, max, false);
    }
}

package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/// Tool declarations in TypeScript, as Kimi K2.5 was trained on them.
///
/// Keys are sorted throughout. If any schema has no such form, all tools are declared in compact JSON instead, which is
/// what the model's own tokenizer does.
final class TypeScriptTools {
    private TypeScriptTools() {}

    /// A schema that has no form in TypeScript.
    private static final class NoForm extends Exception {
        private static final long serialVersionUID = 1L;

        NoForm(String message) {
            super(message, null, false, false);
        }
    }

    static String declare(List<JsonNode> tools) {
        ArrayNode sorted = JsonNodeFactory.instance.arrayNode();
        tools.forEach(tool -> sorted.add(sort(tool)));
        try {
            List<String> functions = new ArrayList<>();
            for (JsonNode tool : sorted) {
                JsonNode function = tool.path("function");
                if (tool.path("type").asText().equals("function") && !function.isEmpty()) {
                    functions.add(function(function));
                }
            }
            if (!functions.isEmpty()) {
                return "# Tools\n\n## functions\nnamespace functions {\n" + String.join("\n", functions) + "\n}\n";
            }
        } catch (NoForm e) {
            // declared in JSON below
        }
        return PythonJson.dumps(sorted, ",", ":");
    }

    private static JsonNode sort(JsonNode node) {
        if (node.isArray()) {
            ArrayNode array = JsonNodeFactory.instance.arrayNode();
            node.forEach(item -> array.add(sort(item)));
            return array;
        }
        if (!node.isObject()) {
            return node;
        }
        ObjectNode object = JsonNodeFactory.instance.objectNode();
        node.properties().stream()
                .sorted(Map.Entry.comparingByKey(byCodePoint()))
                .forEach(entry -> object.set(entry.getKey(), sort(entry.getValue())));
        return object;
    }

    private static Comparator<String> byCodePoint() {
        return (a, b) -> java.util.Arrays.compare(
                a.codePoints().toArray(), b.codePoints().toArray());
    }

    private static String function(JsonNode function) throws NoForm {
        JsonNode parameters = function.path("parameters");
        boolean any = !parameters.isMissingNode() && !parameters.isNull() && !parameters.isEmpty();
        if (any && !parameters.isObject()) {
            throw new NoForm("parameters");
        }
        JsonNode schema = any ? parameters : JsonNodeFactory.instance.objectNode();
        return new Declaration(schema).write(function);
    }

    private static String comment(JsonNode description, String indent) throws NoForm {
        if (!description.isTextual()) {
            throw new NoForm("description");
        }
        List<String> lines = new ArrayList<>();
        for (String line : description.textValue().split("\n", -1)) {
            lines.add(line.isEmpty() ? "" : indent + "// " + line);
        }
        return String.join("\n", lines);
    }

    /// Whether Python counts the value as true.
    private static boolean truthy(JsonNode node) {
        return switch (node.getNodeType()) {
            case STRING -> !node.textValue().isEmpty();
            case BOOLEAN -> node.booleanValue();
            case NUMBER -> node.doubleValue() != 0;
            case OBJECT, ARRAY -> !node.isEmpty();
            default -> false;
        };
    }

    /// A scalar as Python's `str` prints it.
    private static String text(JsonNode node) throws NoForm {
        return switch (node.getNodeType()) {
            case STRING -> node.textValue();
            case BOOLEAN -> node.booleanValue() ? "True" : "False";
            case NUMBER -> PythonJson.number(node);
            case NULL -> "None";
            default -> throw new NoForm("a value that is no scalar");
        };
    }

    /// One function's schemas: its parameters, the definitions they may refer to.
    private static final class Declaration {
        private final JsonNode parameters;
        private final ObjectNode definitions = JsonNodeFactory.instance.objectNode();
        private boolean refersToItself;

        Declaration(JsonNode parameters) {
            this.parameters = parameters;
        }

        String write(JsonNode function) throws NoForm {
            String body = object(parameters, "");
            List<String> parts = new ArrayList<>();
            if (refersToItself) {
                List<String> fields = new ArrayList<>();
                List<String> required = required(parameters);
                for (Map.Entry<String, JsonNode> field :
                        parameters.path("properties").properties()) {
                    fields.add(field(field, required, "  "));
                }
                String inner = fields.isEmpty() ? "" : "\n" + String.join(",\n", fields) + "\n";
                parts.add("interface parameters {" + inner + "}");
                body = "parameters";
            }
            for (Map.Entry<String, JsonNode> definition : definitions.deepCopy().properties()) {
                JsonNode description = definition.getValue().path("description");
                String doc = truthy(description) ? comment(description, "") + "\n" : "";
                parts.add(doc + "interface " + definition.getKey() + " " + type(definition.getValue(), ""));
            }
            if (truthy(function.path("description"))) {
                parts.add(comment(function.path("description"), ""));
            }
            JsonNode name = function.path("name");
            parts.add("type %s = (_: %s) => any;".formatted(name.isMissingNode() ? "function" : text(name), body));
            return String.join("\n", parts);
        }

        private static List<String> required(JsonNode schema) {
            List<String> required = new ArrayList<>();
            schema.path("required").forEach(name -> required.add(name.asText()));
            return required;
        }

        private String object(JsonNode schema, String indent) throws NoForm {
            if (schema.has("$defs")) {
                if (!schema.path("$defs").isObject()) {
                    throw new NoForm("$defs");
                }
                definitions.setAll((ObjectNode) schema.path("$defs"));
            }
            JsonNode properties = schema.path("properties");
            if (!properties.isMissingNode() && !properties.isObject()) {
                throw new NoForm("properties");
            }
            List<String> required = required(schema);
            List<String> fields = new ArrayList<>();
            for (boolean wanted : new boolean[] {true, false}) {
                for (Map.Entry<String, JsonNode> field : properties.properties()) {
                    if (required.contains(field.getKey()) == wanted) {
                        fields.add(field(field, required, indent + "  "));
                    }
                }
            }
            JsonNode additional = schema.path("additionalProperties");
            if (!additional.isMissingNode() && !additional.isNull()) {
                fields.add(indent + "  [k: string]: " + additional(additional, indent + "  "));
            }
            return fields.isEmpty() ? "{}" : "{\n" + String.join(",\n", fields) + "\n" + indent + "}";
        }

        private String additional(JsonNode schema, String indent) throws NoForm {
            if (schema.isBoolean()) {
                return schema.booleanValue() ? "any" : "never";
            }
            if (!schema.isObject()) {
                throw new NoForm("additionalProperties");
            }
            return type(schema, indent);
        }

        private String field(Map.Entry<String, JsonNode> field, List<String> required, String indent) throws NoForm {
            JsonNode schema = field.getValue();
            StringBuilder out = new StringBuilder(docs(schema, indent));
            JsonNode value = schema.path("default");
            if (!value.isMissingNode() && !value.isNull()) {
                boolean plain = value.isNumber() || value.isBoolean();
                String shown = plain ? text(value) : PythonJson.dumps(value);
                out.append(indent).append("// Default: ").append(shown).append('\n');
            }
            String mark = required.contains(field.getKey()) ? "" : "?";
            return out + indent + field.getKey() + mark + ": " + type(schema, indent);
        }

        private static String docs(JsonNode schema, String indent) throws NoForm {
            if (!schema.isObject()) {
                return "";
            }
            StringBuilder out = new StringBuilder();
            if (truthy(schema.path("description"))) {
                out.append(comment(schema.path("description"), indent)).append('\n');
            }
            List<String> constraints = new ArrayList<>();
            for (String key : constraintKeys(schema)) {
                if (schema.has(key)) {
                    constraints.add(key + ": " + text(schema.path(key)));
                }
            }
            if (!constraints.isEmpty()) {
                out.append(indent)
                        .append("// ")
                        .append(String.join(", ", constraints))
                        .append('\n');
            }
            return out.toString();
        }

        /// Sorted, as they are printed.
        private static List<String> constraintKeys(JsonNode schema) {
            if (schema.has("$ref") || schema.has("anyOf") || schema.has("enum")) {
                return List.of();
            }
            return switch (schema.path("type").asText()) {
                case "string" -> List.of("maxLength", "minLength", "pattern");
                case "number", "integer" -> List.of("maximum", "minimum");
                case "array" -> List.of("maxItems", "minItems");
                default -> List.of();
            };
        }

        private String type(JsonNode schema, String indent) throws NoForm {
            if (schema.isBoolean()) {
                return schema.booleanValue() ? "any" : "null";
            }
            if (!schema.isObject()) {
                throw new NoForm("a schema that is no object");
            }
            if (schema.has("$ref")) {
                return reference(schema.path("$ref").asText());
            }
            if (schema.has("anyOf")) {
                List<String> types = new ArrayList<>();
                for (JsonNode option : schema.path("anyOf")) {
                    types.add(type(option, indent));
                }
                return String.join(" | ", types);
            }
            if (schema.has("enum")) {
                return enumeration(schema);
            }
            JsonNode type = schema.path("type");
            if (type.isMissingNode()) {
                if (schema.isEmpty()) {
                    return "any";
                }
                throw new NoForm("a schema without a type");
            }
            if (type.isArray()) {
                return union(type);
            }
            return switch (text(type)) {
                case "object" -> object(schema, indent);
                case "array" -> array(schema, indent);
                case "integer" -> "number";
                default -> text(type);
            };
        }

        private String reference(String ref) throws NoForm {
            if (ref.equals("#")) {
                refersToItself = true;
                return "parameters";
            }
            String name = ref.substring(ref.lastIndexOf('/') + 1);
            if (!ref.startsWith("#/$defs/") || !definitions.has(name)) {
                throw new NoForm("$ref");
            }
            return name;
        }

        private String array(JsonNode schema, String indent) throws NoForm {
            JsonNode items = schema.path("items");
            if (!truthy(items)) {
                return "Array<any>";
            }
            String docs = docs(items, indent + "  ");
            if (docs.isEmpty()) {
                return "Array<" + type(items, indent) + ">";
            }
            return "Array<\n" + docs + indent + "  " + type(items, indent + "  ") + "\n" + indent + ">";
        }

        private static String union(JsonNode types) throws NoForm {
            List<String> names = new ArrayList<>();
            for (JsonNode type : types) {
                names.add(
                        switch (type.asText()) {
                            case "string", "number", "boolean", "null" -> type.asText();
                            case "integer" -> "number";
                            case "object" -> "{}";
                            case "array" -> "Array<any>";
                            default -> throw new NoForm("an unknown type");
                        });
            }
            return String.join(" | ", names);
        }

        private static String enumeration(JsonNode schema) throws NoForm {
            String type = enumType(schema.path("type"));
            List<String> values = new ArrayList<>();
            for (JsonNode value : schema.path("enum")) {
                boolean fits = switch (type) {
                    case "string" -> value.isTextual();
                    case "number" -> value.isNumber() || value.isBoolean();
                    case "integer" -> value.isIntegralNumber() || value.isBoolean();
                    case "boolean" -> value.isBoolean();
                    default -> true;
                };
                if (!fits && !value.isNull()) {
                    throw new NoForm("an enum value of another type");
                }
                values.add(value.isTextual() ? "\"" + value.textValue() + "\"" : text(value));
            }
            return String.join(" | ", values);
        }

        private static String enumType(JsonNode type) throws NoForm {
            if (!type.isArray()) {
                return type.asText();
            }
            String first = type.path(0).asText();
            String second = type.path(1).asText();
            if (type.size() == 1) {
                return first;
            }
            if (type.size() != 2 || !first.equals("null") && !second.equals("null")) {
                throw new NoForm("an enum of several types");
            }
            return first.equals("null") ? second : first;
        }
    }
}

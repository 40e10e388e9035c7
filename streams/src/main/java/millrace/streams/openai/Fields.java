package millrace.streams.openai;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// The fields of one object, taken one by one: what nobody took is refused at the end. Absent and null are the same.
public final class Fields {
    private static final int QUOTED_CHARS = 64;

    private final ObjectNode object;
    private final String path;
    private final Set<String> taken = new HashSet<>();

    /// @param path of the object within the body, empty for the body itself
    public Fields(ObjectNode object, String path) {
        this.object = object;
        this.path = path;
    }

    /// The fields of a value that must be an object.
    static Fields of(JsonNode node, String path) {
        if (node instanceof ObjectNode object) {
            return new Fields(object, path);
        }
        throw ApiException.wrongType(path, "an object", Json.kind(node));
    }

    /// Path of a field.
    String path(String name) {
        return path.isEmpty() ? name : path + "." + name;
    }

    @Nullable JsonNode value(String name) {
        taken.add(name);
        JsonNode value = object.get(name);
        return value == null || value.isNull() ? null : value;
    }

    public @Nullable String text(String name) {
        JsonNode value = value(name);
        if (value != null && !value.isTextual()) {
            throw ApiException.wrongType(path(name), "a string", Json.kind(value));
        }
        return value == null ? null : value.textValue();
    }

    public String requiredText(String name) {
        String text = text(name);
        if (text == null) {
            throw ApiException.missing(path(name), "a string");
        }
        return text;
    }

    @Nullable Long longInteger(String name, long from, long to) {
        JsonNode value = value(name);
        if (value == null) {
            return null;
        }
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            throw ApiException.wrongType(path(name), "a whole number", Json.kind(value));
        }
        if (value.longValue() < from || value.longValue() > to) {
            throw ApiException.wrongValue(path(name), "expected " + from + " to " + to + ", got " + value.longValue());
        }
        return value.longValue();
    }

    @Nullable Integer integer(String name, int from, int to) {
        Long value = longInteger(name, from, to);
        return value == null ? null : value.intValue();
    }

    float number(String name, double from, double to, float missing) {
        JsonNode value = value(name);
        if (value == null) {
            return missing;
        }
        if (!value.isNumber()) {
            throw ApiException.wrongType(path(name), "a number", Json.kind(value));
        }
        if (!(value.doubleValue() >= from && value.doubleValue() <= to)) {
            throw ApiException.wrongValue(path(name), "expected " + from + " to " + to + ", got " + value.asText());
        }
        return value.floatValue();
    }

    @Nullable Boolean flag(String name) {
        JsonNode value = value(name);
        if (value != null && !value.isBoolean()) {
            throw ApiException.wrongType(path(name), "true or false", Json.kind(value));
        }
        return value == null ? null : value.booleanValue();
    }

    @Nullable ArrayNode array(String name) {
        JsonNode value = value(name);
        if (value == null) {
            return null;
        }
        if (value instanceof ArrayNode array) {
            return array;
        }
        throw ApiException.wrongType(path(name), "an array", Json.kind(value));
    }

    public @Nullable ObjectNode object(String name) {
        JsonNode value = value(name);
        if (value == null) {
            return null;
        }
        if (value instanceof ObjectNode node) {
            return node;
        }
        throw ApiException.wrongType(path(name), "an object", Json.kind(value));
    }

    /// The fields of an object that is there, or null.
    @Nullable Fields fields(String name) {
        ObjectNode value = object(name);
        return value == null ? null : new Fields(value, path(name));
    }

    /// Refuses a field that is set to anything but the value that says nothing.
    void refuse(String name, String why) {
        if (value(name) != null) {
            throw ApiException.unsupported(path(name), why);
        }
    }

    /// Refuses every field that was not asked for.
    public void refuseTheRest() {
        for (Iterator<String> names = object.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            if (!taken.contains(name)) {
                throw ApiException.invalid("unknown_parameter", path(cut(name)), path(cut(name))
                        + ": not a parameter of this interface; check its spelling or leave it out");
            }
        }
    }

    /// A value of the client's that may stand in a message.
    static String cut(String text) {
        String printable = text.replaceAll("\\p{Cntrl}", "?");
        return printable.length() > QUOTED_CHARS ? printable.substring(0, QUOTED_CHARS) + "…" : printable;
    }
}

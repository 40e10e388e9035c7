package millrace.engine.model;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// One object of a config file; every read names the key, checks type and range, and takes null for absent.
///
/// @param where file and path of the object, for messages
record ConfigSection(String where, JsonNode node) {

    boolean has(String key) {
        return node.hasNonNull(key);
    }

    ConfigSection empty() {
        return new ConfigSection(where, JsonNodeFactory.instance.objectNode());
    }

    /// The object under the key, or null if there is none.
    @Nullable ConfigSection section(String key) {
        if (!has(key)) {
            return null;
        }
        if (!node.get(key).isObject()) {
            throw type(key, "an object");
        }
        return new ConfigSection(where + "." + key, node.get(key));
    }

    /// The newer or older spelling of a key, whichever is there.
    ///
    /// @throws InvalidModelException if both are there and differ
    String alias(String key, String other) {
        if (has(key) && has(other) && !node.get(key).equals(node.get(other))) {
            throw error("CONFIG_RANGE", other, "the same as " + key, "another value", "restore the file");
        }
        return !has(key) && has(other) ? other : key;
    }

    int integer(String key, int min, int max) {
        return integer(key, require(key), min, max);
    }

    int integerOr(String key, int min, int max, int absent) {
        return has(key) ? integer(key, min, max) : absent;
    }

    /// A number or a list of them; empty if absent.
    List<Integer> integers(String key, int min, int max) {
        var values = new ArrayList<Integer>();
        if (has(key)) {
            JsonNode value = node.get(key);
            if (value.isArray()) {
                value.forEach(one -> values.add(integer(key, one, min, max)));
            } else {
                values.add(integer(key, value, min, max));
            }
        }
        return values;
    }

    private int integer(String key, JsonNode value, int min, int max) {
        if (!value.isIntegralNumber()) {
            throw type(key, "a whole number");
        }
        if (!value.canConvertToInt() || value.intValue() < min || value.intValue() > max) {
            throw range(key, "a whole number from " + min + " to " + max, value.numberValue());
        }
        return value.intValue();
    }

    double number(String key, double min, double max) {
        JsonNode value = require(key);
        if (!value.isNumber()) {
            throw type(key, "a number");
        }
        double number = value.doubleValue();
        // Written so that NaN is refused too.
        if (!(number >= min && number <= max)) {
            throw range(key, "a number from " + min + " to " + max, number);
        }
        return number;
    }

    double numberOr(String key, double min, double max, double absent) {
        return has(key) ? number(key, min, max) : absent;
    }

    @Nullable Double numberOrNull(String key, double min, double max) {
        return has(key) ? number(key, min, max) : null;
    }

    boolean flag(String key, boolean absent) {
        if (!has(key)) {
            return absent;
        }
        if (!node.get(key).isBoolean()) {
            throw type(key, "true or false");
        }
        return node.get(key).booleanValue();
    }

    String text(String key) {
        JsonNode value = require(key);
        if (!value.isTextual()) {
            throw type(key, "a string");
        }
        return value.textValue();
    }

    String textOr(String key, String absent) {
        return has(key) ? text(key) : absent;
    }

    /// The strings of a list; empty if absent.
    List<String> texts(String key) {
        var values = new ArrayList<String>();
        if (has(key)) {
            JsonNode list = node.get(key);
            if (!list.isArray()) {
                throw type(key, "a list of strings");
            }
            for (JsonNode one : list) {
                if (!one.isTextual()) {
                    throw type(key, "a list of strings");
                }
                values.add(one.textValue());
            }
        }
        return values;
    }

    private JsonNode require(String key) {
        if (!has(key)) {
            throw error("CONFIG_MISSING", key, "a value", "none", "restore the file");
        }
        return node.get(key);
    }

    private InvalidModelException type(String key, String expected) {
        return error("CONFIG_TYPE", key, expected, "another kind of value", "restore the file");
    }

    InvalidModelException range(String key, String expected, Number got) {
        String text = got.toString();
        return error(
                "CONFIG_RANGE",
                key,
                expected,
                text.length() > 40 ? text.substring(0, 40) + "..." : text,
                "restore the file");
    }

    InvalidModelException error(String code, String key, String expected, String got, String advice) {
        return new InvalidModelException(
                code, where + ": " + key + ": expected " + expected + ", got " + got + "; " + advice);
    }
}

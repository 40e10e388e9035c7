package millrace.engine.tokenizer;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.Iterator;
import java.util.Map;
import millrace.engine.InvalidRequestException;

/// JSON of a request, read within limits and written as Python's `json.dumps(value, ensure_ascii=False)` does, which
/// is what the models saw in training.
final class PythonJson {
    static final int MAX_CHARS = 1 << 20;
    static final int MAX_DEPTH = 64;

    private static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxStringLength(MAX_CHARS)
                            .maxNameLength(1 << 16)
                            .maxNumberLength(400)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    private PythonJson() {}

    /// @throws InvalidRequestException TOOLS_INVALID if the text is too long, too deep, or not one JSON value
    static JsonNode parse(String where, String json) {
        if (json.length() > MAX_CHARS) {
            throw invalid(where, "at most " + MAX_CHARS + " characters", String.valueOf(json.length()));
        }
        try {
            JsonNode node = MAPPER.readTree(json);
            return node == null ? JsonNodeFactory.instance.missingNode() : node;
        } catch (JacksonException e) {
            throw invalid(where, "JSON, nested at most " + MAX_DEPTH + " deep, keys once", e.getOriginalMessage());
        }
    }

    static InvalidRequestException invalid(String where, String expected, String got) {
        return new InvalidRequestException("TOOLS_INVALID", "%s: expected %s, got %s".formatted(where, expected, got));
    }

    static String dumps(JsonNode node) {
        return dumps(node, ", ", ": ");
    }

    static String dumps(JsonNode node, String comma, String colon) {
        StringBuilder out = new StringBuilder();
        write(node, comma, colon, out);
        return out.toString();
    }

    private static void write(JsonNode node, String comma, String colon, StringBuilder out) {
        switch (node.getNodeType()) {
            case OBJECT -> {
                out.append('{');
                Iterator<Map.Entry<String, JsonNode>> fields = node.properties().iterator();
                while (fields.hasNext()) {
                    Map.Entry<String, JsonNode> field = fields.next();
                    quote(field.getKey(), out);
                    out.append(colon);
                    write(field.getValue(), comma, colon, out);
                    out.append(fields.hasNext() ? comma : "");
                }
                out.append('}');
            }
            case ARRAY -> {
                out.append('[');
                for (int i = 0; i < node.size(); i++) {
                    out.append(i == 0 ? "" : comma);
                    write(node.get(i), comma, colon, out);
                }
                out.append(']');
            }
            case STRING -> quote(node.textValue(), out);
            case NUMBER -> out.append(number(node));
            case BOOLEAN -> out.append(node.booleanValue());
            default -> out.append("null");
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"' -> out.append("\\\"");
                case '\\' -> out.append("\\\\");
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                case '\b' -> out.append("\\b");
                case '\f' -> out.append("\\f");
                default -> {
                    if (c < 0x20) {
                        out.append("\\u%04x".formatted((int) c));
                    } else {
                        out.append(c);
                    }
                }
            }
        }
        out.append('"');
    }

    /// A number as Python's `repr`.
    static String number(JsonNode node) {
        return node.isIntegralNumber() ? node.bigIntegerValue().toString() : number(node.doubleValue());
    }

    /// A double as Python's `repr`: the shortest digits, an exponent below 1e-4 and from 1e16 on.
    static String number(double value) {
        if (Double.isInfinite(value)) {
            return value > 0 ? "Infinity" : "-Infinity";
        }
        if (value == 0) {
            return 1 / value < 0 ? "-0.0" : "0.0";
        }
        BigDecimal decimal = shortest(Math.abs(value));
        String digits = decimal.unscaledValue().toString();
        int exponent = digits.length() - 1 - decimal.scale();
        String sign = value < 0 ? "-" : "";
        if (exponent < -4 || exponent >= 16) {
            String fraction = digits.length() == 1 ? "" : "." + digits.substring(1);
            return "%s%s%se%s%02d"
                    .formatted(sign, digits.charAt(0), fraction, exponent < 0 ? "-" : "+", Math.abs(exponent));
        }
        String plain = decimal.toPlainString();
        return sign + (plain.indexOf('.') < 0 ? plain + ".0" : plain);
    }

    /// The shortest decimal that reads back as the value; Java's own has two digits at least.
    private static BigDecimal shortest(double value) {
        BigDecimal decimal = new BigDecimal(Double.toString(value)).stripTrailingZeros();
        if (decimal.precision() == 2) {
            BigDecimal one = decimal.setScale(decimal.scale() - 1, RoundingMode.HALF_EVEN);
            if (one.doubleValue() == value) {
                return one.stripTrailingZeros();
            }
        }
        return decimal;
    }
}

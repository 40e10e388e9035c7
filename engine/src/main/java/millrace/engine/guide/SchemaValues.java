package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Makes rules of what a schema says of scalars, and of values that are given whole.
final class SchemaValues {
    /// The most that a length or a number of items may be bounded by.
    static final int MAX_COUNT = 1_000_000;

    private final SchemaReader reader;

    SchemaValues(SchemaReader reader) {
        this.reader = reader;
    }

    Rule string(String where, JsonNode schema) {
        int min = count(where, schema, "minLength", 0);
        int max = count(where, schema, "maxLength", StringRule.UNBOUNDED);
        return max != StringRule.UNBOUNDED && min > max ? NOTHING : new StringRule(min, max, reader.guarded());
    }

    /// No value at all.
    private static final Rule NOTHING = new RangeRule(true, BigDecimal.ONE, true, BigDecimal.ZERO, true);

    static int count(String where, JsonNode schema, String word, int absent) {
        JsonNode count = schema.path(word);
        if (count.isMissingNode()) {
            return absent;
        }
        if (!count.isNumber() || count.decimalValue().signum() < 0 || !whole(count.decimalValue())) {
            throw Refusal.schema(where + "/" + word, "a number of 0, 1, 2, …", Refusal.shown(count));
        }
        if (count.decimalValue().compareTo(BigDecimal.valueOf(MAX_COUNT)) > 0) {
            throw Refusal.limit(where + "/" + word, "at most " + MAX_COUNT, Refusal.shown(count), "lower it or leave it out");
        }
        return count.decimalValue().intValueExact();
    }

    static boolean whole(BigDecimal number) {
        return number.signum() == 0 || number.stripTrailingZeros().scale() <= 0;
    }

    static Rule number(String where, JsonNode schema, boolean integer) {
        BigDecimal low = bound(where, schema, "minimum");
        BigDecimal aboveLow = bound(where, schema, "exclusiveMinimum");
        BigDecimal high = bound(where, schema, "maximum");
        BigDecimal belowHigh = bound(where, schema, "exclusiveMaximum");
        if (low == null && aboveLow == null && high == null && belowHigh == null) {
            return integer ? NumberRule.INTEGER : NumberRule.ANY;
        }
        boolean lowInclusive = aboveLow == null || low != null && low.compareTo(aboveLow) > 0;
        boolean highInclusive = belowHigh == null || high != null && high.compareTo(belowHigh) < 0;
        return new RangeRule(
                integer, lowInclusive ? low : aboveLow, lowInclusive, highInclusive ? high : belowHigh, highInclusive);
    }

    private static @Nullable BigDecimal bound(String where, JsonNode schema, String word) {
        JsonNode bound = schema.path(word);
        if (bound.isMissingNode()) {
            return null;
        }
        if (!bound.isNumber()) {
            throw Refusal.schema(where + "/" + word, "a number", Refusal.kind(bound));
        }
        BigDecimal value = bound.decimalValue();
        // Of 1e999999999 neither the digits nor those of a neighbour are ever written out.
        boolean sized = value.signum() == 0
                || value.precision() - (long) value.scale() <= NumberRule.MAX_DIGITS + 1
                        && value.stripTrailingZeros().scale() <= RangeRule.MAX_BOUND_SCALE;
        if (!sized) {
            throw Refusal.limit(where + "/" + word,
                    "a number of at most " + (NumberRule.MAX_DIGITS + 1) + " digits before the point and "
                            + RangeRule.MAX_BOUND_SCALE + " behind it",
                    Refusal.shown(bound), "round it");
        }
        return value.signum() == 0 ? BigDecimal.ZERO : value;
    }

    /// What `enum` or `const` allow, of the types that stand beside.
    void read(Shape shape, JsonNode schema, Set<String> words) {
        for (String word : words) {
            if (!Set.of("enum", "const", "type").contains(word)) {
                throw Refusal.unsupported(shape.where, word + "\" beside \"" + (words.contains("enum") ? "enum" : "const"));
            }
        }
        if (words.contains("enum") && words.contains("const")) {
            throw Refusal.unsupported(shape.where, "const\" beside \"enum");
        }
        Set<String> types = SchemaReader.types(shape.where, schema);
        JsonNode list = schema.path("enum");
        if (words.contains("enum") && (!list.isArray() || list.isEmpty())) {
            throw Refusal.schema(shape.where + "/enum", "an array of at least one value", Refusal.kind(list));
        }
        if (list.size() > SchemaReader.MAX_VALUES) {
            throw Refusal.limit(shape.where + "/enum", "at most " + SchemaReader.MAX_VALUES + " values",
                    String.valueOf(list.size()), "name fewer");
        }
        List<JsonNode> given = new ArrayList<>();
        if (words.contains("const")) {
            given.add(schema.get("const"));
        } else {
            list.forEach(given::add);
        }
        values(shape, given.stream().filter(value -> types == null || isOf(value, types)).toList());
    }

    private static boolean isOf(JsonNode value, Set<String> types) {
        String type = switch (value.getNodeType()) {
            case OBJECT -> "object";
            case ARRAY -> "array";
            case STRING -> "string";
            case BOOLEAN -> "boolean";
            case NUMBER -> "number";
            default -> "null";
        };
        return types.contains(type) || type.equals("number") && types.contains("integer") && whole(value.decimalValue());
    }

    private void values(Shape shape, List<JsonNode> given) {
        Map<String, JsonNode> texts = new LinkedHashMap<>();
        for (JsonNode value : given) {
            switch (value.getNodeType()) {
                case OBJECT -> shape.parts.add(object(shape.where, value));
                case ARRAY -> shape.parts.add(array(shape.where, value));
                case STRING -> {
                    Refusal.requireText(shape.where, value.textValue());
                    reader.requireUnguarded(shape.where, value.textValue());
                    texts.put(JsonText.quote(value.textValue()), value);
                }
                // As it is written: 1.0 is not made 1.
                default -> texts.put(value.toString(), value);
            }
        }
        if (!texts.isEmpty()) {
            shape.parts.add(new LiteralRule(List.copyOf(texts.keySet()), List.copyOf(texts.values())));
        }
    }

    private Rule object(String where, JsonNode value) {
        List<String> names = new ArrayList<>();
        List<Shape> shapes = new ArrayList<>();
        for (Map.Entry<String, JsonNode> property : value.properties()) {
            Refusal.requireText(where, property.getKey());
            reader.requireUnguarded(where, property.getKey());
            names.add(property.getKey());
            shapes.add(whole(where, property.getValue()));
        }
        boolean[] required = new boolean[names.size()];
        java.util.Arrays.fill(required, true);
        return new ObjectRule(names, shapes, required, null, null, false, reader.guarded());
    }

    private Rule array(String where, JsonNode value) {
        List<Shape> items = new ArrayList<>();
        value.forEach(item -> items.add(whole(where, item)));
        return new ArrayRule(items, null, items.size(), items.size(), false);
    }

    private Shape whole(String where, JsonNode value) {
        Shape shape = reader.anonymous(where);
        values(shape, List.of(value));
        return shape;
    }
}

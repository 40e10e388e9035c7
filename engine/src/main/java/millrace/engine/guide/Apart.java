package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Whether alternatives exclude one another. A value that meets two of `oneOf` is not valid, so its alternatives are only taken
/// where no value that is made of one can meet another: by type, by constants, by lengths, or by what their properties and items are.
///
/// What is made and what is allowed differ: objects that declare properties get no others, though the schema allows them.
final class Apart {
    /// How deep properties are compared.
    private static final int MAX_LEVELS = 8;

    private Apart() {}

    /// @throws millrace.engine.InvalidRequestException GUIDE_UNSUPPORTED for two that are not known to exclude one another
    static void check(String where, List<Shape> alternatives) {
        for (int i = 0; i < alternatives.size(); i++) {
            for (int j = 0; j < i; j++) {
                Shape a = alternatives.get(j);
                Shape b = alternatives.get(i);
                if (!apart(a, b, 0)) {
                    throw Refusal.overlap(where, j, i);
                }
            }
        }
    }

    private static boolean apart(Shape a, Shape b, int level) {
        if (level > MAX_LEVELS || inferred(a) || inferred(b)) {
            return false;
        }
        for (Rule one : a.rules()) {
            for (Rule other : b.rules()) {
                if (!apart(one, other, level)) {
                    return false;
                }
            }
        }
        return true;
    }

    private static boolean inferred(Shape shape) {
        return shape.hasInferred();
    }

    private static boolean apart(Rule a, Rule b, int level) {
        if (a instanceof LiteralRule literal) {
            return literal.values().stream().allMatch(value -> excludes(b, value));
        }
        if (b instanceof LiteralRule literal) {
            return literal.values().stream().allMatch(value -> excludes(a, value));
        }
        if (a instanceof ObjectRule one && b instanceof ObjectRule other) {
            return objects(one, other, level) && objects(other, one, level);
        }
        if (a instanceof ArrayRule one && b instanceof ArrayRule other) {
            return arrays(one, other, level);
        }
        if (a instanceof StringRule one && b instanceof StringRule other) {
            return shorter(one, other) || shorter(other, one);
        }
        return kind(a) != kind(b);
    }

    private static int kind(Rule rule) {
        return switch (rule) {
            case StringRule s -> 0;
            case NumberRule n -> 1;
            case RangeRule r -> 1;
            case ObjectRule o -> 2;
            case ArrayRule a -> 3;
            case LiteralRule l -> 4;
            case KeyRule k -> 5;
            case RawRule w -> 5;
            case PairsRule p -> 5;
            case Whole d -> 5;
        };
    }

    private static boolean shorter(StringRule a, StringRule b) {
        return a.maxLength() != StringRule.UNBOUNDED && a.maxLength() < b.minLength();
    }

    /// Whether the rule's schema does not allow this scalar.
    private static boolean excludes(Rule rule, JsonNode value) {
        return switch (rule) {
            case StringRule string -> {
                int length = value.isTextual() ? value.textValue().codePointCount(0, value.textValue().length()) : -1;
                yield length < string.minLength() || string.maxLength() != StringRule.UNBOUNDED && length > string.maxLength();
            }
            case NumberRule number -> !value.isNumber() || number.integer() && !SchemaValues.whole(value.decimalValue());
            case RangeRule range -> !value.isNumber();
            case LiteralRule literal -> literal.values().stream().noneMatch(other -> equal(other, value));
            case ObjectRule object -> true;
            case ArrayRule array -> true;
            case KeyRule key -> true;
            case RawRule raw -> true;
            case PairsRule pairs -> true;
            case Whole whole -> true;
        };
    }

    private static boolean equal(JsonNode a, JsonNode b) {
        return a.isNumber() && b.isNumber() ? number(a).compareTo(number(b)) == 0 : a.equals(b);
    }

    private static BigDecimal number(JsonNode node) {
        return node.decimalValue();
    }

    /// Whether no object that is made by one rule is allowed by the other's schema.
    private static boolean objects(ObjectRule made, ObjectRule allowed, int level) {
        for (int i = 0; i < allowed.names.size(); i++) {
            if (allowed.required[i]) {
                Shape value = value(made, allowed.names.get(i));
                if (value == null || apart(value, allowed.values.get(i), level + 1)) {
                    return true;
                }
            }
        }
        for (int i = 0; i < made.names.size(); i++) {
            if (made.required[i]) {
                int there = allowed.names.indexOf(made.names.get(i));
                Shape value = there < 0 ? allowed.othersByTheLetter : allowed.values.get(there);
                if (value == null || apart(made.values.get(i), value, level + 1)) {
                    return true;
                }
            }
        }
        return false;
    }

    /// What a property is like in objects that are made; null if they never have it.
    private static @Nullable Shape value(ObjectRule made, String name) {
        int index = made.names.indexOf(name);
        return index < 0 ? made.others : made.values.get(index);
    }

    private static boolean arrays(ArrayRule a, ArrayRule b, int level) {
        if (fewer(a, b) || fewer(b, a)) {
            return true;
        }
        for (int i = 0; i < Math.min(Math.min(a.minItems, b.minItems), Math.max(a.first.size(), b.first.size()) + 1); i++) {
            Shape one = a.item(i);
            Shape other = b.item(i);
            if (one == null || other == null || apart(one, other, level + 1)) {
                return true;
            }
        }
        return false;
    }

    private static boolean fewer(ArrayRule a, ArrayRule b) {
        return a.maxItems != ArrayRule.UNBOUNDED && a.maxItems < b.minItems;
    }
}

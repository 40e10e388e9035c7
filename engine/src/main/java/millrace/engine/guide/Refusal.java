package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import millrace.engine.InvalidRequestException;

/// What is said of a schema that cannot be held to.
final class Refusal {
    private static final int SHOWN = 60;

    private Refusal() {}

    static InvalidRequestException unsupported(String where, String word) {
        return new InvalidRequestException("GUIDE_UNSUPPORTED",
                "response_format: schema at %s: expected words that a completion can be held to, got \"%s\"; leave it out or say it otherwise, see docs/response-formats.md"
                        .formatted(cut(where), cut(word)));
    }

    static InvalidRequestException schema(String where, String expected, String got) {
        return new InvalidRequestException("GUIDE_SCHEMA",
                "response_format: schema at %s: expected %s, got %s; write a valid JSON Schema".formatted(cut(where), expected, got));
    }

    static InvalidRequestException limit(String where, String expected, String got, String then) {
        return new InvalidRequestException("GUIDE_LIMIT",
                "response_format: schema at %s: expected %s, got %s; %s".formatted(cut(where), expected, got, then));
    }

    static InvalidRequestException unsatisfiable(String where) {
        return new InvalidRequestException("GUIDE_UNSATISFIABLE",
                "response_format: schema at %s: expected one that some value meets, nested at most %d deep, got one that none does; relax it"
                        .formatted(cut(where), Guide.MAX_DEPTH));
    }

    static InvalidRequestException overlap(String where, int one, int other) {
        return new InvalidRequestException("GUIDE_UNSUPPORTED",
                "response_format: schema at %s: expected alternatives of which no value meets two, told apart by type, constants or required properties, got %d and %d; say anyOf, or give them a property with a constant each"
                        .formatted(cut(where), one, other));
    }

    static String kind(JsonNode node) {
        return node.isMissingNode() ? "nothing" : node.isEmpty() && node.isContainerNode()
                ? "an empty " + node.getNodeType().toString().toLowerCase(Locale.ROOT)
                : "a value of kind " + node.getNodeType().toString().toLowerCase(Locale.ROOT);
    }

    static String shown(JsonNode node) {
        return cut(node.toString());
    }

    static String cut(String text) {
        String line = text.replaceAll("\\p{Cntrl}", "?");
        return line.length() <= SHOWN ? line : line.substring(0, SHOWN) + "…";
    }

    /// A lone surrogate cannot be written in UTF-8.
    static void requireText(String where, String text) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw schema(where, "strings that UTF-8 can hold", "a lone surrogate");
        }
    }

    /// A name as a step of a JSON pointer in a reference.
    static String escaped(String name) {
        return name.replace("~", "~0").replace("/", "~1");
    }

    static String percentDecoded(String name) {
        try {
            return name.indexOf('%') < 0 ? name : URLDecoder.decode(name.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            return name;
        }
    }
}

package millrace.engine.guide;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import millrace.engine.InvalidRequestException;
import org.jspecify.annotations.Nullable;

/// A form that completions are held to: read, checked, and ready to be walked.
///
/// [#read] may be called from any thread; a walk belongs to the thread that owns [GuideEngine].
public final class Guide {
    /// Objects and arrays, one within the other.
    public static final int MAX_DEPTH = 64;

    /// Characters of a schema.
    public static final int MAX_CHARACTERS = 1 << 16;

    static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(100)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .build();

    private final Whole document;
    private final int need;
    private @Nullable States states;

    private Guide(Whole document, int need) {
        this.document = document;
        this.need = need;
    }

    /// @param need see [#need]
    static Guide of(Whole document, int need) {
        return new Guide(document, need);
    }

    /// One JSON object, whatever it holds.
    static Guide anyObject() {
        return new Guide(AnyJson.DOCUMENT, AnyJson.need());
    }

    /// What a JSON Schema describes.
    ///
    /// @throws InvalidRequestException GUIDE_SCHEMA, GUIDE_UNSUPPORTED, GUIDE_UNSATISFIABLE, GUIDE_LIMIT
    static Guide read(String schema) {
        if (schema.length() > MAX_CHARACTERS) {
            throw Refusal.limit("#", "at most " + MAX_CHARACTERS + " characters", String.valueOf(schema.length()), "describe less");
        }
        JsonNode root;
        try {
            root = MAPPER.readTree(schema);
        } catch (JacksonException e) {
            // The parser's own words may quote what the request says.
            throw Refusal.schema("#", "JSON, nested at most " + MAX_DEPTH + " deep, keys once", "other text");
        }
        Shape shape = SchemaReader.read(root, AnyJson.PLAIN);
        return new Guide(new DocumentRule(shape, false), Linker.need(shape));
    }

    Whole document() {
        return document;
    }

    /// The largest depth of a value that may stand anywhere: with as much left, nothing is cut off.
    int need() {
        return need;
    }

    /// The states of this form, on the thread that walks.
    States states(States shared) {
        if (states == null) {
            states = document.shared() ? shared : States.of(shared, need);
        }
        return states;
    }
}

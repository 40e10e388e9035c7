package millrace.engine.guide;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import millrace.engine.ResponseFormat;
import millrace.engine.reply.CallSyntax;
import millrace.engine.tokenizer.Reasoning;
import millrace.engine.tokenizer.Tokenizer;
import org.jspecify.annotations.Nullable;

/// What the guided completions of one model share: the vocabulary as a tree, forms that were read before, and masks.
///
/// [#guide] may be called from any thread. [#start] and the runs that it gives belong to one thread, the engine's.
public final class GuideEngine {
    /// Forms that are kept, each with the states that were met.
    private static final int MAX_GUIDES = 32;

    private final Tokenizer tokenizer;
    private final int vocabSize;
    private final Set<Integer> stopTokens;
    private final @Nullable CallSyntax calls;
    private final Map<String, Guide> guides = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Guide> eldest) {
            return size() > MAX_GUIDES;
        }
    };
    private final Guide anyObject = Guide.anyObject();
    private final States shared = States.shared();
    private volatile @Nullable GuideTokens tokens;
    private @Nullable MaskTable masks;

    /// @param vocabSize of the model, whose logits may be more than the tokenizer's tokens
    /// @param stopTokens ids that end a completion
    /// @param calls how the chat format writes calls of tools; null if it has none
    public GuideEngine(Tokenizer tokenizer, int vocabSize, Set<Integer> stopTokens, @Nullable CallSyntax calls) {
        this.calls = calls;
        this.tokenizer = tokenizer;
        this.vocabSize = vocabSize;
        this.stopTokens = Set.copyOf(stopTokens);
    }

    /// The form that a request asks for; null for text.
    ///
    /// @throws millrace.engine.InvalidRequestException GUIDE_SCHEMA, GUIDE_UNSUPPORTED, GUIDE_UNSATISFIABLE, GUIDE_LIMIT,
    ///         TOOL_CHOICE, TOOLS_INVALID
    public @Nullable Guide guide(ResponseFormat format) {
        return switch (format) {
            case ResponseFormat.Text text -> null;
            case ResponseFormat.JsonObject object -> {
                tokens();
                yield anyObject;
            }
            case ResponseFormat.JsonSchema(String schema) -> {
                tokens();
                yield read(schema, () -> Guide.read(schema));
            }
            case ResponseFormat.Calls called -> {
                tokens();
                yield read(called.text(), () -> CallsReader.read(called, calls));
            }
        };
    }

    private Guide read(String schema, Supplier<Guide> reader) {
        synchronized (guides) {
            Guide known = guides.get(schema);
            if (known != null) {
                return known;
            }
        }
        Guide guide = reader.get();
        synchronized (guides) {
            Guide first = guides.putIfAbsent(schema, guide);
            return first == null ? guide : first;
        }
    }

    /// Made by the first who asks, on a thread that prepares requests: it takes a moment.
    private GuideTokens tokens() {
        GuideTokens known = tokens;
        if (known != null) {
            return known;
        }
        synchronized (this) {
            known = tokens;
            if (known == null) {
                known = new GuideTokens(tokenizer, vocabSize, stopTokens, calls);
                tokens = known;
            }
            return known;
        }
    }

    /// The way of one completion.
    ///
    /// @param reasoning what comes before the document
    public GuideRun start(Guide guide, Reasoning reasoning) {
        GuideTokens known = tokens();
        MaskTable table = masks;
        if (table == null) {
            table = new MaskTable(known, vocabSize);
            masks = table;
        }
        return new GuideRun(guide, guide.states(shared), known, table, reasoning);
    }

    /// Masks that are kept.
    int masks() {
        return masks == null ? 0 : masks.masks();
    }
}

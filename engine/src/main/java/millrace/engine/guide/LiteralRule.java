package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.NullNode;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One of some scalars, each in one spelling.
final class LiteralRule implements Rule {
    static final LiteralRule BOOLEAN = new LiteralRule(
            List.of("true", "false"), List.of(BooleanNode.TRUE, BooleanNode.FALSE), true, false);
    static final LiteralRule NULL = new LiteralRule(List.of("null"), List.of(NullNode.instance), true, false);

    private final List<JsonNode> values;
    private final ByteTrie trie;
    private final boolean shared;

    /// Whether [Guard] ends each, which may be a token of its own.
    private final boolean raw;

    private LiteralRule(List<String> texts, List<JsonNode> values, boolean shared, boolean raw) {
        this.values = List.copyOf(values);
        this.shared = shared;
        this.raw = raw;
        trie = new ByteTrie(texts.stream().map(text -> text.getBytes(StandardCharsets.UTF_8)).toList());
    }

    /// @param texts JSON texts, at least one, none twice
    /// @param values what they say
    LiteralRule(List<String> texts, List<JsonNode> values) {
        this(texts, values, false, false);
    }

    /// Strings without quotes, and null.
    ///
    /// @param values at least one, none of which has [Guard] in it
    static LiteralRule raw(List<JsonNode> values) {
        return new LiteralRule(values.stream().map(value -> value.asText() + Guard.TEXT).toList(), values, false, true);
    }

    boolean isRaw() {
        return raw;
    }

    List<JsonNode> values() {
        return values;
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, 0);
    }

    @Override
    public boolean shared() {
        return shared;
    }

    record At(LiteralRule rule, int node) implements Place {
        @Override
        public @Nullable Place step(int b) {
            int child = rule.trie.child(node, b);
            return child == ByteTrie.NONE ? null : new At(rule, child);
        }

        @Override
        public boolean marks(byte[] marker) {
            return rule.raw && Guard.is(marker);
        }

        @Override
        public boolean complete() {
            return rule.trie.end(node) != ByteTrie.NONE;
        }

        @Override
        public boolean closed() {
            return complete() && rule.trie.leaf(node);
        }
    }
}

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
            List.of("true", "false"), List.of(BooleanNode.TRUE, BooleanNode.FALSE), true);
    static final LiteralRule NULL = new LiteralRule(List.of("null"), List.of(NullNode.instance), true);

    private final List<JsonNode> values;
    private final ByteTrie trie;
    private final boolean shared;

    private LiteralRule(List<String> texts, List<JsonNode> values, boolean shared) {
        this.values = List.copyOf(values);
        this.shared = shared;
        trie = new ByteTrie(texts.stream().map(text -> text.getBytes(StandardCharsets.UTF_8)).toList());
    }

    /// @param texts JSON texts, at least one, none twice
    /// @param values what they say
    LiteralRule(List<String> texts, List<JsonNode> values) {
        this(texts, values, false);
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
        public boolean complete() {
            return rule.trie.end(node) != ByteTrie.NONE;
        }

        @Override
        public boolean closed() {
            return complete() && rule.trie.leaf(node);
        }
    }
}

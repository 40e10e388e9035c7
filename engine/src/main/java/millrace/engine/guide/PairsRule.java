package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.NullNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// The arguments of a call where each is a pair of a key and a value, strings without quotes: from behind the tool's name to the end
/// of the call. Declared arguments come in their order, others not at all.
///
/// How a value is written follows how it will be read: what the schema allows to be a string only is one as it stands, what
/// it does not allow to be a string is JSON.
final class PairsRule implements Rule {
    private static final String KEY = "<arg_key>";
    private static final String END_KEY = "</arg_key>";
    private static final String VALUE = "<arg_value>";
    private static final String END_CALL = "</tool_call>";

    private final ObjectRule object;
    private final List<List<Rule>> values;

    /// What comes before the value of each argument; the last is the end of the call.
    private final ByteTrie heads;

    private final byte[] behindValue;

    /// What a reader takes an argument for.
    interface Types {
        /// The JSON types that the schema of the tool names for it; empty if it names none.
        Set<String> of(String key);
    }

    /// @param object the arguments as JSON, guarded
    /// @param lineBreak between the parts
    /// @throws millrace.engine.InvalidRequestException GUIDE_UNSUPPORTED for an argument that cannot be told from others when it is read
    PairsRule(ObjectRule object, Types types, String lineBreak) {
        this.object = object;
        values = new ArrayList<>();
        List<byte[]> texts = new ArrayList<>();
        for (int i = 0; i < object.names.size(); i++) {
            String name = object.names.get(i);
            requireKey(name);
            values.add(values(name, object.values.get(i), types.of(name)));
            texts.add(bytes(KEY + name + END_KEY + lineBreak + VALUE));
        }
        texts.add(bytes(END_CALL));
        heads = new ByteTrie(texts);
        behindValue = bytes(Guard.TEXT + lineBreak);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void requireKey(String name) {
        boolean plain = !name.isEmpty() && name.equals(name.strip()) && !name.contains("<");
        if (!plain) {
            throw Refusal.unsupported("#/properties", "a name with \"<\" or white space around it");
        }
    }

    private static List<Rule> values(String name, Shape shape, Set<String> types) {
        String where = "#/properties/" + name;
        if (!types.contains("string")) {
            return shape.rules();
        }
        if (!Set.of("string", "null").containsAll(types)) {
            // Written without quotes, a string could not be told from the others.
            throw Refusal.unsupported(where, "string\" beside " + types.stream().filter(type -> !type.equals("string")).toList()
                    + " as \"type");
        }
        boolean nothing = shape.rules().stream().anyMatch(rule -> rule == LiteralRule.NULL
                || rule instanceof LiteralRule literal && literal.values().stream().anyMatch(JsonNode::isNull));
        boolean nullable = nothing && types.contains("null");
        List<Rule> raw = new ArrayList<>();
        for (Rule rule : shape.rules()) {
            switch (rule) {
                case StringRule string when types.size() == 1 || nullable -> raw.add(new RawRule(string.minLength(), string.maxLength()));
                case LiteralRule literal -> {
                    List<JsonNode> texts = literal.values().stream()
                            .filter(value -> value.isTextual() && (types.size() == 1 || !isNull(value.textValue()))).toList();
                    if (!texts.isEmpty()) {
                        raw.add(LiteralRule.raw(texts));
                    }
                }
                default -> {}
            }
        }
        if (nullable) {
            raw.add(LiteralRule.raw(List.of(NullNode.instance)));
        }
        if (raw.isEmpty()) {
            throw Refusal.unsatisfiable(where);
        }
        return raw;
    }

    /// Whether a text is read as null where that is allowed.
    private static boolean isNull(String text) {
        return text.strip().equals("null") || text.strip().equals("None");
    }

    @Override
    public int depth() {
        return object.depth();
    }

    @Override
    public boolean shared() {
        return false;
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, Phase.HEAD, 0, 0, Math.min(depthLeft - 1, object.need()));
    }

    private boolean allows(int node, int from, int room) {
        for (int index : heads.below(node)) {
            if (index == values.size() ? !object.requires(from) : object.offers(index, from, room)) {
                return true;
            }
        }
        return false;
    }

    private enum Phase {
        HEAD,
        VALUE,
        BEHIND,
        DONE
    }

    /// @param at node of the heads, or bytes behind the value
    /// @param index the first argument that may come, or the one whose value is read
    /// @param room depth that is left inside, as far as it matters
    record At(PairsRule rule, Phase phase, int at, int index, int room) implements Place {
        @Override
        public @Nullable Place step(int b) {
            return switch (phase) {
                case HEAD -> head(b);
                case BEHIND -> b == rule.behindValue[at] ? behind(at + 1) : null;
                case VALUE, DONE -> null;
            };
        }

        private @Nullable Place head(int b) {
            int child = rule.heads.child(at, b);
            if (child == ByteTrie.NONE || !rule.allows(child, index, room)) {
                return null;
            }
            int end = rule.heads.end(child);
            if (end == ByteTrie.NONE) {
                return new At(rule, phase, child, index, room);
            }
            return end == rule.values.size() ? new At(rule, Phase.DONE, 0, 0, 0) : new At(rule, Phase.VALUE, 0, end, room);
        }

        private Place behind(int bytes) {
            return bytes == rule.behindValue.length
                    ? new At(rule, Phase.HEAD, 0, index + 1, room)
                    : new At(rule, Phase.BEHIND, bytes, index, room);
        }

        @Override
        public boolean calls() {
            return phase == Phase.VALUE;
        }

        @Override
        public boolean marks(byte[] marker) {
            return phase == Phase.HEAD || phase == Phase.BEHIND;
        }

        @Override
        public void enter(int depthLeft, Consumer<Place> out) {
            for (Rule value : rule.values.get(index)) {
                if (value.depth() <= depthLeft) {
                    out.accept(value.start(depthLeft));
                }
            }
        }

        @Override
        public @Nullable Place returned(Place child) {
            if (phase != Phase.VALUE || !rule.values.get(index).contains(child.rule())) {
                return null;
            }
            boolean raw = child.rule() instanceof RawRule || child.rule() instanceof LiteralRule literal && literal.isRaw();
            return behind(raw ? Guard.LENGTH : 0);
        }

        @Override
        public boolean complete() {
            return phase == Phase.DONE;
        }

        @Override
        public boolean closed() {
            return phase == Phase.DONE;
        }
    }
}

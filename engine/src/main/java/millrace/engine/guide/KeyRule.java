package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The key of a member: one that the object declares, or another one. Keys have one spelling each: nothing is escaped that need
/// not be, and other keys have no escapes by number. So two keys are one if their bytes are.
final class KeyRule implements Rule {
    /// In place of the index of a property: none that is declared.
    static final int OTHER = -1;

    private static final int BEFORE = -2;

    /// The bytes left the lexer, only a declared key can be meant.
    private static final int ASTRAY = -1;

    private final ObjectRule object;
    private final ByteTrie names;

    /// Whether some declared key is written as no other may be.
    private final boolean spelledNames;

    /// Whether [Guard] may not stand in a key that is not declared.
    private final boolean guarded;

    KeyRule(ObjectRule object, List<String> names, boolean guarded) {
        this.object = object;
        this.guarded = guarded;
        List<String> quotedNames = names.stream().map(JsonText::quote).toList();
        spelledNames = quotedNames.stream().anyMatch(quoted -> quoted.contains("\\u"));
        this.names = new ByteTrie(quotedNames.stream()
                .map(quoted -> quoted.substring(1, quoted.length() - 1).getBytes(StandardCharsets.UTF_8))
                .toList());
    }

    @Override
    public Place start(int depthLeft) {
        throw new IllegalStateException("a key begins in an object");
    }

    /// @param from the first property that may come
    /// @param room of the object, see [ObjectRule.At]
    Place start(int from, int room) {
        return new At(this, BEFORE, 0, from, room, false, OTHER, 0);
    }

    @Override
    public boolean shared() {
        return object.shared();
    }

    /// Whether no key but a declared one is escaped so: by number, or a slash.
    static boolean isSpelled(int escape) {
        return escape == 'u' || escape == '/';
    }

    /// Whether a declared property may come below this node.
    private boolean declared(int node, int from, int room) {
        if (node == ByteTrie.NONE) {
            return false;
        }
        for (int index : names.below(node)) {
            if (object.offers(index, from, room)) {
                return true;
            }
        }
        return false;
    }

    /// @param lexer state of [StringLexer], or [#BEFORE] the opening quote, or [#ASTRAY]
    /// @param node of the names, [ByteTrie#NONE] off them
    /// @param done whether the key has ended
    /// @param property index of the declared property, or [#OTHER]; once the key has ended
    /// @param matched bytes of [Guard] that it ends with, if it is guarded
    record At(KeyRule rule, int lexer, int node, int from, int room, boolean done, int property, int matched) implements Place {
        @Override
        public @Nullable Place step(int b) {
            if (done) {
                return null;
            }
            if (lexer == BEFORE) {
                return b == '"' ? new At(rule, StringLexer.BODY, 0, from, room, false, OTHER, 0) : null;
            }
            boolean between = lexer == StringLexer.BODY;
            int end = node == ByteTrie.NONE ? ByteTrie.NONE : rule.names.end(node);
            if (b == '"' && (between || end != ByteTrie.NONE) && lexer != StringLexer.ESCAPE) {
                return quote(end);
            }
            int child = node == ByteTrie.NONE ? ByteTrie.NONE : rule.names.child(node, b);
            boolean spelled = lexer == ASTRAY || lexer == StringLexer.ESCAPE && isSpelled(b);
            int next = spelled ? ASTRAY : StringLexer.step(lexer, b);
            int guard = rule.guarded ? Guard.step(matched, b) : 0;
            boolean other = next != ASTRAY && guard != Guard.LENGTH && rule.object.offersOther(from, room);
            if (!other && !rule.declared(child, from, room)) {
                return null;
            }
            return new At(rule, next, child, from, room, false, OTHER, guard == Guard.LENGTH ? 0 : guard);
        }

        private @Nullable Place quote(int end) {
            if (end != ByteTrie.NONE) {
                return rule.object.offers(end, from, room) ? ended(end) : null;
            }
            return rule.object.offersOther(from, room) ? ended(OTHER) : null;
        }

        private Place ended(int index) {
            return new At(rule, StringLexer.BODY, 0, from, room, true, index, 0);
        }

        /// Whether, between two characters, any may follow: it can still become a key that is not declared.
        boolean open() {
            return lexer == StringLexer.BODY && !done && !rule.spelledNames && !rule.guarded && rule.object.offersOther(from, room);
        }

        /// Whether it is a key that the object does not declare; it must not be one that the object has already.
        boolean isOther() {
            return done && property == OTHER;
        }

        @Override
        public boolean complete() {
            return done;
        }

        @Override
        public boolean closed() {
            return done;
        }
    }
}

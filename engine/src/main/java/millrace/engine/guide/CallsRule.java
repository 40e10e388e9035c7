package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import millrace.engine.reply.CallForm;
import millrace.engine.reply.CallSyntax;
import millrace.engine.tokenizer.Reasoning;
import org.jspecify.annotations.Nullable;

/// A completion of calls as a chat format writes them, each of a tool that is offered and with arguments that its schema describes; reasoning
/// may come before. Where calls are not required, any text comes before, which the first marker of a call ends.
///
/// All text of its own is found in four tries: what a completion begins with, what follows a call, what ends a free text.
final class CallsRule implements Whole {
    private static final int MAX_INDEX_DIGITS = 4;
    private static final int NONE = ByteTrie.NONE;

    /// A tool that may be called.
    ///
    /// @param arguments one JSON object, if the format writes it so
    /// @param pairs what follows the name otherwise
    record Tool(String name, @Nullable Shape arguments, @Nullable PairsRule pairs) {}

    private final List<Tool> tools;
    private final boolean required;
    private final boolean indexed;
    private final boolean endsOpen;

    /// Begins a call; indices are those of the tools.
    private final ByteTrie first;

    /// The same, or the reasoning.
    private final ByteTrie lead;

    /// Another call, or the end of all.
    private final ByteTrie more;

    /// What ends a free text: [#TRIGGER], [#ASTRAY], [#THINK].
    private final ByteTrie text;

    private static final int TRIGGER = 0;
    private static final int ASTRAY = 1;
    private static final int THINK = 2;

    /// In `first`, behind the trigger.
    private final int triggered;

    private final byte[] trigger;
    private final byte[] toArguments;
    private final byte[] end;

    /// @param tools at least one; none's name is another's with more of what follows a name
    /// @param required whether there is a call in any case
    /// @param several whether there may be more than one
    CallsRule(CallSyntax syntax, List<Tool> tools, boolean required, boolean several) {
        this.tools = List.copyOf(tools);
        this.required = required;
        indexed = syntax.form() == CallForm.KIMI;
        endsOpen = syntax.close().isEmpty();
        toArguments = bytes(indexed ? CallSyntax.ARGUMENTS : "");
        end = bytes(syntax.end());
        List<byte[]> heads = new ArrayList<>();
        List<byte[]> others = new ArrayList<>();
        for (Tool tool : tools) {
            String head = syntax.begin() + tool.name + syntax.behindName();
            heads.add(bytes(syntax.open() + head));
            if (several) {
                others.add(bytes(syntax.between() + head));
            }
        }
        first = new ByteTrie(heads);
        heads.add(DocumentRule.OPENING);
        lead = new ByteTrie(heads);
        if (!endsOpen) {
            while (others.size() < tools.size()) {
                // The end has the same index whether or not there may be more calls.
                others.add(bytes(syntax.close()));
            }
            others.add(bytes(syntax.close()));
        }
        more = new ByteTrie(others);
        trigger = bytes(syntax.trigger());
        List<byte[]> marks = new ArrayList<>(List.of(trigger, indexed ? bytes(CallSyntax.KIMI_CALL) : trigger));
        if (syntax.thinks()) {
            marks.add(DocumentRule.OPENING);
        }
        text = new ByteTrie(marks);
        int node = 0;
        for (byte b : trigger) {
            node = first.child(node, b & 0xFF);
        }
        triggered = node;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public boolean shared() {
        return false;
    }

    @Override
    public Place start(Reasoning reasoning) {
        if (reasoning == Reasoning.OPEN) {
            return new At(this, Phase.REASONING, 0, 0);
        }
        if (!required) {
            return new At(this, Phase.TEXT, 0, 0);
        }
        return new At(this, reasoning == Reasoning.POSSIBLE ? Phase.LEAD : Phase.FIRST, 0, 0);
    }

    private enum Phase {
        /// Free text.
        TEXT,
        REASONING,
        /// White space and the beginning of a call, or of the reasoning.
        LEAD,
        /// White space and the beginning of a call.
        FIRST,
        /// The beginning of another call, or the end of all.
        MORE,
        /// The number in a call's id.
        INDEX,
        /// Before the arguments.
        MARK,
        ARGUMENTS,
        /// Behind the arguments.
        BEHIND,
        DONE
    }

    private ByteTrie trie(Phase phase) {
        return phase == Phase.LEAD ? lead : phase == Phase.FIRST ? first : more;
    }

    /// @param at where in the phase: a node of its trie, a run of [Space] below zero, digits, or bytes of a marker
    /// @param tool that is called
    record At(CallsRule rule, Phase phase, int at, int tool) implements Place {
        @Override
        public @Nullable Place step(int b) {
            return switch (phase) {
                case TEXT -> text(b);
                case REASONING -> {
                    int matched = DocumentRule.closing(at, b);
                    boolean over = matched == DocumentRule.CLOSING.length;
                    yield !over ? in(phase, matched) : in(rule.required ? Phase.FIRST : Phase.TEXT, 0);
                }
                case LEAD, FIRST, MORE -> head(b);
                case INDEX -> {
                    if (b >= '0' && b <= '9') {
                        yield at < MAX_INDEX_DIGITS ? in(phase, at + 1) : null;
                    }
                    yield at > 0 && b == rule.toArguments[0] ? mark(1) : null;
                }
                case MARK -> b == rule.toArguments[at] ? mark(at + 1) : null;
                case BEHIND -> b == (rule.end[at] & 0xFF) ? behind(at + 1) : null;
                case ARGUMENTS, DONE -> null;
            };
        }

        private Place in(Phase next, int where) {
            return new At(rule, next, where, tool);
        }

        private @Nullable Place text(int b) {
            int child = rule.text.child(at, b);
            if (child == NONE && at != 0) {
                // No marker has its first character twice, so a byte that does not go on begins anew.
                child = rule.text.child(0, b);
            }
            int found = child == NONE ? NONE : rule.text.end(child);
            return switch (found) {
                case TRIGGER -> in(Phase.FIRST, rule.triggered);
                case ASTRAY -> rule.indexed ? null : in(Phase.FIRST, rule.triggered);
                case THINK -> in(Phase.REASONING, 0);
                default -> in(Phase.TEXT, Math.max(child, 0));
            };
        }

        private @Nullable Place head(int b) {
            ByteTrie trie = rule.trie(phase);
            int child = at < 0 ? trie.child(0, b) : trie.child(at, b);
            if (child == NONE) {
                int run = at > 0 || phase == Phase.MORE ? NONE : Space.step(-at, b);
                return run < 0 || run > Space.LINES ? null : in(phase, -run);
            }
            int ended = trie.end(child);
            if (ended == NONE) {
                return in(phase, child);
            }
            if (ended == rule.tools.size()) {
                return phase == Phase.LEAD ? in(Phase.REASONING, 0) : in(Phase.DONE, 0);
            }
            if (rule.tools.get(ended).pairs != null) {
                // Another name may go on from here.
                return new At(rule, phase, child, ended);
            }
            return new At(rule, rule.indexed ? Phase.INDEX : Phase.ARGUMENTS, 0, ended);
        }

        private Place mark(int bytes) {
            return bytes == rule.toArguments.length ? in(Phase.ARGUMENTS, 0) : in(Phase.MARK, bytes);
        }

        private Place behind(int bytes) {
            if (bytes < rule.end.length) {
                return in(Phase.BEHIND, bytes);
            }
            return new At(rule, rule.more.size() == 0 ? Phase.DONE : Phase.MORE, 0, 0);
        }

        private boolean named() {
            boolean head = phase == Phase.LEAD || phase == Phase.FIRST || phase == Phase.MORE;
            return head && at > 0 && rule.trie(phase).end(at) == tool && rule.tools.get(tool).pairs != null;
        }

        @Override
        public boolean marks(byte[] marker) {
            return switch (phase) {
                case TEXT -> DocumentRule.isReasoning(marker) || java.util.Arrays.equals(marker, rule.trigger);
                case REASONING -> DocumentRule.isReasoning(marker);
                case LEAD, FIRST, MORE, INDEX, MARK, BEHIND -> true;
                case ARGUMENTS, DONE -> false;
            };
        }

        @Override
        public boolean calls() {
            return phase == Phase.ARGUMENTS || named();
        }

        @Override
        public void enter(int depthLeft, Consumer<Place> out) {
            Tool called = rule.tools.get(tool);
            if (called.pairs != null) {
                out.accept(called.pairs.start(depthLeft - 1));
                return;
            }
            // A call is an object itself.
            for (Rule arguments : java.util.Objects.requireNonNull(called.arguments).rules()) {
                if (arguments.depth() < depthLeft) {
                    out.accept(arguments.start(depthLeft - 1));
                }
            }
        }

        @Override
        public @Nullable Place returned(Place child) {
            if (!calls()) {
                return null;
            }
            Tool called = rule.tools.get(tool);
            boolean mine = called.pairs != null
                    ? child.rule() == called.pairs
                    : java.util.Objects.requireNonNull(called.arguments).allows(child.rule());
            return mine ? behind(0) : null;
        }

        @Override
        public boolean complete() {
            return phase == Phase.DONE || phase == Phase.TEXT || phase == Phase.MORE && at == 0 && rule.endsOpen;
        }

        @Override
        public boolean closed() {
            return phase == Phase.DONE;
        }
    }
}

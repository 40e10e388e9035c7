package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.function.Consumer;
import millrace.engine.tokenizer.Reasoning;
import org.jspecify.annotations.Nullable;

/// A completion: reasoning where there may be some, then white space, then one value and nothing else.
///
/// @param root what the value is like
/// @param shared whether `root` belongs to no schema
record DocumentRule(Shape root, boolean shared) implements Whole {
    static final byte[] OPENING = Reasoning.OPENING.getBytes(StandardCharsets.UTF_8);
    static final byte[] CLOSING = Reasoning.CLOSING.getBytes(StandardCharsets.UTF_8);

    @Override
    public Place start(Reasoning reasoning) {
        return switch (reasoning) {
            case NONE -> new At(this, Phase.LEAD, 0);
            case POSSIBLE -> new At(this, Phase.FREE_LEAD, 0);
            case OPEN -> new At(this, Phase.REASONING, 0);
        };
    }

    /// Whether a marker is one of those around the reasoning.
    static boolean isReasoning(byte[] marker) {
        return Arrays.equals(marker, OPENING) || Arrays.equals(marker, CLOSING);
    }

    /// How much of the end of the reasoning a text ends with after one more byte. No proper end of the marker is one of its beginnings, so
    /// a byte that does not go on begins anew.
    static int closing(int matched, int b) {
        return b == CLOSING[matched] ? matched + 1 : b == CLOSING[0] ? 1 : 0;
    }

    private enum Phase {
        /// White space before the value, or before reasoning.
        FREE_LEAD,
        /// In the marker that opens the reasoning.
        OPENING,
        REASONING,
        /// White space before the value.
        LEAD,
        DONE
    }

    /// @param count run of [Space], or bytes of the marker that is looked for
    record At(DocumentRule rule, Phase phase, int count) implements Place {
        @Override
        public @Nullable Place step(int b) {
            return switch (phase) {
                case FREE_LEAD -> b == OPENING[0] ? new At(rule, Phase.OPENING, 1) : lead(b);
                case OPENING -> b != OPENING[count]
                        ? null
                        : count + 1 == OPENING.length ? new At(rule, Phase.REASONING, 0) : new At(rule, phase, count + 1);
                case REASONING -> reasoning(b);
                case LEAD -> lead(b);
                case DONE -> null;
            };
        }

        private @Nullable Place lead(int b) {
            int run = Space.step(count, b);
            return run < 0 || run > Space.LINES ? null : new At(rule, phase, run);
        }

        private Place reasoning(int b) {
            int matched = closing(count, b);
            return matched == CLOSING.length ? new At(rule, Phase.LEAD, 0) : new At(rule, phase, matched);
        }

        @Override
        public boolean marks(byte[] marker) {
            boolean may = phase == Phase.FREE_LEAD || phase == Phase.OPENING || phase == Phase.REASONING;
            return may && isReasoning(marker);
        }

        @Override
        public boolean calls() {
            return phase == Phase.LEAD || phase == Phase.FREE_LEAD;
        }

        @Override
        public void enter(int depthLeft, Consumer<Place> out) {
            for (Rule value : rule.root.rules()) {
                if (value.depth() <= depthLeft) {
                    out.accept(value.start(depthLeft));
                }
            }
        }

        @Override
        public @Nullable Place returned(Place child) {
            return calls() && rule.root.allows(child.rule()) ? new At(rule, Phase.DONE, 0) : null;
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

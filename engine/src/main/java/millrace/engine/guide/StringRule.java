package millrace.engine.guide;

import org.jspecify.annotations.Nullable;

/// A JSON string of a bounded number of characters (code points).
///
/// @param minLength least characters
/// @param maxLength most characters, or [#UNBOUNDED]
/// @param guarded whether [Guard] may not stand in it
record StringRule(int minLength, int maxLength, boolean guarded) implements Rule {
    static final int UNBOUNDED = -1;

    private static final int BEFORE = -1;
    private static final int DONE = -2;

    /// One rule for both, where no length lies between; null else.
    ///
    /// @param other with no smaller minimum
    @Nullable StringRule joined(StringRule other) {
        if (maxLength != UNBOUNDED && other.minLength > maxLength + 1) {
            return null;
        }
        boolean open = maxLength == UNBOUNDED || other.maxLength == UNBOUNDED;
        return new StringRule(minLength, open ? UNBOUNDED : Math.max(maxLength, other.maxLength), guarded);
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, BEFORE, minLength, maxLength, 0);
    }

    @Override
    public boolean shared() {
        return minLength == 0 && maxLength == UNBOUNDED;
    }

    /// @param lexer state of [StringLexer], or [#BEFORE] the opening quote, or [#DONE]
    /// @param minLeft characters that have to come
    /// @param maxLeft characters that may come, or [#UNBOUNDED]
    /// @param matched bytes of [Guard] that it ends with, if it is guarded
    record At(StringRule rule, int lexer, int minLeft, int maxLeft, int matched) implements Place {
        /// The place after the closing quote.
        At ended() {
            return new At(rule, DONE, 0, UNBOUNDED, 0);
        }

        @Override
        public @Nullable Place step(int b) {
            if (lexer < 0) {
                return lexer == BEFORE && b == '"' ? new At(rule, StringLexer.BODY, minLeft, maxLeft, 0) : null;
            }
            if (lexer != StringLexer.BODY) {
                int next = StringLexer.step(lexer, b);
                return next < 0 ? null : new At(rule, next, minLeft, maxLeft, 0);
            }
            if (b == '"') {
                return minLeft > 0 ? null : ended();
            }
            int next = StringLexer.step(lexer, b);
            int guard = rule.guarded ? Guard.step(matched, b) : 0;
            if (next < 0 || maxLeft == 0 || guard == Guard.LENGTH) {
                return null;
            }
            return new At(rule, next, Math.max(0, minLeft - 1), maxLeft == UNBOUNDED ? UNBOUNDED : maxLeft - 1, guard);
        }

        @Override
        public boolean complete() {
            return lexer == DONE;
        }

        @Override
        public boolean closed() {
            return lexer == DONE;
        }

        @Override
        public Place near(int reach) {
            int min = Math.min(minLeft, reach);
            int max = maxLeft > reach ? UNBOUNDED : maxLeft;
            return min == minLeft && max == maxLeft ? this : new At(rule, lexer, min, max, matched);
        }
    }
}

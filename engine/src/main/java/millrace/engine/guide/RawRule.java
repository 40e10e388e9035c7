package millrace.engine.guide;

import org.jspecify.annotations.Nullable;

/// A string without quotes, of a bounded number of characters (code points), and the [Guard] that ends it.
///
/// A beginning of the guard may yet turn out to be text, so its characters are counted when that is known.
///
/// @param minLength least characters
/// @param maxLength most characters, or [StringRule#UNBOUNDED]
record RawRule(int minLength, int maxLength) implements Rule {
    private static final int UNBOUNDED = StringRule.UNBOUNDED;

    @Override
    public Place start(int depthLeft) {
        return new At(this, StringLexer.BODY, minLength, maxLength, 0);
    }

    @Override
    public boolean shared() {
        return minLength == 0 && maxLength == UNBOUNDED;
    }

    /// @param lexer state of [StringLexer]
    /// @param minLeft characters that have to come, those of `matched` not counted yet
    /// @param maxLeft characters that may come, or [StringRule#UNBOUNDED]; the same
    /// @param matched bytes of the guard that were read
    record At(RawRule rule, int lexer, int minLeft, int maxLeft, int matched) implements Place {
        @Override
        public @Nullable Place step(int b) {
            if (matched == Guard.LENGTH) {
                return null;
            }
            if (lexer != StringLexer.BODY) {
                int next = StringLexer.raw(lexer, b);
                return next < 0 ? null : new At(rule, next, minLeft, maxLeft, 0);
            }
            int further = Guard.step(matched, b);
            if (further == matched + 1) {
                return alive(new At(rule, lexer, minLeft, maxLeft, further));
            }
            int next = StringLexer.raw(lexer, b);
            // What looked like the guard was text, and this byte begins a character of its own, or the guard again.
            int text = matched + (further == 0 ? 1 : 0);
            if (next < 0 || maxLeft != UNBOUNDED && text > maxLeft) {
                return null;
            }
            return alive(new At(rule, next, Math.max(0, minLeft - text), maxLeft == UNBOUNDED ? UNBOUNDED : maxLeft - text, further));
        }

        /// Whether it can be ended: by the rest of the guard, or as text.
        private static @Nullable At alive(At at) {
            if (at.matched == Guard.LENGTH) {
                return at.minLeft == 0 ? at : null;
            }
            return at.minLeft == 0 || at.maxLeft == UNBOUNDED || at.matched <= at.maxLeft ? at : null;
        }

        @Override
        public boolean marks(byte[] marker) {
            return Guard.is(marker);
        }

        @Override
        public boolean complete() {
            return matched == Guard.LENGTH;
        }

        @Override
        public boolean closed() {
            return matched == Guard.LENGTH;
        }

        @Override
        public Place near(int reach) {
            int far = reach + Guard.LENGTH;
            int min = Math.min(minLeft, far);
            int max = maxLeft > far ? UNBOUNDED : maxLeft;
            return min == minLeft && max == maxLeft ? this : new At(rule, lexer, min, max, matched);
        }
    }
}

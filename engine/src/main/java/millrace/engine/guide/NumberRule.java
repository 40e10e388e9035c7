package millrace.engine.guide;

import org.jspecify.annotations.Nullable;

/// A JSON number, in so few digits that a 64-bit integer holds every integer and a binary64 is finite for every other: at most 18
/// digits before the point, 18 behind it and 2 in the exponent. Integers have neither point nor exponent.
record NumberRule(boolean integer) implements Rule {
    static final NumberRule ANY = new NumberRule(false);
    static final NumberRule INTEGER = new NumberRule(true);

    /// The most digits before the point, and behind it.
    static final int MAX_DIGITS = 18;

    static final int MAX_EXPONENT_DIGITS = 2;

    private enum Phase {
        START,
        MINUS,
        ZERO,
        WHOLE,
        POINT,
        FRACTION,
        E,
        SIGN,
        EXPONENT
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, Phase.START, 0);
    }

    @Override
    public boolean shared() {
        return true;
    }

    /// @param digits of the phase, where it counts them
    record At(NumberRule rule, Phase phase, int digits) implements Place {
        @Override
        public @Nullable Place step(int b) {
            boolean digit = b >= '0' && b <= '9';
            return switch (phase) {
                case START -> b == '-' ? at(Phase.MINUS, 0) : whole(b, true);
                case MINUS -> whole(b, !rule.integer);
                case ZERO -> behindWhole(b);
                case WHOLE -> digit ? counted(Phase.WHOLE, MAX_DIGITS) : behindWhole(b);
                case POINT -> digit ? at(Phase.FRACTION, 1) : null;
                case FRACTION -> digit ? counted(Phase.FRACTION, MAX_DIGITS) : exponent(b);
                case E -> b == '+' || b == '-' ? at(Phase.SIGN, 0) : digit ? at(Phase.EXPONENT, 1) : null;
                case SIGN -> digit ? at(Phase.EXPONENT, 1) : null;
                case EXPONENT -> digit ? counted(Phase.EXPONENT, MAX_EXPONENT_DIGITS) : null;
            };
        }

        private @Nullable Place whole(int b, boolean zero) {
            return b == '0' ? zero ? at(Phase.ZERO, 1) : null : b >= '1' && b <= '9' ? at(Phase.WHOLE, 1) : null;
        }

        private @Nullable Place behindWhole(int b) {
            return rule.integer ? null : b == '.' ? at(Phase.POINT, 0) : exponent(b);
        }

        private @Nullable Place exponent(int b) {
            return b == 'e' || b == 'E' ? at(Phase.E, 0) : null;
        }

        private @Nullable Place counted(Phase same, int most) {
            return digits < most ? at(same, digits + 1) : null;
        }

        private Place at(Phase next, int count) {
            return new At(rule, next, count);
        }

        @Override
        public boolean complete() {
            return phase == Phase.ZERO || phase == Phase.WHOLE || phase == Phase.FRACTION || phase == Phase.EXPONENT;
        }

        @Override
        public boolean closed() {
            return rule.integer && (phase == Phase.ZERO || phase == Phase.WHOLE && digits == MAX_DIGITS);
        }
    }
}

package millrace.engine.guide;

import java.math.BigDecimal;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A number between bounds, in plain notation without an exponent: at most 18 digits before the point and, unless it is an
/// integer, 18 behind it.
///
/// The digits are compared with those of the bounds as they come. A place keeps how many there are and how the number so far
/// compares with the beginnings of the bounds, so there are few places whatever the bounds.
final class RangeRule implements Rule {
    /// Digits behind the point.
    static final int FRACTION_DIGITS = NumberRule.MAX_DIGITS;

    /// The most that a bound may have behind the point: a number between two bounds then always has place for its digits.
    static final int MAX_BOUND_SCALE = FRACTION_DIGITS - 1;

    final boolean integer;

    /// Bounds of numbers without and with a minus sign, by magnitude; null if there are none.
    private final @Nullable Span plain;

    private final @Nullable Span negative;

    /// Magnitudes between two bounds.
    private static final class Span {
        final Bound low;
        final Bound high;

        Span(Bound low, Bound high) {
            this.low = low;
            this.high = high;
        }
    }

    /// A bound as digits.
    private static final class Bound {
        final String whole;

        /// [#FRACTION_DIGITS] digits.
        final String fraction;

        final boolean inclusive;

        Bound(BigDecimal value, boolean inclusive) {
            String digits = value.setScale(FRACTION_DIGITS).toPlainString();
            whole = digits.substring(0, digits.indexOf('.'));
            fraction = digits.substring(digits.indexOf('.') + 1);
            this.inclusive = inclusive;
        }

        /// Whether only zeros follow the first `count` digits of the whole part, or of the fraction.
        boolean zeroBehind(boolean point, int count) {
            String rest = point ? fraction.substring(count) : whole.substring(Math.min(count, whole.length())) + fraction;
            return rest.chars().allMatch(c -> c == '0');
        }
    }

    private static final BigDecimal LIMIT = BigDecimal.TEN.pow(NumberRule.MAX_DIGITS);

    /// @param low with a scale of at most [#MAX_BOUND_SCALE], or null
    /// @param high the same
    RangeRule(
            boolean integer,
            @Nullable BigDecimal low,
            boolean lowInclusive,
            @Nullable BigDecimal high,
            boolean highInclusive) {
        this.integer = integer;
        plain = span(integer, low, lowInclusive, high, highInclusive);
        negative = negated(integer, low, lowInclusive, high, highInclusive);
    }

    private static @Nullable Span negated(
            boolean integer,
            @Nullable BigDecimal low,
            boolean lowInclusive,
            @Nullable BigDecimal high,
            boolean highInclusive) {
        BigDecimal least = high == null ? BigDecimal.ZERO : high.negate();
        // There is one zero, and it has no sign.
        boolean positive = least.signum() > 0;
        return span(integer, positive ? least : BigDecimal.ZERO, positive && highInclusive,
                low == null ? null : low.negate(), lowInclusive);
    }

    /// Of the magnitudes from 0 on those between the bounds; null if there are none.
    private static @Nullable Span span(
            boolean integer,
            @Nullable BigDecimal low,
            boolean lowInclusive,
            @Nullable BigDecimal high,
            boolean highInclusive) {
        BigDecimal from = low == null || low.signum() < 0 ? BigDecimal.ZERO : low;
        boolean fromInclusive = low == null || low.signum() < 0 || lowInclusive;
        boolean open = high == null || high.compareTo(LIMIT) >= 0;
        BigDecimal to = open ? LIMIT : high;
        boolean toInclusive = !open && highInclusive;
        if (integer) {
            BigDecimal up = from.setScale(0, java.math.RoundingMode.CEILING);
            from = up.compareTo(from) == 0 && !fromInclusive ? up.add(BigDecimal.ONE) : up;
            BigDecimal down = to.setScale(0, java.math.RoundingMode.FLOOR);
            to = down.compareTo(to) == 0 && !toInclusive ? down.subtract(BigDecimal.ONE) : down;
            fromInclusive = true;
            toInclusive = true;
        }
        int order = from.compareTo(to);
        if (order > 0 || order == 0 && !(fromInclusive && toInclusive)) {
            return null;
        }
        return new Span(new Bound(from, fromInclusive), new Bound(to, toInclusive));
    }

    @Override
    public int depth() {
        return plain == null && negative == null ? NEVER : 0;
    }

    @Override
    public boolean shared() {
        return false;
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, Phase.START, false, 0, 0, 0);
    }

    private enum Phase {
        START,
        MINUS,
        WHOLE,
        FRACTION
    }

    /// @param digits of the phase
    /// @param low how the digits so far compare with as many of the lower bound's: less, equal or greater as −1, 0, 1
    /// @param high the same with the upper bound
    record At(RangeRule rule, Phase phase, boolean minus, int digits, int low, int high) implements Place {
        @Override
        public @Nullable Place step(int b) {
            boolean digit = b >= '0' && b <= '9';
            return switch (phase) {
                case START -> {
                    if (b == '-') {
                        yield rule.negative == null ? null : new At(rule, Phase.MINUS, true, 0, 0, 0);
                    }
                    yield digit && rule.plain != null ? whole(b) : null;
                }
                case MINUS -> digit ? whole(b) : null;
                case WHOLE -> {
                    if (b == '.' && !rule.integer) {
                        yield alive(new At(rule, Phase.FRACTION, minus, 0, lowOfWhole(), highOfWhole()));
                    }
                    yield digit && !zero() ? whole(b) : null;
                }
                case FRACTION -> digit && digits < FRACTION_DIGITS ? fraction(b) : null;
            };
        }

        private Span span() {
            return Objects.requireNonNull(minus ? rule.negative : rule.plain);
        }

        // A zero at the beginning is kept as a number of digits that no other number has.
        private boolean zero() {
            return digits == 0 && phase == Phase.WHOLE;
        }

        private int count() {
            return Math.max(1, digits);
        }

        private @Nullable Place whole(int b) {
            boolean leading = phase != Phase.WHOLE;
            int at = leading ? 0 : digits;
            if (at >= NumberRule.MAX_DIGITS) {
                return null;
            }
            At next = new At(
                    rule,
                    Phase.WHOLE,
                    minus,
                    leading && b == '0' ? 0 : at + 1,
                    compared(leading ? 0 : low, b, span().low.whole, at),
                    compared(leading ? 0 : high, b, span().high.whole, at));
            return alive(next);
        }

        private @Nullable Place fraction(int b) {
            return alive(new At(
                    rule,
                    Phase.FRACTION,
                    minus,
                    digits + 1,
                    compared(low, b, span().low.fraction, digits),
                    compared(high, b, span().high.fraction, digits)));
        }

        private static int compared(int before, int b, String bound, int at) {
            if (before != 0 || at >= bound.length()) {
                return before;
            }
            return Integer.signum(b - bound.charAt(at));
        }

        /// How the whole part compares with the bound's, if it ends here.
        private int lowOfWhole() {
            return byLength(span().low.whole, low);
        }

        private int highOfWhole() {
            return byLength(span().high.whole, high);
        }

        private int byLength(String bound, int digitwise) {
            return count() != bound.length() ? Integer.signum(count() - bound.length()) : digitwise;
        }

        private static @Nullable At alive(At next) {
            return next.phase == Phase.WHOLE ? next.wholeAlive() ? next : null : next.fractionAlive() ? next : null;
        }

        /// Whether some number that begins so is between the bounds: one with more digits before the point, or with these.
        private boolean wholeAlive() {
            int lowLength = span().low.whole.length();
            int highLength = span().high.whole.length();
            int most = zero() ? 1 : NumberRule.MAX_DIGITS;
            for (int length = count(); length <= most; length++) {
                boolean aboveLow = length > lowLength || length == lowLength && low >= 0;
                boolean belowHigh = length < highLength || length == highLength && (high < 0 || high == 0 && reachesHigh());
                if (aboveLow && belowHigh) {
                    return true;
                }
            }
            return false;
        }

        /// Whether a number that begins as the upper bound does is allowed: the smallest such is the digits with zeros.
        private boolean reachesHigh() {
            return span().high.inclusive || !span().high.zeroBehind(false, count());
        }

        private boolean fractionAlive() {
            if (low < 0 || high > 0) {
                return false;
            }
            // At the last digit nothing can be added to rise above the lower bound; no bound has so many digits.
            boolean rises = low > 0 || digits < FRACTION_DIGITS || span().low.inclusive;
            boolean stays = high < 0 || span().high.inclusive || !span().high.zeroBehind(true, digits);
            return rises && stays;
        }

        @Override
        public boolean complete() {
            return switch (phase) {
                case START, MINUS -> false;
                case WHOLE -> within(lowOfWhole(), highOfWhole(), 0);
                case FRACTION -> digits > 0 && within(low, high, digits);
            };
        }

        private boolean within(int toLow, int toHigh, int fractionDigits) {
            Bound least = span().low;
            Bound most = span().high;
            boolean aboveLow = toLow > 0
                    || toLow == 0 && least.inclusive && least.zeroBehind(true, fractionDigits);
            boolean belowHigh = toHigh < 0
                    || toHigh == 0 && (most.inclusive || !most.zeroBehind(true, fractionDigits));
            return aboveLow && belowHigh;
        }

        @Override
        public boolean closed() {
            return false;
        }
    }
}

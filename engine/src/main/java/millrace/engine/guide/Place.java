package millrace.engine.guide;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// How far one rule has been read. A value: equal places go on alike.
///
/// Invariant: from every place some continuation completes the rule, with containers no deeper than what the place was given.
sealed interface Place
        permits StringRule.At, NumberRule.At, RangeRule.At, LiteralRule.At, KeyRule.At, ObjectRule.At, ArrayRule.At,
                RawRule.At, PairsRule.At, CallsRule.At, DocumentRule.At {
    Rule rule();

    /// The place after one more byte of the rule's own, or null. Bytes of a value inside are not its own.
    ///
    /// @param b 0 to 255
    @Nullable Place step(int b);

    /// Whether what was read is a whole.
    boolean complete();

    /// Whether it is a whole that nothing can be added to. May be false where a look at all bytes would say true, for numbers.
    boolean closed();

    /// Whether a value or a key may begin here.
    default boolean calls() {
        return false;
    }

    /// Whether a token that is this marker may come here, if its bytes may.
    default boolean marks(byte[] marker) {
        return false;
    }

    /// The beginnings of what may begin here.
    ///
    /// @param depthLeft containers that may still be opened, one within the other
    default void enter(int depthLeft, Consumer<Place> out) {}

    /// The place after what began here was read, or null if it did not begin here.
    ///
    /// @param child a complete place
    default @Nullable Place returned(Place child) {
        return null;
    }

    /// A place that goes on alike for the next `reach` bytes: counters that cannot run out so soon are forgotten.
    default Place near(int reach) {
        return this;
    }
}

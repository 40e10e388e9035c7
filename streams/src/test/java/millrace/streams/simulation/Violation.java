package millrace.streams.simulation;

import org.jspecify.annotations.Nullable;

/// An invariant that does not hold.
final class Violation extends AssertionError {
    private static final long serialVersionUID = 1L;
    final String invariant;

    /// @param invariant `I1` to `I7`, see [Invariants]
    Violation(String invariant, String what, @Nullable Throwable cause) {
        super(invariant + ": " + what, cause);
        this.invariant = invariant;
    }
}

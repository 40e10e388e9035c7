package millrace.engine.guide;

/// One way a value, a key or a document may look. Rules that hold others are compared by identity.
sealed interface Rule extends Part
        permits StringRule, NumberRule, RangeRule, LiteralRule, KeyRule, ContainerRule, RawRule, PairsRule, Whole {
    /// In place of a depth: nothing finite looks like this.
    int NEVER = 1 << 28;

    /// @param depthLeft containers that may still be opened here, one within the other; at least [#depth]
    Place start(int depthLeft);

    /// Containers, one within the other, that the flattest value of this form has.
    default int depth() {
        return 0;
    }

    /// Whether the rule belongs to no schema: its states and masks then serve all.
    boolean shared();
}

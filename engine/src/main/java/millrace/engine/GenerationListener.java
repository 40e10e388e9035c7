package millrace.engine;

/// Receives the events of one generation on the engine's thread; must return at once.
public interface GenerationListener {
    /// Text that came with the last step; whole code points only. The sum of all deltas since the beginning, or since the
    /// last [#onRestart], is the final text.
    default void onDelta(String text) {}

    /// The same, for who wants to know how far it has come.
    ///
    /// @param tokens generated so far, those without text included
    default void onDelta(String text, int tokens) {
        onDelta(text);
    }

    /// What the deltas have said so far is void: a check found that some of it may be wrong. They begin again.
    default void onRestart() {}

    /// Called once, when the generation has ended for whatever reason.
    void onEnd(GenerationResult result);
}

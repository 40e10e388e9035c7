package millrace.engine;

/// Receives the events of one generation on the engine's thread; must return at once.
public interface GenerationListener {
    /// Text that became final with the last step; whole code points only. The sum of all deltas is the final text.
    default void onDelta(String text) {}

    /// Called once, when the generation has ended for whatever reason.
    void onEnd(GenerationResult result);
}

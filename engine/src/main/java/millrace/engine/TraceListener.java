package millrace.engine;

/// Receives what came of following an answer, on the engine's thread; must return at once.
@FunctionalInterface
public interface TraceListener {
    /// Called once, unless the engine is closed first.
    void onEnd(Trace trace);
}

package millrace.streams.client;

import millrace.schemas.Delta;

/// Hears the previews of one request, one call at a time and in order, before its completion is given.
///
/// They are not attested and may be void: what counts is the completion. A listener may take its time; it delays nobody but its
/// own request's completion. One that throws hears nothing more.
@FunctionalInterface
public interface DeltaListener {
    /// The next delta of the generation that counts now. `RESTART` is told by [#onRestart] instead.
    void onDelta(Delta delta);

    /// Everything heard so far is void: the generation began again, after a fault or on another instance.
    default void onRestart() {}

    /// Deltas were lost before the next one: what is shown has a hole. The completion has everything.
    ///
    /// @param count how many
    default void onGap(long count) {}
}

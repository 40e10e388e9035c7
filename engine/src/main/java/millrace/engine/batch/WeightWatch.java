package millrace.engine.batch;

import org.jspecify.annotations.Nullable;

/// Who checks, on a thread of its own, the weights that steps read; the loop asks it around every step.
///
/// ```
///  [#damaged] turns true  ─▶  no step begins, nothing of the one in progress is delivered, nothing is admitted
///  [#repair], on the loop's thread, between two steps
///     null:   every page is forgotten, what runs is computed again from its prompt, the golden prompt runs first
///     reason: everything ends as failed
/// ```
public interface WeightWatch {
    /// Nobody does.
    WeightWatch NONE = new WeightWatch() {
        @Override
        public boolean damaged() {
            return false;
        }

        @Override
        public @Nullable String repair() {
            return null;
        }
    };

    /// Whether damage is known that is not repaired. May turn true at any time, on another thread, which then wakes
    /// the loop; turns false in [#repair] only.
    boolean damaged();

    /// Repairs what is damaged; called while [#damaged].
    ///
    /// @return null, or why no more work can be taken
    @Nullable String repair();
}

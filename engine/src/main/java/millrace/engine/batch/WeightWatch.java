package millrace.engine.batch;

import org.jspecify.annotations.Nullable;

/// Who checks, on a thread of its own, the weights that steps read; the loop asks it around every step.
///
/// ```
///  [#damaged] turns true  ─▶  no step begins, nothing of the one in progress is delivered, nothing is admitted
///  [#repair], on the loop's thread, between two steps
///     null:   every page is forgotten, what came of steps in doubt is computed again, the golden prompt runs first
///     reason: everything ends as failed
/// ```
///
/// Which steps are in doubt the ledger says: whoever finds damage opens a [millrace.engine.IntegrityLedger.Doubt] before
/// [#damaged] turns true, perhaps more in [#repair], and ends them in [#resume]. Without a doubt all steps are.
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

    /// Looks at every resident block now, on the loop's thread; [#damaged] says afterwards what came of it. Called when
    /// other checks have found numbers that cannot be.
    default void verifyNow() {}

    /// Repairs what is damaged; called while [#damaged].
    ///
    /// @return null, or why no more work can be taken
    @Nullable String repair();

    /// What came of the steps in doubt is taken back; the next step is as good as any.
    default void resume() {}
}

package millrace.engine.batch;

import org.jspecify.annotations.Nullable;

/// Weights whose damage a test decides on.
final class FakeWatch implements WeightWatch {
    volatile boolean damaged;
    volatile @Nullable String refusal;
    volatile int repairs;
    volatile int checks;

    /// What [#verifyNow] does beside being counted.
    Runnable onVerify = () -> {};

    /// What [#repair] does beside repairing.
    Runnable onRepair = () -> {};

    @Override
    public boolean damaged() {
        return damaged;
    }

    @Override
    public void verifyNow() {
        checks++;
        onVerify.run();
    }

    @Override
    public @Nullable String repair() {
        repairs++;
        onRepair.run();
        damaged = false;
        return refusal;
    }
}

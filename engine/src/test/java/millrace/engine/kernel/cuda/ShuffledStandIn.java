package millrace.engine.kernel.cuda;

/// The stand-in as a real device is worse: threads, warps and blocks go on in a random order, and nothing that was queued runs
/// before somebody waits for it.
public final class ShuffledStandIn {
    private ShuffledStandIn() {}

    /// Runs a check like that, whose device is open or opens in it.
    public static void during(long seed, Runnable check) {
        Gpu.open(millrace.engine.CudaConfig.STANDIN.withMemoryBytes(1 << 20)).close();
        try (StandIn.Setting order = StandIn.with("schedule", StandIn.Schedule.SHUFFLED.ordinal());
                StandIn.Setting number = StandIn.with("seed", seed);
                StandIn.Setting lazy = StandIn.with("lazy", 1)) {
            order.during(() -> number.during(() -> lazy.during(check)));
        }
    }
}

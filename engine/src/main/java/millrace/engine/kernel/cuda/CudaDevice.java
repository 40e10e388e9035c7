package millrace.engine.kernel.cuda;

/// A device that answered, as facts.
///
/// @param ordinal how the driver counts it
/// @param name its own name
/// @param major of its compute capability
/// @param minor of its compute capability
/// @param driverVersion what the driver speaks: 1000 · major + 10 · minor
/// @param memoryBytes all of its memory
/// @param standin whether the driver runs kernels on the CPU
public record CudaDevice(
        int ordinal, String name, int major, int minor, int driverVersion, long memoryBytes, boolean standin) {
    /// The facts for the start-up story and the model card.
    public String describe() {
        return "%s, device %d, compute capability %d.%d, driver of CUDA %s, %d MiB"
                .formatted(name, ordinal, major, minor, version(driverVersion), memoryBytes >> 20);
    }

    static String version(int driverVersion) {
        return driverVersion / 1000 + "." + driverVersion % 1000 / 10;
    }
}

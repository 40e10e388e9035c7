package millrace.engine;

import org.jspecify.annotations.Nullable;

/// What a CUDA device is opened with.
///
/// @param driver the system's, or the one that runs kernels on the CPU
/// @param device ordinal of the device, as the driver counts them
/// @param memoryBytes device memory that may be taken; 0 takes a share of what is free
/// @param separate whether each allocation is one of the driver's own, so that one that checks bounds sees an access
///        beyond it; else all lie in one
/// @param image the kernels to load, `millrace.fatbin` or `millrace.ptx`; null takes the first that the jar has
public record CudaConfig(Driver driver, int device, long memoryBytes, boolean separate, @Nullable String image) {
    /// The first device of the system's driver.
    public static final CudaConfig SYSTEM = new CudaConfig(Driver.SYSTEM, 0, 0, false, null);

    /// The stand-in: kernels run on the CPU, through a driver of our own.
    public static final CudaConfig STANDIN = new CudaConfig(Driver.STANDIN, 0, 0, true, null);

    /// Whose driver it is.
    public enum Driver {
        /// `libcuda.so.1` of the system.
        SYSTEM,
        /// The library of the jar that runs the same kernels on the CPU, for development and tests.
        STANDIN;

        /// As the configuration writes it.
        public String id() {
            return this == SYSTEM ? "system" : "standin";
        }
    }

    /// The first device of a driver.
    ///
    /// @param id as the configuration writes it: `system` or `standin`
    public static CudaConfig of(String id) {
        return switch (id) {
            case "system" -> SYSTEM;
            case "standin" -> STANDIN;
            default -> throw new IllegalArgumentException("expected system or standin, got \"" + id + "\"");
        };
    }

    public CudaConfig {
        if (device < 0 || memoryBytes < 0) {
            throw new IllegalArgumentException("cuda: device " + device + ", " + memoryBytes + " bytes");
        }
    }

    public CudaConfig withDevice(int value) {
        return new CudaConfig(driver, value, memoryBytes, separate, image);
    }

    public CudaConfig withMemoryBytes(long value) {
        return new CudaConfig(driver, device, value, separate, image);
    }

    public CudaConfig withSeparate(boolean value) {
        return new CudaConfig(driver, device, memoryBytes, value, image);
    }

    public CudaConfig withImage(@Nullable String value) {
        return new CudaConfig(driver, device, memoryBytes, separate, value);
    }
}

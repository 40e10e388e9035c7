package millrace.engine;

import java.util.List;
import millrace.engine.kernel.cuda.DeviceBandwidth;

/// What a CUDA device and its driver are, and how fast the device copies its own memory: the limit of everything that
/// reads weights or a cache.
///
/// @param description name, ordinal, compute capability, driver, memory
/// @param kernels which image the driver loaded, and the SHA-256 of it
/// @param missing functions that JCuda's library asks for and the driver has not; none of them is used
/// @param copyBytesPerSecond bytes read and written by a copy within the device, in a second; median
public record DeviceFacts(
        String name, String description, String kernels, List<String> missing, double copyBytesPerSecond, boolean standin) {
    public DeviceFacts {
        missing = List.copyOf(missing);
    }

    /// Opens the device, looks, measures for about a second, and closes it.
    ///
    /// @throws BackendException for a device that cannot be had
    public static DeviceFacts of(CudaConfig config) {
        try (DeviceBandwidth device = new DeviceBandwidth(config)) {
            return new DeviceFacts(
                    device.device().name(), device.device().describe(), device.kernels(), device.missing(),
                    device.medianBytesPerSecond(), device.device().standin());
        }
    }
}

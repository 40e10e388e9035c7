package millrace.streams;

import java.util.List;
import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.Device;

/// The stand-in for a CUDA driver runs the kernels of a GPU on the processor. It is for development, and nobody should take its
/// answers for those of a device: a service refuses it unless it was asked for twice, and it says what it is when it starts.
public final class StandIn {
    static final String ALLOWED = "engine.cuda.standin.allowed";

    private StandIn() {}

    /// @throws BackendException `CUDA_STANDIN_REFUSED` if the configuration asks for the stand-in and does not allow it
    public static void requireAllowed(ServiceConfig config) {
        boolean asked = config.string("engine.backend").equals("cuda")
                && config.string("engine.cuda.driver").equals(CudaConfig.Driver.STANDIN.id());
        if (asked && !config.flag(ALLOWED)) {
            throw new BackendException("CUDA_STANDIN_REFUSED", "engine.cuda.driver: expected system for a service, got standin, which"
                    + " is no device and runs kernels on the processor for development; set engine.cuda.driver to system, or"
                    + " engine.backend to auto, or " + ALLOWED + "=true if this is meant");
        }
    }

    /// What is said at the start, line by line; nothing of a device that is one.
    static List<String> banner(Device device) {
        return device.standIn()
                ? List.of(
                        "*".repeat(100),
                        "* THIS IS NO GPU: " + device.name() + " runs the kernels on the processor.",
                        "* It is for development. Every attestation of this process says so (standin).",
                        "*".repeat(100))
                : List.of();
    }
}

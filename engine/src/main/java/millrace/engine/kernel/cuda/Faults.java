package millrace.engine.kernel.cuda;

import java.util.function.Supplier;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import millrace.engine.DeviceException;
import org.jspecify.annotations.Nullable;

/// What the results of driver calls mean, and whether the device is lost.
///
/// Some errors end the context: a kernel that read where it must not, memory that cannot be corrected. After one every
/// call fails; nothing on the device can be used again in this process. The first such error is kept, and later calls
/// report it rather than the noise that follows.
final class Faults {
    // Results of drivers that are newer than JCuda.
    private static final int CONTAINED = 226;
    private static final int TENSOR_MEMORY_LEAK = 721;

    private final String device;
    private final Supplier<String> words;
    private String launched = "";
    private volatile @Nullable DeviceException failure;

    /// @param device for the messages
    /// @param words what the driver has to say of its last failure beyond the result; empty for nothing
    Faults(String device, Supplier<String> words) {
        this.device = device;
        this.words = words;
    }

    /// Notes what is launched, for the report of a later call.
    void launched(String kernel) {
        launched = kernel;
    }

    @Nullable DeviceException failure() {
        return failure;
    }

    /// Throws if a call has failed.
    ///
    /// @param call name of the driver's function
    void check(int result, String call) {
        check(result, call, "");
    }

    /// The same of a call that says more than its result.
    ///
    /// @param said in one line; empty for nothing
    void check(int result, String call, String said) {
        if (result != CUresult.CUDA_SUCCESS) {
            throw fault(result, call, said, launched);
        }
    }

    /// Throws what ended the context, if something did.
    void requireUsable() {
        DeviceException first = failure;
        if (first != null) {
            throw new DeviceException(
                    first.code(),
                    "the device failed before and this process cannot use it again: " + first.getMessage(),
                    first.result(),
                    first.resultName(),
                    first.kernel(),
                    true);
        }
    }

    private DeviceException fault(int result, String call, String said, String kernel) {
        DeviceException first = failure;
        if (first != null) {
            requireUsable();
        }
        String name = name(result);
        String more = said.isEmpty() ? "" : ", its log: \"" + said + "\"";
        String after = kernel.isEmpty() ? "" : ", kernels up to " + kernel + " were queued before";
        boolean sticky = sticky(result);
        String advice = sticky
                ? "restart the process; if it returns, run it once with CUDA_LAUNCH_BLOCKING=1, which names the kernel"
                : result == CUresult.CUDA_ERROR_OUT_OF_MEMORY
                        ? "lower engine.memory.bytes, or end what else uses the device"
                        : "restart the process, and report this if it returns";
        DeviceException fault = new DeviceException(
                result == CUresult.CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_MEMORY" : "CUDA_FAILED",
                "%s: %s: expected success, got %s (%d): %s%s%s; %s"
                        .formatted(device, call, name, result, description(result), more, after, advice),
                result,
                name,
                kernel,
                sticky);
        if (sticky) {
            failure = fault;
        }
        return fault;
    }

    private String description(int result) {
        String own = words.get();
        if (!own.isEmpty()) {
            return own;
        }
        String[] text = new String[1];
        JCudaDriver.cuGetErrorString(result, text);
        return text[0] == null ? name(result) : text[0];
    }

    /// The driver's name for a result.
    static String name(int result) {
        String[] text = new String[1];
        JCudaDriver.cuGetErrorName(result, text);
        return text[0] == null ? "CUresult " + result : text[0];
    }

    /// Whether a result says that the context cannot be used again.
    static boolean sticky(int result) {
        return switch (result) {
            case CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE,
                    CUresult.CUDA_ERROR_ECC_UNCORRECTABLE,
                    CUresult.CUDA_ERROR_NVLINK_UNCORRECTABLE,
                    CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,
                    CUresult.CUDA_ERROR_LAUNCH_TIMEOUT,
                    CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,
                    CUresult.CUDA_ERROR_ASSERT,
                    CUresult.CUDA_ERROR_HARDWARE_STACK_ERROR,
                    CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION,
                    CUresult.CUDA_ERROR_MISALIGNED_ADDRESS,
                    CUresult.CUDA_ERROR_INVALID_ADDRESS_SPACE,
                    CUresult.CUDA_ERROR_INVALID_PC,
                    CUresult.CUDA_ERROR_LAUNCH_FAILED,
                    CUresult.CUDA_ERROR_MPS_CLIENT_TERMINATED,
                    CUresult.CUDA_ERROR_EXTERNAL_DEVICE,
                    CUresult.CUDA_ERROR_UNKNOWN,
                    CONTAINED,
                    TENSOR_MEMORY_LEAK ->
                true;
            default -> false;
        };
    }
}

package millrace.engine;

/// A call of the device's driver that failed, or work of the device that an earlier call had queued.
///
/// Device and driver work on their own time: what went wrong in a kernel is reported by a later call. [#kernel] is
/// therefore the kernel that was launched last before the report, and the message says so.
public final class DeviceException extends BackendException {
    private static final long serialVersionUID = 1L;
    private final int result;
    private final String resultName;
    private final String kernel;
    private final boolean sticky;

    /// @param code stable: `CUDA_FAILED` or `CUDA_MEMORY`
    /// @param result the driver's number for the error
    /// @param resultName the driver's name for it
    /// @param kernel the kernel or graph that was launched last, empty if there was none
    /// @param sticky whether the device can do nothing more in this process
    public DeviceException(
            String code, String message, int result, String resultName, String kernel, boolean sticky) {
        super(code, message);
        this.result = result;
        this.resultName = resultName;
        this.kernel = kernel;
        this.sticky = sticky;
    }

    /// The driver's number for the error, a `CUresult`.
    public int result() {
        return result;
    }

    /// The driver's name for the error, such as `CUDA_ERROR_LAUNCH_FAILED`.
    public String resultName() {
        return resultName;
    }

    /// The kernel or graph that was launched last, empty if there was none.
    public String kernel() {
        return kernel;
    }

    /// Whether the device can do nothing more in this process.
    public boolean sticky() {
        return sticky;
    }
}

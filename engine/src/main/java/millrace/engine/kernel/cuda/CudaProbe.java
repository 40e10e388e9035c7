package millrace.engine.kernel.cuda;

import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import org.jspecify.annotations.Nullable;

/// Whether there is a driver and a device that can run the kernels, asked before a class of JCuda is loaded.
///
/// Each refusal has a code of its own and says what to do. The order is that of the causes: platform, driver, its age,
/// devices, the device's age.
public final class CudaProbe {
    /// What kernels in PTX ISA 8.0 need: the driver of CUDA 12.0, 525 and newer.
    static final int LEAST_DRIVER = 12_000;

    /// BF16 tensor cores and asynchronous copies.
    static final int LEAST_MAJOR = 8;

    private static final int NO_DEVICE = 100;
    private static final int ATTRIBUTE_MAJOR = 75;
    private static final int ATTRIBUTE_MINOR = 76;
    static final String INSTEAD =
            "set engine.backend to auto, or engine.cuda.driver to standin to run the kernels on the CPU";

    private static final String PREFIX = "backend \"cuda\": ";
    private static final String ADVICE = "; ";

    private CudaProbe() {}

    /// The device that a configuration names.
    ///
    /// @throws BackendException `CUDA_PLATFORM`, `CUDA_NO_DRIVER`, `CUDA_NO_STANDIN`, `CUDA_DRIVER_MIXED`,
    ///         `CUDA_DRIVER_OLD`, `CUDA_DRIVER_FAILED`, `CUDA_NO_DEVICE` or `CUDA_DEVICE_OLD`
    public static CudaDevice probe(CudaConfig config) {
        return probe(CudaLibraries.driver(config.driver()), config);
    }

    static CudaDevice probe(DriverCalls driver, CudaConfig config) {
        boolean wanted = config.driver() == CudaConfig.Driver.STANDIN;
        if (driver.standin() != wanted) {
            throw mixed(config.driver());
        }
        var answer = new DriverCalls.Answer();
        // Before cuInit, which an old driver passes: its age is the better reason.
        require(driver, driver.version(answer), "cuDriverGetVersion");
        int version = answer.number;
        if (version < LEAST_DRIVER) {
            throw refused(
                    "CUDA_DRIVER_OLD",
                    "expected a driver of CUDA %s or newer, version 525 and up, got one of CUDA %s"
                            .formatted(CudaDevice.version(LEAST_DRIVER), CudaDevice.version(version)),
                    "update the driver, or " + INSTEAD);
        }
        int devices = devices(driver, answer);
        if (config.device() >= devices) {
            throw refused(
                    "CUDA_NO_DEVICE",
                    "engine.cuda.device: expected an ordinal below %d, the number of devices, got %d"
                            .formatted(devices, config.device()),
                    "lower it, check that this process may see the device (nvidia-smi, CUDA_VISIBLE_DEVICES), or "
                            + INSTEAD);
        }
        return device(driver, config.device(), version, answer);
    }

    private static int devices(DriverCalls driver, DriverCalls.Answer answer) {
        int result = driver.init();
        if (result == NO_DEVICE) {
            return 0;
        }
        require(driver, result, "cuInit");
        require(driver, driver.deviceCount(answer), "cuDeviceGetCount");
        return answer.number;
    }

    private static CudaDevice device(DriverCalls driver, int ordinal, int version, DriverCalls.Answer answer) {
        require(driver, driver.deviceName(ordinal, answer), "cuDeviceGetName");
        require(driver, driver.deviceMemory(ordinal, answer), "cuDeviceTotalMem");
        require(driver, driver.deviceAttribute(ordinal, ATTRIBUTE_MAJOR, answer), "cuDeviceGetAttribute");
        int major = answer.number;
        require(driver, driver.deviceAttribute(ordinal, ATTRIBUTE_MINOR, answer), "cuDeviceGetAttribute");
        if (major < LEAST_MAJOR) {
            throw refused(
                    "CUDA_DEVICE_OLD",
                    "device %d, %s: expected compute capability %d.0 or newer, got %d.%d"
                            .formatted(ordinal, answer.text, LEAST_MAJOR, major, answer.number),
                    "take another device by engine.cuda.device, or " + INSTEAD);
        }
        return new CudaDevice(ordinal, answer.text, major, answer.number, version, answer.bytes, driver.standin());
    }

    private static void require(DriverCalls driver, int result, String call) {
        if (result != 0) {
            throw refused(
                    "CUDA_DRIVER_FAILED",
                    "%s: expected success, got %s (%d)".formatted(call, driver.resultName(result), result),
                    "check with nvidia-smi that the driver's kernel module is loaded and of the library's version, or "
                            + INSTEAD);
        }
    }

    /// A process has one libcuda: whoever was first is found under its name by all that come later.
    static BackendException mixed(CudaConfig.Driver wanted) {
        return refused(
                "CUDA_DRIVER_MIXED",
                "engine.cuda.driver: expected the driver that this process loaded first, got " + wanted.id(),
                "a process can have one driver; start another process for this one");
    }

    /// Why a driver or its device cannot be used, without advice; null if it can.
    public static @Nullable String missing(CudaConfig config) {
        try {
            probe(config);
            return null;
        } catch (BackendException e) {
            String why = String.valueOf(e.getMessage()).substring(PREFIX.length());
            return why.substring(0, why.indexOf(ADVICE));
        }
    }

    /// @param why where, what, expected and got
    /// @param advice what to do
    static BackendException refused(String code, String why, String advice) {
        return new BackendException(code, PREFIX + why + ADVICE + advice);
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import org.junit.jupiter.api.Test;

final class CudaProbeTest {
    private static final String INSTEAD =
            "set engine.backend to auto, or engine.cuda.driver to standin to run the kernels on the CPU";

    private final FakeDriver driver = new FakeDriver();

    /// A machine with two H200 and the driver of CUDA 12.8, until a test changes it.
    private static final class FakeDriver implements DriverCalls {
        private boolean standin;
        private int initResult;
        private int versionResult;
        private int version = 12_080;
        private int devices = 2;
        private int major = 9;

        @Override
        public boolean standin() {
            return standin;
        }

        @Override
        public boolean has(String function) {
            return true;
        }

        @Override
        public int init() {
            return initResult;
        }

        @Override
        public int version(Answer answer) {
            answer.number = version;
            return versionResult;
        }

        @Override
        public int deviceCount(Answer answer) {
            answer.number = devices;
            return 0;
        }

        @Override
        public int deviceName(int device, Answer answer) {
            answer.text = "H200 number " + device;
            return 0;
        }

        @Override
        public int deviceMemory(int device, Answer answer) {
            answer.bytes = 141L << 30;
            return 0;
        }

        @Override
        public int deviceAttribute(int device, int attribute, Answer answer) {
            answer.number = attribute == 75 ? major : 0;
            return 0;
        }

        @Override
        public String message() {
            return "";
        }

        @Override
        public String resultName(int result) {
            return "CUDA_ERROR_" + result;
        }
    }

    @Test
    void deviceThatAnswersShouldBeDescribed() {
        CudaDevice device = CudaProbe.probe(driver, CudaConfig.SYSTEM.withDevice(1));
        assertThat(device).isEqualTo(new CudaDevice(1, "H200 number 1", 9, 0, 12_080, 141L << 30, false));
        assertThat(device.describe())
                .isEqualTo("H200 number 1, device 1, compute capability 9.0, driver of CUDA 12.8, 144384 MiB");
    }

    @Test
    void oldDriverShouldBeRefused() {
        driver.version = 11_080;
        // Its age is the reason, not what it says to the next call.
        driver.initResult = 3;
        refused("CUDA_DRIVER_OLD", "expected a driver of CUDA 12.0 or newer, version 525 and up, got one of CUDA 11.8",
                "update the driver, or " + INSTEAD);
    }

    @Test
    void noDeviceShouldBeRefused() {
        String advice = "lower it, check that this process may see the device (nvidia-smi, CUDA_VISIBLE_DEVICES), or " + INSTEAD;
        driver.initResult = 100;
        refused("CUDA_NO_DEVICE", "engine.cuda.device: expected an ordinal below 0, the number of devices, got 0", advice);
        driver.initResult = 0;
        driver.devices = 0;
        refused("CUDA_NO_DEVICE", "engine.cuda.device: expected an ordinal below 0, the number of devices, got 0", advice);
    }

    @Test
    void deviceThatIsNotThereShouldBeRefused() {
        assertThatThrownBy(() -> CudaProbe.probe(driver, CudaConfig.SYSTEM.withDevice(2)))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_NO_DEVICE"))
                .hasMessageContaining("expected an ordinal below 2, the number of devices, got 2");
    }

    @Test
    void oldDeviceShouldBeRefused() {
        driver.major = 7;
        refused("CUDA_DEVICE_OLD", "device 0, H200 number 0: expected compute capability 8.0 or newer, got 7.0",
                "take another device by engine.cuda.device, or " + INSTEAD);
    }

    @Test
    void driverThatFailsShouldBeRefusedByItsOwnName() {
        String advice = "check with nvidia-smi that the driver's kernel module is loaded and of the library's version, or " + INSTEAD;
        driver.initResult = 804;
        refused("CUDA_DRIVER_FAILED", "cuInit: expected success, got CUDA_ERROR_804 (804)", advice);
        driver.versionResult = 999;
        refused("CUDA_DRIVER_FAILED", "cuDriverGetVersion: expected success, got CUDA_ERROR_999 (999)", advice);
    }

    /// The stand-in has the driver's name once it is loaded: asked for by name it must not be taken for the system's.
    @Test
    void standinShouldNotBeTakenForTheSystemsDriver() {
        driver.standin = true;
        refused("CUDA_DRIVER_MIXED", "engine.cuda.driver: expected the driver that this process loaded first, got system",
                "a process can have one driver; start another process for this one");
    }

    private void refused(String code, String why, String advice) {
        assertThatThrownBy(() -> CudaProbe.probe(driver, CudaConfig.SYSTEM))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo(code))
                .hasMessage("backend \"cuda\": " + why + "; " + advice);
    }

    @Test
    void missingDriverShouldBeNamedWithoutTheAdvice() {
        String missing = CudaProbe.missing(CudaConfig.SYSTEM);
        assumeTrue(missing != null, "a device is here");
        assertThat(missing).doesNotContain("; ").startsWith("e");
    }

    @Test
    void standinShouldAnswerAsOne() {
        StandIn.assumePresent();
        CudaDevice device = CudaProbe.probe(CudaConfig.STANDIN);
        assertThat(device.standin()).isTrue();
        assertThat(device.name()).isEqualTo("Millrace CUDA stand-in (CPU)");
        assertThatThrownBy(() -> CudaProbe.probe(CudaConfig.STANDIN.withDevice(1)))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_NO_DEVICE"));
    }
}

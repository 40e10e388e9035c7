package millrace.engine.kernel.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import millrace.engine.CudaConfig;

/// The driver that runs kernels on the CPU, as tests use it; or, where [DeviceContract] runs them, the system's.
public final class StandIn {
    /// Whose driver the tests use: `standin`, or `system` on a machine with a device.
    static final CudaConfig.Driver DRIVER = CudaConfig.of(System.getProperty("millrace.test.cuda.driver", "standin")).driver();

    private static final boolean HERE = DRIVER == CudaConfig.Driver.STANDIN;

    private StandIn() {}

    /// In which order threads and blocks go on.
    enum Schedule {
        FORWARD,
        REVERSE,
        SHUFFLED
    }

    /// Takes an option back.
    public interface Setting extends AutoCloseable {
        default void during(Runnable check) {
            check.run();
        }

        @Override
        void close();
    }

    /// Skips the test where there is none.
    public static void assumePresent() {
        assumeTrue(CudaLibraries.resource("libcuda-standin.so") != null, "built without a C++ compiler");
    }

    /// A device, for as long as the caller wants; without a stand-in the test is skipped.
    static Gpu open() {
        if (HERE) {
            assumePresent();
        }
        return Gpu.open(config());
    }

    /// What [#open] opens.
    public static CudaConfig config() {
        return CudaConfig.of(DRIVER.id()).withSeparate(HERE).withImage(System.getProperty("millrace.test.cuda.image"));
    }

    /// Runs a check in every order of threads and blocks; a real device has its own.
    static void inEverySchedule(Runnable check) {
        if (!HERE) {
            check.run();
            return;
        }
        for (Schedule schedule : Schedule.values()) {
            try (Setting setting = with("schedule", schedule.ordinal())) {
                setting.during(check);
            }
        }
    }

    /// Changes an option of emulator/options.h while a device is open.
    public static Setting with(String option, long value) {
        assumeTrue(HERE, "the driver is a real one");
        return StandinOptions.ofTheDriver().set(option, value)::close;
    }

    /// Makes the driver what the next process would find: nothing failed, nothing is there. No device may be open.
    public static void reset() {
        StandinOptions.ofTheDriver().reset();
    }
}

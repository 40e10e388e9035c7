package millrace.engine.kernel.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Locale;
import millrace.engine.CudaConfig;

/// The driver that runs kernels on the CPU, as tests use it; or, where [DeviceContract] runs them, the system's.
public final class StandIn {
    /// Whose driver the tests use: `standin`, or `system` on a machine with a device.
    static final CudaConfig.Driver DRIVER = CudaConfig.of(System.getProperty("millrace.test.cuda.driver", "standin")).driver();

    private static final boolean HERE = DRIVER == CudaConfig.Driver.STANDIN;
    private static final long REFUSED = Long.MIN_VALUE;
    private static final FunctionDescriptor SET =
            FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);

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
        long before = set(option, value);
        if (before == REFUSED) {
            throw new IllegalArgumentException("stand-in: no option " + option.toLowerCase(Locale.ROOT) + " of " + value);
        }
        return () -> set(option, before);
    }

    /// Makes the driver what the next process would find: nothing failed, nothing is there. No device may be open.
    public static void reset() {
        try {
            handle("millrace_cudasim_reset", FunctionDescriptor.ofVoid()).invokeExact();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    private static long set(String option, long value) {
        try (Arena arena = Arena.ofConfined()) {
            return (long) handle("millrace_cudasim_set", SET).invokeExact(arena.allocateFrom(option), value);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /// The library is loaded under the driver's name.
    @SuppressWarnings("restricted")
    private static MethodHandle handle(String symbol, FunctionDescriptor descriptor) {
        var address = SymbolLookup.libraryLookup("libcuda.so.1", Arena.global()).findOrThrow(symbol);
        return Linker.nativeLinker().downcallHandle(address, descriptor);
    }
}

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

/// The driver that runs kernels on the CPU, as tests use it.
public final class StandIn {
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
        assumePresent();
        return Gpu.open(CudaConfig.STANDIN);
    }

    /// Runs a check in every order of threads and blocks.
    static void inEverySchedule(Runnable check) {
        for (Schedule schedule : Schedule.values()) {
            try (Setting setting = with("schedule", schedule.ordinal())) {
                setting.during(check);
            }
        }
    }

    /// Changes an option of emulator/options.h while a device is open.
    public static Setting with(String option, long value) {
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

package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.LinkedHashMap;
import java.util.Map;

/// How the emulator of a process behaves, changed for a test and put back when it is closed: see docs/gpu.md.
///
/// Options of the stand-in are changed while no launch is on its way.
public final class StandinOptions implements AutoCloseable {
    public static final long FORWARD = 0;
    public static final long REVERSE = 1;
    public static final long SHUFFLED = 2;
    public static final long LATE = 0;
    public static final long EARLY = 1;
    public static final long MIXED = 2;

    private final MethodHandle set;
    private final MethodHandle count;
    private final MethodHandle message;
    private final MethodHandle reset;
    private final Map<String, Long> before = new LinkedHashMap<>();

    @SuppressWarnings("restricted")
    StandinOptions(SymbolLookup library) {
        var linker = Linker.nativeLinker();
        set = linker.downcallHandle(
                library.find("millrace_cudasim_set").orElseThrow(),
                FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG));
        count = linker.downcallHandle(
                library.find("millrace_cudasim_count").orElseThrow(),
                FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS));
        message = linker.downcallHandle(
                library.find("millrace_cudasim_message").orElseThrow(),
                FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG));
        reset = linker.downcallHandle(library.find("millrace_cudasim_reset").orElseThrow(), FunctionDescriptor.ofVoid());
    }

    /// Those of the stand-in driver that a [Gpu] of this process has loaded.
    @SuppressWarnings("restricted")
    public static StandinOptions ofTheDriver() {
        return new StandinOptions(SymbolLookup.libraryLookup("libcuda.so.1", Arena.global()));
    }

    /// Changes one: `threads`, `schedule`, `seed`, `landing`, `lazy`, `guard`, `poison`, `memory`, `truncate` or `log`.
    public StandinOptions set(String option, long value) {
        long old = call(option, value);
        if (old == Long.MIN_VALUE) {
            throw new IllegalArgumentException(option + " cannot be " + value);
        }
        before.putIfAbsent(option, old);
        return this;
    }

    /// A figure: `blocks` or `switches` since the process began, `bytes` of device memory in use.
    public long count(String figure) {
        try (Arena arena = Arena.ofConfined()) {
            return (long) count.invokeExact(arena.allocateFrom(figure));
        } catch (Throwable e) {
            throw new IllegalStateException(figure, e);
        }
    }

    /// The last failure, in the emulator's words.
    public String message() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = arena.allocate(2048);
            long ignored = (long) message.invokeExact(text, text.byteSize());
            return text.getString(0);
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /// Makes the driver as it is at the start of a process. Nothing that was opened before may be used again.
    public void reset() {
        try {
            reset.invokeExact();
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    private long call(String option, long value) {
        try (Arena arena = Arena.ofConfined()) {
            return (long) set.invokeExact(arena.allocateFrom(option), value);
        } catch (Throwable e) {
            throw new IllegalStateException(option, e);
        }
    }

    @Override
    public void close() {
        before.forEach(this::call);
        before.clear();
    }
}

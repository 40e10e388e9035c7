package millrace.engine.kernel.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.file.Path;

/// The library of kernels with planted mistakes, called directly: one kernel on host memory, without a driver.
///
/// Options go back to their defaults when it is closed.
final class Emulator implements AutoCloseable {
    private static final ValueLayout.OfInt I = ValueLayout.JAVA_INT;
    private static final ValueLayout.OfLong L = ValueLayout.JAVA_LONG;
    private static final MemoryLayout P = ValueLayout.ADDRESS;
    private static final int MESSAGE_BYTES = 1024;

    /// What a launch came to.
    ///
    /// @param code 0 for success, 1 for a failure, 2 for an address that is not the kernel's
    /// @param message why it failed
    record Result(int code, String message) {}

    /// How many blocks and threads, in up to three dimensions, and bytes of dynamic shared memory.
    record Shape(int gridX, int gridY, int gridZ, int blockX, int blockY, int blockZ, long sharedBytes) {
        static Shape of(int blocks, int threads, long sharedBytes) {
            return new Shape(blocks, 1, 1, threads, 1, 1, sharedBytes);
        }
    }

    final Arena arena = Arena.ofConfined();
    private final SymbolLookup library;
    private final MethodHandle run;
    private final StandinOptions options;

    @SuppressWarnings("restricted")
    private Emulator(SymbolLookup library) {
        this.library = library;
        run = Linker.nativeLinker().downcallHandle(
                library.find("planted_run").orElseThrow(), FunctionDescriptor.of(I, P, I, I, I, I, I, I, L, P, P));
        options = new StandinOptions(library);
    }

    /// Opens it, or skips the test where it was not built.
    @SuppressWarnings("restricted")
    static Emulator open() {
        URL library = Emulator.class.getResource("libcuda-planted.so");
        assumeTrue(library != null, "built without a C++ compiler");
        try {
            return new Emulator(SymbolLookup.libraryLookup(Path.of(library.toURI()), Arena.global()));
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    Emulator with(String option, long value) {
        options.set(option, value);
        return this;
    }

    /// Runs a kernel.
    ///
    /// @param arguments segments for pointers, Integer and Long for numbers
    Result run(String kernel, Shape shape, Object... arguments) {
        MemorySegment pointers = arena.allocate(P, Math.max(1, arguments.length));
        for (int i = 0; i < arguments.length; i++) {
            MemorySegment value = switch (arguments[i]) {
                case MemorySegment s -> arena.allocateFrom(L, s.address());
                case Integer n -> arena.allocateFrom(I, n);
                case Long n -> arena.allocateFrom(L, n);
                default -> throw new IllegalArgumentException("argument " + i + ": " + arguments[i]);
            };
            pointers.setAtIndex(ValueLayout.ADDRESS, i, value);
        }
        MemorySegment message = arena.allocate(MESSAGE_BYTES);
        try {
            int code = (int) run.invokeExact(
                    arena.allocateFrom(kernel), shape.gridX, shape.gridY, shape.gridZ, shape.blockX, shape.blockY, shape.blockZ,
                    shape.sharedBytes, pointers, message);
            return new Result(code, message.getString(0));
        } catch (Throwable e) {
            throw new IllegalStateException(kernel, e);
        }
    }

    /// Calls the driver API of the library: Integer, Long and segments as they are.
    @SuppressWarnings("restricted")
    int driver(String function, Object... arguments) {
        MemoryLayout[] layouts = new MemoryLayout[arguments.length];
        for (int i = 0; i < arguments.length; i++) {
            layouts[i] = arguments[i] instanceof Integer ? I : arguments[i] instanceof Long ? L : P;
        }
        MethodHandle call = Linker.nativeLinker()
                .downcallHandle(library.find(function).orElseThrow(), FunctionDescriptor.of(I, layouts));
        try {
            return (int) call.invokeWithArguments(arguments);
        } catch (Throwable e) {
            throw new IllegalStateException(function, e);
        }
    }

    String driverMessage() {
        return options.message();
    }

    void resetDriver() {
        options.reset();
    }

    MemorySegment floats(int count) {
        MemorySegment s = arena.allocate(4L * count, 256);
        for (int i = 0; i < count; i++) {
            s.setAtIndex(ValueLayout.JAVA_FLOAT, i, i);
        }
        return s;
    }

    float[] toFloats(MemorySegment s) {
        return s.toArray(ValueLayout.JAVA_FLOAT);
    }

    MemorySegment words(int... values) {
        MemorySegment s = arena.allocate(4L * values.length, 256);
        MemorySegment.copy(values, 0, s, I, 0, values.length);
        return s;
    }

    @Override
    public void close() {
        options.close();
        arena.close();
    }
}

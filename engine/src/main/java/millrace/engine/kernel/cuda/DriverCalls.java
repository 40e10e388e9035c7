package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/// The few calls that tell whether a driver and a device can be used, before a class of JCuda is touched: JCuda's cannot
/// be loaded where there is no driver, and once that has failed it fails for good.
///
/// Results are the driver's, 0 for success; what a call finds out is left in the fields of [Answer].
interface DriverCalls {
    /// Where a call puts what it found out.
    final class Answer {
        int number;
        long bytes;
        String text = "";
    }

    /// Whether this is the library that runs kernels on the CPU.
    boolean standin();

    int init();

    /// Whether the library has a function.
    boolean has(String function);

    /// The driver's version, 1000 · major + 10 · minor, into `number`.
    int version(Answer answer);

    /// How many devices there are, into `number`.
    int deviceCount(Answer answer);

    /// A device's name, into `text`.
    int deviceName(int device, Answer answer);

    /// All of a device's memory, into `bytes`.
    int deviceMemory(int device, Answer answer);

    /// An attribute of a device, into `number`.
    int deviceAttribute(int device, int attribute, Answer answer);

    /// The driver's name for a result.
    String resultName(int result);

    /// What the stand-in says of its last failure; empty of a driver, which says nothing but the result.
    String message();

    /// The calls of an opened library.
    ///
    /// @throws IllegalArgumentException if it lacks one of them
    static DriverCalls of(SymbolLookup library) {
        return new Foreign(library);
    }

    /// The calls by the foreign-function API.
    final class Foreign implements DriverCalls {
        private static final ValueLayout.OfInt I = ValueLayout.JAVA_INT;
        private static final MemoryLayout P = ValueLayout.ADDRESS;
        private static final int NAME = 256;
        private static final long MESSAGE = 4096;

        private final SymbolLookup library;
        private final MethodHandle init;
        private final MethodHandle version;
        private final MethodHandle count;
        private final MethodHandle name;
        private final MethodHandle memory;
        private final MethodHandle attribute;
        private final MethodHandle errorName;

        Foreign(SymbolLookup library) {
            this.library = library;
            init = handle("cuInit", FunctionDescriptor.of(I, I));
            version = handle("cuDriverGetVersion", FunctionDescriptor.of(I, P));
            count = handle("cuDeviceGetCount", FunctionDescriptor.of(I, P));
            name = handle("cuDeviceGetName", FunctionDescriptor.of(I, P, I, I));
            memory = handle("cuDeviceTotalMem_v2", FunctionDescriptor.of(I, P, I));
            attribute = handle("cuDeviceGetAttribute", FunctionDescriptor.of(I, P, I, I));
            errorName = handle("cuGetErrorName", FunctionDescriptor.of(I, I, P));
        }

        @SuppressWarnings("restricted")
        private MethodHandle handle(String symbol, FunctionDescriptor descriptor) {
            MemorySegment address = library.find(symbol)
                    .orElseThrow(() -> new IllegalArgumentException("the driver's library has no " + symbol));
            return Linker.nativeLinker().downcallHandle(address, descriptor);
        }

        @Override
        public boolean has(String function) {
            return library.find(function).isPresent();
        }

        @Override
        public boolean standin() {
            return library.find(CudaLibraries.STANDIN_MARK).isPresent();
        }

        private interface Call {
            int run(MemorySegment out) throws Throwable;
        }

        private static int call(MemorySegment out, Call call) {
            try {
                return call.run(out);
            } catch (RuntimeException | Error e) {
                throw e;
            } catch (Throwable e) {
                throw new IllegalStateException("a call of the driver", e);
            }
        }

        private static int number(Answer answer, Call call) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment out = arena.allocate(I);
                int result = call(out, call);
                answer.number = out.get(I, 0);
                return result;
            }
        }

        @Override
        public int init() {
            return call(MemorySegment.NULL, _ -> (int) init.invokeExact(0));
        }

        @Override
        public int version(Answer answer) {
            return number(answer, out -> (int) version.invokeExact(out));
        }

        @Override
        public int deviceCount(Answer answer) {
            return number(answer, out -> (int) count.invokeExact(out));
        }

        @Override
        public int deviceName(int device, Answer answer) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = arena.allocate(NAME);
                int result = call(text, out -> (int) name.invokeExact(out, NAME - 1, device));
                answer.text = text.getString(0);
                return result;
            }
        }

        @Override
        public int deviceMemory(int device, Answer answer) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG);
                int result = call(bytes, out -> (int) memory.invokeExact(out, device));
                answer.bytes = bytes.get(ValueLayout.JAVA_LONG, 0);
                return result;
            }
        }

        @Override
        public int deviceAttribute(int device, int number, Answer answer) {
            return number(answer, out -> (int) attribute.invokeExact(out, number, device));
        }

        @Override
        @SuppressWarnings("restricted")
        public String message() {
            if (!standin()) {
                return "";
            }
            MethodHandle message = handle(
                    CudaLibraries.STANDIN_MESSAGE, FunctionDescriptor.of(ValueLayout.JAVA_LONG, P, ValueLayout.JAVA_LONG));
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment text = arena.allocate(MESSAGE);
                call(text, out -> (int) (long) message.invokeExact(out, MESSAGE));
                return text.getString(0);
            }
        }

        @Override
        @SuppressWarnings("restricted")
        public String resultName(int result) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment pointer = arena.allocate(P);
                if (call(pointer, out -> (int) errorName.invokeExact(result, out)) != 0) {
                    return "CUresult " + result;
                }
                MemorySegment text = pointer.get(ValueLayout.ADDRESS, 0);
                return text.equals(MemorySegment.NULL) ? "CUresult " + result : text.reinterpret(NAME).getString(0);
            }
        }
    }
}

package millrace.engine.kernel.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import org.jspecify.annotations.Nullable;

/// The functions of the library for this processor. Handles are constants, so that a call costs a few nanoseconds.
///
/// All are called as critical: Java arrays go down by their address, which holds up the garbage collector for as long
/// as a call takes. So a call must stay well below a millisecond.
///
/// The system property `millrace.native.level` lowers the instruction set; it is there for tests.
final class Symbols {
    private static final Linker LINKER = Linker.nativeLinker();
    private static final NativeLibrary LIBRARY = NativeLibrary.open();

    /// 0: none; 1: AVX2 and FMA; 2: AVX-512 F, BW, VL and DQ; 3: with VBMI and VNNI.
    static final int LEVEL = level();

    /// Names of the instruction sets whose functions this processor can run, best first.
    private static final String[] SETS =
            switch (LEVEL) {
                case 0 -> new String[0];
                case 1 -> new String[] {"avx2"};
                case 2 -> new String[] {"avx512"};
                default -> new String[] {"avx512vnni", "avx512"};
            };

    private static final FunctionDescriptor PROJECT = FunctionDescriptor.ofVoid(
            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG,
            ADDRESS, JAVA_LONG);

    static final MethodHandle PROJECT_F32 = bind("project_f32", PROJECT);
    static final MethodHandle PROJECT_BF16 = bind("project_bf16", PROJECT);
    static final MethodHandle PROJECT_PACKED = bind("project_packed", PROJECT);
    static final MethodHandle PROJECT_INT8 = bind("project_int8", PROJECT);
    static final MethodHandle PROJECT_INT4 = bind("project_int4", PROJECT);
    static final MethodHandle PROJECT_FP8 = bind("project_fp8", PROJECT);
    static final MethodHandle SUM_OF_SQUARES = bind("sum_of_squares", of(JAVA_FLOAT, ADDRESS, JAVA_LONG, JAVA_LONG));
    static final MethodHandle SWIGLU =
            bind("swiglu", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG));
    static final MethodHandle SOFTMAX = bind("softmax", of(JAVA_FLOAT, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_FLOAT));

    static final MethodHandle SCORES_GROUPED = bind(
            "scores_grouped",
            FunctionDescriptor.ofVoid(
                    JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS,
                    JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG));
    static final MethodHandle SCORES_INT8 = bind(
            "scores_int8",
            FunctionDescriptor.ofVoid(
                    ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS,
                    JAVA_LONG, JAVA_LONG));
    static final MethodHandle SUMS_INT8 = bind(
            "sums_int8",
            FunctionDescriptor.ofVoid(
                    ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS,
                    JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG));
    static final MethodHandle SCORES_LATENT = bind(
            "scores_latent",
            FunctionDescriptor.ofVoid(
                    JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
                    JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG,
                    ADDRESS));
    private static final FunctionDescriptor SUMS = FunctionDescriptor.ofVoid(
            JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
            ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG);
    static final MethodHandle SUMS_GROUPED = bind("sums_grouped", SUMS);
    static final MethodHandle SUMS_LATENT = bind("sums_latent", SUMS);

    static final MethodHandle WEIGH = bind(
            "weigh",
            FunctionDescriptor.ofVoid(
                    ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG));
    static final MethodHandle GATHER_LATENT = bind(
            "gather_latent",
            FunctionDescriptor.ofVoid(
                    JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
                    JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    private Symbols() {}

    /// Why no function can be called, or null.
    static @Nullable String missing() {
        if (LIBRARY.symbols() == null) {
            return LIBRARY.reason();
        }
        return LEVEL == 0 ? "the processor has neither AVX2 with FMA nor AVX-512" : null;
    }

    /// The instruction set in use and where the library came from.
    static String description() {
        return (LEVEL >= 2 ? "AVX-512" : "AVX2") + ", library " + LIBRARY.reason();
    }

    private static int level() {
        SymbolLookup symbols = LIBRARY.symbols();
        if (symbols == null) {
            return 0;
        }
        try {
            MethodHandle level = handle(symbols, "cpu_level", FunctionDescriptor.of(JAVA_LONG));
            return (int) Math.min((long) level.invokeExact(), Integer.getInteger("millrace.native.level", 3));
        } catch (Throwable e) {
            throw wrapped(e);
        }
    }

    private static FunctionDescriptor of(MemoryLayout result, MemoryLayout... arguments) {
        return FunctionDescriptor.of(result, arguments);
    }

    /// The best form of a function. One that is missing throws when it is called: the self-test calls all.
    private static MethodHandle bind(String name, FunctionDescriptor type) {
        SymbolLookup symbols = LIBRARY.symbols();
        if (symbols != null) {
            for (String set : SETS) {
                if (symbols.find(name + "_" + set).isPresent()) {
                    return handle(symbols, name + "_" + set, type);
                }
            }
        }
        MethodHandle thrower = MethodHandles.throwException(type.toMethodType().returnType(), UnsatisfiedLinkError.class)
                .bindTo(new UnsatisfiedLinkError("no function " + name + " in the library"));
        return MethodHandles.dropArguments(thrower, 0, type.toMethodType().parameterList());
    }

    @SuppressWarnings("restricted")
    private static MethodHandle handle(SymbolLookup symbols, String name, FunctionDescriptor type) {
        return LINKER.downcallHandle(symbols.findOrThrow(name), type, Linker.Option.critical(true));
    }

    /// What a call of a handle may throw besides errors: nothing.
    static RuntimeException wrapped(Throwable e) {
        return switch (e) {
            case Error error -> throw error;
            case RuntimeException exception -> exception;
            default -> new IllegalStateException(e);
        };
    }
}

package millrace.engine.kernel;

import millrace.engine.BackendException;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.WarmingLoops;
import millrace.engine.kernel.ffi.NativeTier;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;
import org.jspecify.annotations.Nullable;

/// A set of kernels, its name, and why it was chosen.
///
/// Backends of one profile give the same bits; they differ in speed.
///
/// @param name `native`, `vector` or `scalar`
/// @param reason one sentence for the start-up story
public record Backend(String name, String reason, Kernels kernels) implements AutoCloseable {
    private static final String MODULE = "jdk.incubator.vector";
    private static final String ADD_MODULE = "start java with --add-modules " + MODULE;

    /// Opens a backend. This class alone names the vector package, whose classes are loaded only where it uses them.
    ///
    /// @param name `native`, `vector`, `scalar`, or `auto` for the fastest that this machine and JVM can run
    /// @param threads compute threads, the caller's included; 0 takes one per processor
    /// @throws BackendException `BACKEND_UNKNOWN`, or `BACKEND_UNAVAILABLE` if one asked for by name cannot run
    public static Backend open(String name, int threads) {
        boolean vectorModule = ModuleLayer.boot().findModule(MODULE).isPresent();
        boolean nativeWanted = name.equals("native") || name.equals("auto");
        return open(name, threads, vectorModule, nativeWanted ? NativeTier.missing(new ScalarLoops()) : null);
    }

    /// @param nativeMissing why there are no native loops, or null
    static Backend open(String name, int threads, boolean vectorModule, @Nullable String nativeMissing) {
        int team = threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
        return switch (name) {
            case "scalar" -> scalar(team, "asked for");
            case "vector" -> {
                if (!vectorModule) {
                    throw unavailable(
                            "backend \"vector\": expected the module " + MODULE + " in this JVM, got none; " + ADD_MODULE);
                }
                yield vector(team, "asked for", new VectorLoops());
            }
            case "native" -> {
                if (nativeMissing != null) {
                    throw unavailable("backend \"native\": expected the kernel library of this machine, got none: "
                            + nativeMissing + "; set the backend to auto or vector");
                }
                yield ofNative(team, "asked for");
            }
            case "auto" -> {
                if (nativeMissing == null) {
                    yield ofNative(team, "fastest of this machine");
                }
                yield vectorModule
                        ? vector(
                                team,
                                "fastest of this JVM (not native: " + nativeMissing + ")",
                                new WarmingLoops(new ScalarLoops(), new VectorLoops()))
                        : scalar(team, "the module " + MODULE + " is missing: " + ADD_MODULE + " (not native: "
                                + nativeMissing + ")");
            }
            default ->
                throw new BackendException(
                        "BACKEND_UNKNOWN", "backend: expected auto, native, vector or scalar, got \"" + name + "\"");
        };
    }

    /// What the bits of its results depend on: equal profiles, equal bits.
    public String profile() {
        return kernels.profile();
    }

    private static BackendException unavailable(String message) {
        return new BackendException("BACKEND_UNAVAILABLE", message);
    }

    private static Backend ofNative(int threads, String reason) {
        String detail = "; " + NativeTier.description() + ", " + threads(threads);
        return new Backend("native", reason + detail, new CpuKernels(NativeTier.loops(), threads));
    }

    private static Backend scalar(int threads, String reason) {
        return new Backend("scalar", reason + "; " + threads(threads), new CpuKernels(new ScalarLoops(), threads));
    }

    private static Backend vector(int threads, String reason, Loops loops) {
        String detail = "; " + VectorLoops.bits() + " bits, " + threads(threads);
        return new Backend("vector", reason + detail, new CpuKernels(loops, threads));
    }

    private static String threads(int threads) {
        return threads == 1 ? "1 thread" : threads + " threads";
    }

    @Override
    public void close() {
        kernels.close();
    }
}

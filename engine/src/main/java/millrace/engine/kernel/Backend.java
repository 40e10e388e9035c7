package millrace.engine.kernel;

import java.util.Set;
import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.WarmingLoops;
import millrace.engine.kernel.cuda.CudaKernels;
import millrace.engine.kernel.cuda.CudaProbe;
import millrace.engine.kernel.ffi.NativeTier;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;
import org.jspecify.annotations.Nullable;

/// A set of kernels, its name, and why it was chosen.
///
/// Backends of one profile give the same bits; they differ in speed.
///
/// @param name `cuda`, `native`, `vector` or `scalar`
/// @param reason one sentence for the start-up story
public record Backend(String name, String reason, Kernels kernels) implements AutoCloseable {
    private static final String MODULE = "jdk.incubator.vector";
    private static final Set<String> PROCESSOR = Set.of("auto", "native", "vector", "scalar");
    private static final String ADD_MODULE = "start java with --add-modules " + MODULE;

    /// Opens a backend, which may be a GPU.
    ///
    /// @param name `cuda`; `auto` for a GPU of the system's driver where there is one; else as [#open(String, int)]
    /// @param threads compute threads of the processor
    /// @param cuda the device
    /// @throws BackendException as [#open(String, int)], and with the codes of `cuda`'s if that was asked for
    public static Backend open(String name, int threads, CudaConfig cuda) {
        if (name.equals("cuda")) {
            return ofCuda("asked for", threads, cuda);
        }
        if (!PROCESSOR.contains(name)) {
            throw unknown("auto, cuda, native, vector or scalar", name);
        }
        if (!name.equals("auto")) {
            return open(name, threads);
        }
        String missing = "the stand-in is taken only when cuda is asked for";
        if (cuda.driver() == CudaConfig.Driver.SYSTEM) {
            missing = CudaProbe.missing(cuda);
            if (missing == null) {
                return ofCuda("a device and its driver answered", threads, cuda);
            }
        }
        Backend backend = open(name, threads);
        return new Backend(backend.name, backend.reason + "; not cuda: " + missing, backend.kernels);
    }

    private static Backend ofCuda(String reason, int threads, CudaConfig cuda) {
        CudaKernels kernels = CudaKernels.open(cuda, team(threads));
        return new Backend("cuda", reason + "; " + kernels.describe(), kernels);
    }

    private static int team(int threads) {
        return threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
    }

    /// Opens a backend of the processor. This class alone names the vector package, whose classes are loaded only where it uses them.
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
        int team = team(threads);
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
            default -> throw unknown("auto, native, vector or scalar", name);
        };
    }

    /// What the bits of its results depend on: equal profiles, equal bits.
    public String profile() {
        return kernels.profile();
    }

    private static BackendException unknown(String known, String name) {
        return new BackendException("BACKEND_UNKNOWN", "backend: expected " + known + ", got \"" + name + "\"");
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

package millrace.engine.kernel;

import millrace.engine.BackendException;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.WarmingLoops;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;

/// A set of kernels, its name, and why it was chosen.
///
/// All backends give the same bits; they differ in speed.
///
/// @param name `vector` or `scalar`
/// @param reason one sentence for the start-up story
public record Backend(String name, String reason, Kernels kernels) implements AutoCloseable {
    private static final String MODULE = "jdk.incubator.vector";

    /// Opens a backend. This method alone names the vector package, whose classes are loaded only where it uses them.
    ///
    /// @param name `vector`, `scalar`, or `auto` for the fastest that this JVM can run
    /// @param threads compute threads, the caller's included; 0 takes one per processor
    /// @throws BackendException `BACKEND_UNKNOWN`, or `BACKEND_UNAVAILABLE` if one asked for by name cannot run
    public static Backend open(String name, int threads) {
        return open(name, threads, ModuleLayer.boot().findModule(MODULE).isPresent());
    }

    static Backend open(String name, int threads, boolean vectorModule) {
        int team = threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
        return switch (name) {
            case "scalar" -> scalar(team, "asked for");
            case "vector" -> {
                if (!vectorModule) {
                    throw new BackendException(
                            "BACKEND_UNAVAILABLE",
                            "backend \"vector\": expected the module " + MODULE
                                    + " in this JVM, got none; start java with --add-modules " + MODULE);
                }
                yield vector(team, "asked for", new VectorLoops());
            }
            case "auto" ->
                vectorModule
                        ? vector(team, "fastest of this JVM", new WarmingLoops(new ScalarLoops(), new VectorLoops()))
                        : scalar(team, "the module " + MODULE + " is missing: start java with --add-modules " + MODULE);
            default ->
                throw new BackendException(
                        "BACKEND_UNKNOWN", "backend: expected auto, vector or scalar, got \"" + name + "\"");
        };
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

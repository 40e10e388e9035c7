package millrace.engine.kernel.ffi;

import millrace.engine.kernel.cpu.Loops;
import org.jspecify.annotations.Nullable;

/// Whether this machine can run the loops in C, and these loops.
public final class NativeTier {
    private NativeTier() {}

    /// Why the native loops cannot be had, or null if they can. The library is loaded and every function compared with
    /// the specification by the first call, which takes some milliseconds.
    ///
    /// @param specification what the bits must be
    public static @Nullable String missing(Loops specification) {
        String reason = Symbols.missing();
        return reason != null ? reason : SelfTest.failure(new NativeLoops(), specification);
    }

    /// The native loops; call only where nothing is [#missing].
    public static Loops loops() {
        return new NativeLoops();
    }

    /// The instruction set in use and where the library came from.
    public static String description() {
        return Symbols.description();
    }
}

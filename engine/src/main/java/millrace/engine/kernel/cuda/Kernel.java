package millrace.engine.kernel.cuda;

import jcuda.driver.CUfunction;

/// A kernel of the loaded image.
public final class Kernel {
    private final String name;
    private final CUfunction function;
    private final Launch launch;
    private int sharedLimit = DEFAULT_SHARED;

    /// Shared memory that a kernel may have without being asked.
    private static final int DEFAULT_SHARED = 48 << 10;

    Kernel(Gpu gpu, String name, CUfunction function) {
        this.name = name;
        this.function = function;
        launch = new Launch(gpu, this);
    }

    public String name() {
        return name;
    }

    CUfunction function() {
        return function;
    }

    /// The launch that the owner thread uses again and again.
    Launch launch() {
        return launch;
    }

    /// Whether so much dynamic shared memory is more than was ever allowed; it is from now on.
    boolean raiseShared(int bytes) {
        if (bytes <= sharedLimit) {
            return false;
        }
        sharedLimit = bytes;
        return true;
    }

    @Override
    public String toString() {
        return name;
    }
}

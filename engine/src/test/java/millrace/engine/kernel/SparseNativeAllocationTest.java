package millrace.engine.kernel;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import millrace.engine.kernel.ffi.NativeTier;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.BeforeAll;

final class SparseNativeAllocationTest extends SparseAllocationContract {
    SparseNativeAllocationTest() {
        super(NativeTier.loops());
    }

    @BeforeAll
    static void assumeAvailable() {
        String missing = NativeTier.missing(new ScalarLoops());
        assumeTrue(missing == null, "no native kernels here: " + missing);
    }
}

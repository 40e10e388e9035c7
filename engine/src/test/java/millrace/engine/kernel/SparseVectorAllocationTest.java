package millrace.engine.kernel;

import millrace.engine.kernel.vector.VectorLoops;

final class SparseVectorAllocationTest extends SparseAllocationContract {
    SparseVectorAllocationTest() {
        super(new VectorLoops());
    }
}

package millrace.engine.model;

import millrace.engine.KvFormat;

final class GlmVectorInt4AllocationTest extends AllocationContract {
    GlmVectorInt4AllocationTest() {
        super("glm-tiny", KvFormat.INT4, "vector");
    }
}

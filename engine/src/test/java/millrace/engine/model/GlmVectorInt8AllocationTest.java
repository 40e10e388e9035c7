package millrace.engine.model;

import millrace.engine.KvFormat;

final class GlmVectorInt8AllocationTest extends AllocationContract {
    GlmVectorInt8AllocationTest() {
        super("glm-tiny", KvFormat.INT8, "vector");
    }
}

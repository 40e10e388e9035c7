package millrace.engine.model;

import millrace.engine.KvFormat;

final class GlmAutoBf16AllocationTest extends AllocationContract {
    GlmAutoBf16AllocationTest() {
        super("glm-tiny", KvFormat.BF16, "auto");
    }
}

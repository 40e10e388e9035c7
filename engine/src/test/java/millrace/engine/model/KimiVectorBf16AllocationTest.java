package millrace.engine.model;

import millrace.engine.KvFormat;

final class KimiVectorBf16AllocationTest extends AllocationContract {
    KimiVectorBf16AllocationTest() {
        super("kimi-tiny", KvFormat.BF16, "vector");
    }
}

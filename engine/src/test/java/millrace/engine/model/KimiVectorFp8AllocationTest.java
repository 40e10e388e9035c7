package millrace.engine.model;

import millrace.engine.KvFormat;

final class KimiVectorFp8AllocationTest extends AllocationContract {
    KimiVectorFp8AllocationTest() {
        super("kimi-tiny", KvFormat.FP8_PLAIN, "vector");
    }
}

package millrace.engine.model;

import millrace.engine.KvFormat;

final class KimiAutoInt8AllocationTest extends AllocationContract {
    KimiAutoInt8AllocationTest() {
        super("kimi-tiny", KvFormat.INT8, "auto");
    }
}

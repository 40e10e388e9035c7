package millrace.engine.model;

import java.io.IOException;
import java.nio.file.Path;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import org.junit.jupiter.api.io.TempDir;

/// Steps that choose positions: contexts are longer than what is chosen.
final class SparseAutoInt8AllocationTest extends AllocationContract {
    @TempDir
    private Path dir;

    SparseAutoInt8AllocationTest() {
        super("glm_moe_dsa", KvFormat.INT8, "auto");
    }

    @Override
    Path directory(String name) throws IOException {
        return TinyModel.of(name).write(dir);
    }
}

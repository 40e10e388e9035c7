package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Arrays;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kv.PageTable;
import org.junit.jupiter.api.Test;

/// A decode step allocates nothing once its code is compiled; before that, vectors are objects. Each of these has a process of
/// its own (see the pom): what ran before decides what the compiler inlines.
abstract class AllocationContract {
    private static final int STEPS = 50;
    private static final int ROUNDS = 1_000;

    private final String model;
    private final KvFormat format;
    private final String backend;

    AllocationContract(String model, KvFormat format, String backend) {
        this.model = model;
        this.format = format;
        this.backend = backend;
    }

    /// Of the model: one of the bundled.
    Path directory(String name) throws IOException {
        return Path.of("../streams/src/main/resources/models", name);
    }

    @Test
    void decodeStepsShouldAllocateNothing() throws IOException {
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        int[] ids = TinyModel.tokens(96);
        Arrays.setAll(ids, i -> ids[i] % 1024);
        try (ModelRun run = ModelRun.open(directory(model), backend, 1, format)) {
            long least = Long.MAX_VALUE;
            PageTable table = run.newTable();
            for (int round = 0; round < ROUNDS && least > 0; round++) {
                table.release();
                run.step(table, ids, 0, 40, Logits.NONE);
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int position = 40; position < 40 + STEPS; position++) {
                    run.step(table, ids, position, 1, Logits.LAST);
                }
                least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
            }
            assertThat(least).as("bytes in %d steps", STEPS).isZero();
        }
    }
}

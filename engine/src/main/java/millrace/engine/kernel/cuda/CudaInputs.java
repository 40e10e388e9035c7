package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.StepInputs;

/// The inputs of steps on the device: what the arrays and batches of a [StepInputs] are known as there.
///
/// Operations get the arguments of the host's side and ask here, by identity, where they lie. The numbers of rows lie on
/// the device too: a recorded launch is for a bucket of rows and reads there how many of them there are.
final class CudaInputs {
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    private static final long COUNTS = 2;

    private final StepInputs inputs;
    private final StepBlock block = new StepBlock();
    private final StepBlock.Part counts;
    private final StepBlock.Part tokens;
    private final StepBlock.Part wantedRows;
    private final StepBlock.Part sources;
    private final StepBlock.Part angles;
    private final CudaCacheBatch batch;
    private final CudaCacheBatch wantedBatch;
    private final Recordings recordings;

    CudaInputs(Gpu gpu, int maxRows, int maxPages, int rotaryDim) {
        recordings = new Recordings(gpu);
        long ints = (long) Integer.BYTES * maxRows;
        counts = block.part(Integer.BYTES * COUNTS);
        tokens = block.part(ints);
        wantedRows = block.part(ints);
        sources = block.part(ints);
        angles = block.part((long) Float.BYTES * maxRows * rotaryDim);
        batch = new CudaCacheBatch(block, maxRows, maxPages);
        wantedBatch = new CudaCacheBatch(block, maxRows, maxPages);
        block.allocate(gpu);
        float[] host = new float[Math.multiplyExact(maxRows, rotaryDim)];
        inputs = new StepInputs(maxRows, maxPages, Rows.device(host, angles.address(), maxRows, rotaryDim));
    }

    /// The host's side.
    StepInputs inputs() {
        return inputs;
    }

    /// The steps that were recorded with these inputs.
    Recordings recordings() {
        return recordings;
    }

    /// Queues the copies of all that a step needs. Nothing that an earlier one queued may be under way.
    void send() {
        int rows = inputs.rows();
        int wanted = inputs.wanted();
        counts.host().setAtIndex(INT, 0, rows);
        counts.host().setAtIndex(INT, 1, wanted);
        counts.use(Integer.BYTES * COUNTS);
        put(inputs.tokens(), rows, tokens);
        put(inputs.wantedRows(), wanted, wantedRows);
        put(inputs.sources(), rows, sources);
        Rows table = inputs.angles();
        int floats = rows * table.width();
        MemorySegment.copy(table.values(), 0, angles.host(), ValueLayout.JAVA_FLOAT, 0, floats);
        angles.use((long) Float.BYTES * floats);
        batch.write(inputs.batch());
        wantedBatch.write(inputs.wantedBatch());
        block.send();
    }

    private static void put(int[] values, int n, StepBlock.Part part) {
        MemorySegment.copy(values, 0, part.host(), INT, 0, n);
        part.use((long) Integer.BYTES * n);
    }

    /// Checks the pages of both batches as they were sent; waits for that.
    ///
    /// @return the first segment with a page that is not its own, counted as in the batch of all rows; −1 for none
    int firstForeign(CudaTags tags) {
        tags.begin();
        tags.queue(0, batch.pages(), batch.epochs(), batch.ownedPages());
        tags.queue(1, wantedBatch.pages(), wantedBatch.epochs(), wantedBatch.ownedPages());
        if (tags.end()) {
            return -1;
        }
        int page = tags.foreign(0);
        if (page >= 0) {
            return batch.segmentOf(page);
        }
        int wanted = wantedBatch.segmentOf(tags.foreign(1));
        return inputs.batch().segmentOf(inputs.wantedRows()[inputs.wantedBatch().firstRow(wanted)]);
    }

    /// Address of an array of these inputs: tokens, wanted rows or sources.
    long address(int[] values) {
        if (values == inputs.tokens()) {
            return tokens.address();
        }
        if (values == inputs.wantedRows()) {
            return wantedRows.address();
        }
        if (values == inputs.sources()) {
            return sources.address();
        }
        throw new IllegalArgumentException("cuda: expected an array of the step's inputs, got another one");
    }

    /// A batch of these inputs, as the device has it.
    CudaCacheBatch of(CacheBatch given) {
        if (given == inputs.batch()) {
            return batch;
        }
        if (given == inputs.wantedBatch()) {
            return wantedBatch;
        }
        throw new IllegalArgumentException("cuda: expected a batch of the step's inputs, got another one");
    }

    /// Address of the number of rows.
    long rows() {
        return counts.address();
    }

    /// Address of the number of wanted rows.
    long wanted() {
        return counts.address() + Integer.BYTES;
    }
}

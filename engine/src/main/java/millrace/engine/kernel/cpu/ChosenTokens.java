package millrace.engine.kernel.cpu;

import java.lang.foreign.Arena;
import java.util.Objects;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Selection;
import org.jspecify.annotations.Nullable;

/// Chosen tokens of rows, gathered in blocks one behind another, as if they followed one another in a sequence of their own.
///
/// There is a slot for each thread, and as many for rows whose tokens several threads read; [#run] fills the latter, a unit
/// being some tokens of one of them.
final class ChosenTokens implements ThreadTeam.Task, AutoCloseable {
    /// Tokens of one call of the loops: a megabyte or two, in which no thread can be stopped.
    private static final int CALL = 512;
    /// Tokens of a unit, a multiple of a block's.
    private static final int UNIT = 128;

    private final Loops loops;
    private final int threads;
    private @Nullable Arena arena;
    private CacheShape.@Nullable Latent shape;
    private long[][] blocks = new long[0][];
    private int room; // blocks of a slot
    private @Nullable CacheBatch batch;
    private @Nullable Selection selection;
    private long layerOffset;
    private int shared;
    private final int[] rows;
    private final int[] segments;

    ChosenTokens(Loops loops, int threads) {
        this.loops = loops;
        this.threads = threads;
        rows = new int[threads];
        segments = new int[threads];
    }

    /// Sets what tokens are gathered from; makes room for as many as a row may choose.
    void prepare(CacheShape.Latent latent, CacheBatch cacheBatch, long offset, Selection choice) {
        batch = cacheBatch;
        layerOffset = offset;
        selection = choice;
        int needed = (choice.most() + CacheShape.TOKENS - 1) / CacheShape.TOKENS;
        if (!latent.equals(shape) || room < needed) {
            reserve(latent, needed);
        }
    }

    private void reserve(CacheShape.Latent latent, int needed) {
        close();
        arena = Arena.ofShared();
        long bytes = latent.blockBytes();
        // The first touch of a slot is by the threads that fill it; slots that nobody needs stay untouched.
        long first = Memory.allocateDense(arena, 2L * threads * needed * bytes, "chosen tokens").address();
        blocks = new long[2 * threads][needed];
        for (int slot = 0; slot < blocks.length; slot++) {
            for (int i = 0; i < needed; i++) {
                blocks[slot][i] = first + ((long) slot * needed + i) * bytes;
            }
        }
        shape = latent;
        room = needed;
    }

    /// Forgets what rows were shared.
    void clear() {
        shared = 0;
    }

    /// Says that several threads will read the tokens of a row; returns their slot.
    int share(int row, int segment) {
        rows[shared] = row;
        segments[shared] = segment;
        return threads + shared++;
    }

    /// Units of [#run].
    int units() {
        return shared == 0 ? 0 : shared * unitsOfRow();
    }

    private int unitsOfRow() {
        return (selection().most() + UNIT - 1) / UNIT;
    }

    /// Addresses of a slot's blocks.
    long[] blocks(int slot) {
        return blocks[slot];
    }

    @Override
    public void run(int unit, int thread) {
        int i = unit / unitsOfRow();
        int from = unit % unitsOfRow() * UNIT;
        int count = Math.min(UNIT, selection().counts()[rows[i]] - from);
        if (count > 0) {
            gather(rows[i], segments[i], threads + i, from, count);
        }
    }

    /// Gathers all tokens of a row in the slot of a thread.
    void fill(int row, int segment, int thread) {
        int count = selection().counts()[row];
        for (int from = 0; from < count; from += CALL) {
            gather(row, segment, thread, from, Math.min(CALL, count - from));
        }
    }

    private void gather(int row, int segment, int slot, int from, int count) {
        loops.gather(
                Objects.requireNonNull(shape),
                Objects.requireNonNull(batch).pages(segment),
                layerOffset,
                selection().positions(),
                row * selection().most() + from,
                count,
                blocks[slot][from / CacheShape.TOKENS]);
    }

    private Selection selection() {
        return Objects.requireNonNull(selection);
    }

    @Override
    public void close() {
        if (arena != null) {
            arena.close();
            arena = null;
            shape = null;
        }
    }
}

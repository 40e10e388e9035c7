package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.IdentityHashMap;
import java.util.Map;
import millrace.engine.Sampling;
import millrace.engine.kernel.Draws;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;

/// Draws tokens where the logits lie, sample.cu: of a row that is drawn 4 bytes come to the host, and the row only if its
/// token is left undecided.
///
/// Settings are written while the device still computes the step: what they need is not known before, and not needed earlier.
final class CudaDraws {
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    private static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT;

    /// As in sample.cu: bytes of a row's settings, bytes shared by a block, and by each of its warps.
    private static final int SETTING_INTS = 12;
    private static final int SHARED = 2_048 + 56;
    private static final int WARP_SHARED = 2_048;
    private static final int THREADS = 512;

    /// Where a row's settings have what.
    private static final int TEMPERATURE = 0;
    private static final int TOP_P = 1;
    private static final int MIN_P = 2;
    private static final int PENALTY = 3;
    private static final int TOP_K = 4;
    private static final int SEEN = 5;
    private static final int SEED = 6;
    private static final int STEP = 8;
    private static final int ASKED = 10;

    /// Numbers of a row up to which sums of weights do not carry over.
    private static final int MOST_WIDTH = 1 << 20;

    /// Rows of a step whose penalties the device knows; those of further ones go to the host.
    private static final int MOST_PENALISED = 64;

    private final Gpu gpu;
    private final Kernel kernel;
    private final Map<RowFacts, Room> known = new IdentityHashMap<>();

    CudaDraws(Gpu gpu) {
        this.gpu = gpu;
        kernel = gpu.kernel("sample_rows");
    }

    /// What goes to the device and comes back for the rows of a step.
    private static final class Room {
        private final MemorySegment settings;
        private final Copy sendSettings;
        private final long settingsAddress;
        private final MemorySegment seen;
        private final Copy sendSeen;
        private final long seenAddress;
        private final int seenWords;
        private final int slots;
        private final MemorySegment tokens;
        private final Copy fetchTokens;
        private final long tokensAddress;

        Room(Gpu gpu, RowFacts facts) {
            int rows = facts.maxRows();
            settings = gpu.pinned((long) SETTING_INTS * Integer.BYTES * rows);
            settingsAddress = gpu.allocate(settings.byteSize(), "the sampling of rows");
            sendSettings = gpu.copy(settings, settingsAddress);
            seenWords = Math.ceilDiv(facts.width(), Integer.SIZE);
            slots = Math.min(rows, MOST_PENALISED);
            seen = gpu.pinned((long) Integer.BYTES * seenWords * slots);
            seenAddress = gpu.allocate(seen.byteSize(), "the sampling of rows");
            sendSeen = gpu.copy(seen, seenAddress);
            tokens = gpu.pinned((long) Integer.BYTES * rows);
            tokensAddress = gpu.allocate(tokens.byteSize(), "the sampling of rows");
            fetchTokens = gpu.copy(tokens, tokensAddress);
        }
    }

    /// Room for what is drawn from rows.
    void allocate(RowFacts facts) {
        known.put(facts, new Room(gpu, facts));
    }

    /// Has the tokens of the first rows drawn, and queues the copies of the rows that are not.
    void queue(RowFacts facts, Rows logits, HostSide side, int rows) {
        Room room = room(facts);
        Draws draws = facts.draws();
        int asked = 0;
        int penalised = 0;
        for (int row = 0; row < rows; row++) {
            Sampling sampling = draws.sampling(row);
            boolean penalty = sampling != null && sampling.repetitionPenalty() != 1f;
            if (sampling != null && (facts.width() > MOST_WIDTH || penalty && penalised == room.slots)) {
                draws.leave(row);
                sampling = null;
            }
            if (sampling == null || isKnown(sampling)) {
                room.settings.setAtIndex(INT, at(row) + ASKED, 0);
                continue;
            }
            put(room.settings, at(row), sampling, draws.step(row), penalty ? penalised : -1);
            if (penalty) {
                see(room, penalised++, draws, row);
            }
            asked = row + 1;
        }
        if (asked > 0) {
            room.sendSettings.send((long) SETTING_INTS * Integer.BYTES * asked);
            if (penalised > 0) {
                room.sendSeen.send((long) Integer.BYTES * room.seenWords * penalised);
            }
            Launch launch = gpu.launch(kernel);
            launch.ptr(room.tokensAddress).ptr(logits.addressAt(0)).i32(logits.stride()).i32(logits.width());
            launch.ptr(room.settingsAddress).ptr(room.seenAddress).i32(room.seenWords);
            launch.run(asked, 1, 1, THREADS, SHARED + THREADS / 32 * WARP_SHARED);
            room.fetchTokens.fetch((long) Integer.BYTES * asked);
        }
        wholeRows(draws, rows, side, false);
    }

    /// Takes what was queued, when it has arrived, and with it what is known of the rows.
    void take(RowFacts facts, HostSide side, int rows) {
        Draws draws = facts.draws();
        MemorySegment tokens = room(facts).tokens;
        for (int row = 0; row < rows; row++) {
            Sampling sampling = draws.sampling(row);
            if (sampling != null) {
                draws.answer(row, isKnown(sampling) ? facts.best(row) : tokens.getAtIndex(INT, row));
            }
        }
        wholeRows(draws, rows, side, true);
    }

    /// Brings a row that was drawn, or was left undecided.
    void bring(RowFacts facts, HostSide side, int row) {
        side.queueFetchRows(row, 1);
        gpu.synchronize();
        side.takeRows(row, 1);
        facts.draws().bring(row);
    }

    private static void wholeRows(Draws draws, int rows, HostSide side, boolean arrived) {
        int row = 0;
        while (row < rows) {
            int first = row;
            while (row < rows && draws.sampling(row) == null) {
                row++;
            }
            if (row > first && arrived) {
                side.takeRows(first, row - first);
            } else if (row > first) {
                side.queueFetchRows(first, row - first);
            }
            row++;
        }
    }

    /// Whether the largest number is the token, which the guard finds anyway.
    private static boolean isKnown(Sampling sampling) {
        return sampling.repetitionPenalty() == 1f && (sampling.temperature() == 0f || sampling.topK() == 1);
    }

    private static long at(int row) {
        return (long) SETTING_INTS * row;
    }

    private static void put(MemorySegment to, long at, Sampling sampling, long step, int seen) {
        to.setAtIndex(FLOAT, at + TEMPERATURE, sampling.temperature());
        to.setAtIndex(FLOAT, at + TOP_P, sampling.topP());
        to.setAtIndex(FLOAT, at + MIN_P, sampling.minP());
        to.setAtIndex(FLOAT, at + PENALTY, sampling.repetitionPenalty());
        to.setAtIndex(INT, at + TOP_K, sampling.topK());
        to.setAtIndex(INT, at + SEEN, seen);
        to.setAtIndex(INT, at + SEED, (int) sampling.seed());
        to.setAtIndex(INT, at + SEED + 1, (int) (sampling.seed() >>> 32));
        to.setAtIndex(INT, at + STEP, (int) step);
        to.setAtIndex(INT, at + STEP + 1, (int) (step >>> 32));
        to.setAtIndex(INT, at + ASKED, 1);
    }

    /// Sets a bit for each token that a row comes after.
    private static void see(Room room, int slot, Draws draws, int row) {
        long words = (long) room.seenWords * slot;
        for (int i = 0; i < room.seenWords; i++) {
            room.seen.setAtIndex(INT, words + i, 0);
        }
        int[] tokens = draws.tokens(row);
        int length = draws.length(row);
        for (int i = 0; i < length; i++) {
            long word = words + tokens[i] / Integer.SIZE;
            room.seen.setAtIndex(INT, word, room.seen.getAtIndex(INT, word) | 1 << tokens[i]);
        }
    }

    private Room room(RowFacts facts) {
        Room room = known.get(facts);
        if (room == null) {
            throw new IllegalArgumentException("draws: expected facts of this backend, got others");
        }
        return room;
    }
}

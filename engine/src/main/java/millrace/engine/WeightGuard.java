package millrace.engine;

import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.IntConsumer;
import java.util.function.LongSupplier;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.batch.BatchLoop;
import millrace.engine.batch.StepClock;
import millrace.engine.batch.WeightWatch;
import millrace.engine.kernel.Kernels;
import millrace.engine.model.ModelWeights;
import millrace.engine.resident.BlockTable;
import millrace.engine.resident.CopyRegion;
import millrace.engine.resident.Region;
import millrace.engine.resident.Scrubber;
import millrace.engine.weights.ModelFiles;
import org.jspecify.annotations.Nullable;

/// Keeps the resident weights what they were when they were loaded.
///
/// ```
///  scrubber's thread   [#check] ── differs ──▶ is the table sound? ── yes ──▶ doubt, hold, wake the loop
///  loop's thread       [#repair]: all blocks are checked; damaged ones are made again from the file, which must be the
///                      one that was loaded, must have the checksum of the table, and are written back
/// ```
///
/// Copies in a device's memory are blocks too, copied again once the weights are sound. A second fault of the same tensor
/// within 24 hours, a file that is another one, or a block that cannot be made again refuses: no step runs any more.
final class WeightGuard implements WeightWatch, Scrubber.Blocks {
    private static final System.Logger LOG = System.getLogger(WeightGuard.class.getName());
    private static final long REPEAT_NANOS = TimeUnit.HOURS.toNanos(24);

    private final Path model;
    private final Map<String, String> loaded = new HashMap<>();
    private final ModelWeights weights;
    private final List<Region> regions;
    private final BlockTable table;
    private final Kernels kernels;
    private final IntegrityLedger ledger;
    private final StepClock clock;

    /// Region of each block, and first block of each region.
    private final int[] regionOf;
    private final int[] firstBlock;

    /// Steps that had ended when the last good check of each block began, and when that was.
    private final long[] goodSteps;
    private final long[] goodNanos;

    /// When each region was repaired last.
    private final Map<Integer, Long> repairedNanos = new HashMap<>();

    private final TreeSet<Integer> found = new TreeSet<>();
    private final List<IntegrityLedger.Doubt> doubts = new ArrayList<>();
    private volatile LongSupplier steps = () -> 0;
    private volatile Runnable wake = () -> {};
    private boolean tableLost;
    private volatile boolean damaged;

    /// @param files the files as they were loaded
    /// @param kernels those of the loop's thread
    WeightGuard(
            Path model, List<ModelCard.FileDigest> files, ModelWeights weights, BlockTable table, Kernels kernels,
            IntegrityLedger ledger, StepClock clock) {
        this.model = model;
        files.forEach(file -> loaded.put(file.name(), file.sha256()));
        this.weights = weights;
        this.table = table;
        this.kernels = kernels;
        this.ledger = ledger;
        this.clock = clock;
        regions = CopyRegion.behind(weights.regions(), kernels.copies());
        firstBlock = new int[regions.size()];
        regionOf = new int[table.blocks()];
        goodSteps = new long[table.blocks()];
        goodNanos = new long[table.blocks()];
        int block = 0;
        for (int r = 0; r < regions.size(); r++) {
            firstBlock[r] = block;
            Arrays.fill(regionOf, block, block += regions.get(r).blocks(), r);
        }
        Arrays.fill(goodNanos, clock.nanos());
    }

    /// A guard of weights that were just loaded, and its table; null where the profile watches nothing.
    ///
    /// @param resources takes what is to be closed
    /// @throws BackendException `WEIGHT_DECODED`
    static @Nullable WeightGuard of(
            EngineConfig config,
            ModelFiles files,
            ModelWeights weights,
            Kernels kernels,
            IntegrityLedger ledger,
            Deque<AutoCloseable> resources) {
        if (config.integrity().isOff()) {
            return null;
        }
        String identity = files.modelDigest() + " " + config.weightFormat();
        List<Region> regions = CopyRegion.behind(weights.regions(), kernels.copies());
        BlockTable table = BlockTable.of(identity, regions, kernels::forEach);
        resources.push(table);
        var guard = new WeightGuard(
                config.model(), files.digests(), weights, table, kernels, ledger, StepClock.system());
        guard.checkCompressed();
        return guard;
    }

    /// Starts the thread that checks, where the configuration asks for one.
    ///
    /// @param resources takes what is to be closed
    void start(IntegrityConfig config, BatchLoop loop, Deque<AutoCloseable> resources) {
        attach(() -> loop.stats().steps(), loop::wake);
        if (!config.scrubInterval().isZero()) {
            var scrubber = new Scrubber(this, Scrubber.Clock.system(), config.scrubInterval(), config.scrubShare());
            ledger.watchScrub(this::ageMs);
            resources.push(scrubber);
            scrubber.start();
        }
    }

    /// What is watched.
    List<Region> regions() {
        return regions;
    }

    /// The checksums.
    BlockTable table() {
        return table;
    }

    /// Says which steps have ended, and how a loop that sleeps is woken. Before the first check.
    void attach(LongSupplier endedSteps, Runnable wakeLoop) {
        steps = endedSteps;
        wake = wakeLoop;
    }

    /// Checks what is compressed before it is used first: the bytes, then the numbers that they decode to against those
    /// that were packed.
    ///
    /// @throws BackendException `WEIGHT_DECODED`
    void checkCompressed() {
        for (int r = 0; r < regions.size(); r++) {
            Region region = regions.get(r);
            int first = firstBlock[r];
            if (region.compressed()) {
                kernels.forEach(region.blocks(), b -> {
                    int got = matches(first + b) ? region.decodedChecksum(b) : 0;
                    if (got != table.numbersChecksum(first + b)) {
                        throw new BackendException("WEIGHT_DECODED", describe(first + b)
                                + ": expected packed weights that decode to those of the file, got others; start again,"
                                + " and replace this machine if it returns");
                    }
                });
            }
        }
    }

    /// Milliseconds since the oldest check of a block.
    long ageMs() {
        long now = clock.nanos();
        long oldest = now;
        for (long nanos : goodNanos) {
            oldest = nanos - oldest < 0 ? nanos : oldest;
        }
        return TimeUnit.NANOSECONDS.toMillis(now - oldest);
    }

    // ------------------------------------------------------------------------------------------------ scrubber's thread

    @Override
    public int count() {
        return table.blocks();
    }

    @Override
    public synchronized boolean check(int block) {
        if (damaged) {
            return false;
        }
        long step = steps.getAsLong();
        long now = clock.nanos();
        try {
            if (!matches(block)) {
                checkTable();
                if (tableLost || !matches(block)) {
                    found(block);
                    return false;
                }
            }
        } catch (BackendException e) {
            // A device that fails ends the next step; here nothing can be said about it.
            return false;
        }
        goodSteps[block] = step;
        goodNanos[block] = now;
        return true;
    }

    @Override
    public synchronized void passed() {
        checkTable();
        if (tableLost) {
            stop();
            return;
        }
        ledger.scrubbed();
        ledger.post(Kind.SCRUB, Result.PASSED, "", "blocks=" + table.blocks());
    }

    private boolean matches(int block) {
        return regions.get(regionOf[block]).checksum(block - firstBlock[regionOf[block]]) == table.checksum(block);
    }

    /// Makes good what is wrong with the table: from its other copy, else from the weights, if these give the very table
    /// that was built.
    private void checkTable() {
        BlockTable.Problem first = table.problem(0);
        BlockTable.Problem second = table.problem(1);
        if (first != null && second != null) {
            tableLost = !table.rebuild(regions, regions::get, WeightGuard::oneByOne);
            if (!tableLost) {
                report(first, "weights");
            }
        } else if (first != null) {
            table.restore(0);
            report(first, "other_copy");
        } else if (second != null) {
            table.restore(1);
            report(second, "other_copy");
        }
    }

    private void report(BlockTable.Problem problem, String from) {
        LOG.log(System.Logger.Level.WARNING, "{0}; repaired", problem.message());
        ledger.post(Kind.META, Result.REPAIRED, problem.code(), "restored_from=" + from);
    }

    private static void oneByOne(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    private void found(int block) {
        LOG.log(System.Logger.Level.WARNING, "{0}: expected the checksum {1}, got {2}; repairing it",
                describe(block), hex(table.checksum(block)), hex(regions.get(regionOf[block]).checksum(local(block))));
        found.add(block);
        doubts.add(ledger.doubt(goodSteps[block] + 1));
        stop();
    }

    private void stop() {
        ledger.hold(this);
        damaged = true;
        wake.run();
    }

    // ---------------------------------------------------------------------------------------------------- loop's thread

    @Override
    public boolean damaged() {
        return damaged;
    }

    @Override
    public synchronized @Nullable String repair() {
        try (Repair repair = new Repair()) {
            repair.run();
        } catch (WeightRefusal refusal) {
            if (refusal.kind() != Kind.WEIGHT && !found.isEmpty()) {
                // What was found first, and stays.
                ledger.post(Kind.WEIGHT, Result.REFUSED, "WEIGHT_BLOCK", detail(found.first()), refusal.suspectFromStep());
            }
            ledger.post(refusal.kind(), Result.REFUSED, refusal.code(), refusal.detail(), refusal.suspectFromStep());
            String reason = "integrity: " + refusal.code() + ": " + refusal.getMessage();
            ledger.refuse(reason);
            LOG.log(System.Logger.Level.ERROR, reason);
            return reason;
        }
        found.clear();
        damaged = false;
        return null;
    }

    @Override
    public synchronized void resume() {
        doubts.forEach(IntegrityLedger.Doubt::end);
        doubts.clear();
        ledger.release(this);
    }

    @Override
    public synchronized void verifyNow() {
        if (damaged) {
            return;
        }
        long step = steps.getAsLong();
        long now = clock.nanos();
        List<Integer> bad = scan();
        if (bad.isEmpty()) {
            Arrays.fill(goodSteps, step);
            Arrays.fill(goodNanos, now);
        }
        for (int block : bad) {
            check(block);
        }
    }

    /// Every block that is not as it was loaded.
    private List<Integer> scan() {
        AtomicIntegerArray bad = new AtomicIntegerArray(table.blocks());
        kernels.forEach(table.blocks(), block -> bad.set(block, matches(block) ? 0 : 1));
        List<Integer> blocks = new ArrayList<>();
        for (int block = 0; block < table.blocks(); block++) {
            if (bad.get(block) != 0) {
                blocks.add(block);
            }
        }
        return blocks;
    }

    /// One repair, from the files as they are now.
    private final class Repair implements AutoCloseable {
        private final Map<String, String> verified = new HashMap<>();
        private @Nullable ModelFiles files;
        private long suspectFromStep = IntegrityEvent.NO_STEP;

        void run() throws WeightRefusal {
            try {
                if (tableLost) {
                    rebuildTable();
                }
                found.addAll(scan());
                for (int block : found) {
                    suspectFromStep = Math.min(suspectFromStep, goodSteps[block] + 1);
                }
                doubts.add(ledger.doubt(suspectFromStep));
                Map<Integer, List<Integer>> byRegion = new HashMap<>();
                found.forEach(block -> byRegion.computeIfAbsent(regionOf[block], r -> new ArrayList<>()).add(block));
                for (int region : new TreeSet<>(byRegion.keySet())) {
                    repair(region, byRegion.get(region));
                }
            } catch (InvalidModelException e) {
                throw new WeightRefusal(Kind.MODEL_FILE, e.code(), "", suspectFromStep, e.getMessage()
                        + "; weights in memory are damaged and cannot be repaired from it");
            } catch (RuntimeException | InternalError e) {
                // A page of a mapped file that is gone ends as the latter.
                throw new WeightRefusal(Kind.WEIGHT, "WEIGHT_UNREPAIRED", "", suspectFromStep, "repairing failed with " + e);
            }
            Arrays.fill(goodSteps, steps.getAsLong());
            Arrays.fill(goodNanos, clock.nanos());
        }

        private void repair(int r, List<Integer> blocks) throws WeightRefusal {
            Region region = regions.get(r);
            Long before = repairedNanos.get(r);
            if (before != null && clock.nanos() - before < REPEAT_NANOS) {
                throw refusal("WEIGHT_REPEATED", blocks.getFirst(), "damaged for the second time within 24 hours;"
                        + " take this machine out of service and test its memory");
            }
            repairedNanos.put(r, clock.nanos());
            if (region instanceof CopyRegion copy) {
                // All that it was copied from has been looked at, and made good, before.
                copy.restore();
                repaired(blocks);
                return;
            }
            try (Arena scratch = Arena.ofShared()) {
                Region again = again(r, scratch);
                for (int block : blocks) {
                    int local = local(block);
                    if (again.checksum(local) != table.checksum(block)
                            || again.numbersChecksum(local) != table.numbersChecksum(block)) {
                        throw refusal("WEIGHT_UNREPAIRED", block, "expected the checksum " + hex(table.checksum(block))
                                + " when made again from its file, got " + hex(again.checksum(local)) + "; start again");
                    }
                    region.restore(local, again);
                }
            }
            repaired(blocks);
            weights.adoptAgain(r, kernels);
        }

        private void repaired(List<Integer> blocks) throws WeightRefusal {
            for (int block : blocks) {
                if (!matches(block)) {
                    throw refusal("WEIGHT_UNREPAIRED", block, "written back and still damaged;"
                            + " take this machine out of service and test its memory");
                }
                LOG.log(System.Logger.Level.WARNING, "{0}: repaired", describe(block));
                ledger.post(Kind.WEIGHT, Result.REPAIRED, "WEIGHT_BLOCK", detail(block), goodSteps[block] + 1);
            }
        }

        private WeightRefusal refusal(String code, int block, String what) {
            return new WeightRefusal(Kind.WEIGHT, code, detail(block), suspectFromStep, describe(block) + ": " + what);
        }

        private Region again(int region, Arena memory) throws WeightRefusal {
            if (regions.get(region) instanceof CopyRegion copy) {
                return copy;
            }
            ModelFiles open = open();
            for (String tensor : weights.tensors(region, open)) {
                verify(open, tensor);
            }
            return weights.again(region, open, kernels, memory);
        }

        private ModelFiles open() {
            if (files == null) {
                files = ModelFiles.open(model);
            }
            return files;
        }

        /// The file that holds the tensor must be the one that was loaded, to the last byte.
        private void verify(ModelFiles open, String tensor) throws WeightRefusal {
            String name = open.fileOf(tensor);
            String now = verified.computeIfAbsent(name, file -> open.digestNow(file).sha256());
            String before = loaded.get(name);
            if (!now.equals(before)) {
                throw new WeightRefusal(
                        Kind.MODEL_FILE,
                        "MODEL_FILE_CHANGED",
                        "file=" + name + " expected_sha256=" + before + " got_sha256=" + now,
                        suspectFromStep,
                        name + ": expected sha256 " + before + " as at the start, got " + now
                                + "; weights in memory are damaged and cannot be repaired from it: restore the file and"
                                + " start again");
            }
        }

        /// Both copies are damaged and so are the weights: only the files can tell.
        private void rebuildTable() throws WeightRefusal {
            WeightRefusal[] refused = new WeightRefusal[1];
            Arena[] scratch = {Arena.ofShared()};
            try {
                boolean rebuilt = table.rebuild(regions, r -> {
                    scratch[0].close();
                    scratch[0] = Arena.ofShared();
                    try {
                        return again(r, scratch[0]);
                    } catch (WeightRefusal e) {
                        refused[0] = e;
                        return regions.get(r);
                    }
                }, kernels::forEach);
                if (refused[0] != null) {
                    throw refused[0];
                }
                if (!rebuilt) {
                    throw new WeightRefusal(Kind.META, "BT_LOST", "", suspectFromStep, "block table: both copies are damaged, and"
                            + " the files give another one; start again");
                }
                tableLost = false;
                ledger.post(Kind.META, Result.REPAIRED, "BT_DAMAGED", "restored_from=files");
            } finally {
                scratch[0].close();
            }
        }

        @Override
        public void close() {
            if (files != null) {
                files.close();
            }
        }
    }

    private int local(int block) {
        return block - firstBlock[regionOf[block]];
    }

    private String describe(int block) {
        return "weights: " + regions.get(regionOf[block]).name() + ", block " + local(block);
    }

    private String detail(int block) {
        Region region = regions.get(regionOf[block]);
        return "tensor=" + region.name().replace(' ', '_') + " block=" + local(block) + " format=" + region.format()
                + " first_byte=" + region.start(local(block)) + " bytes=" + region.bytes(local(block));
    }

    private static String hex(int checksum) {
        return "%08x".formatted(checksum);
    }
}

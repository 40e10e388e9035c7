package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Projections;
import org.jspecify.annotations.Nullable;

/// Matrix products on the device: project_*.cu. A list is one launch for each weight format in it.
///
/// The tables of a list are made and sent when it is met first, so a list must have run once before it is captured; after
/// that a launch needs nothing from the host but its arguments, and nothing is allocated. Lists are known by their content.
final class CudaProjections {
    /// Threads of a block, as in project.h.
    private static final int THREADS = 256;

    /// Blocks from which on a device is taken to be full: half of an H200's multiprocessors.
    private static final int FULL = 66;

    /// Up to so many tokens in a group, or in a share of one expert, the narrow shape is worth its smaller blocks.
    private static final int NARROW_TOKENS = 16;
    private static final int NARROW_SLOTS = 24;

    /// Lists whose tables are kept: some for each layer of a model, each with a few views.
    private static final int MOST_PLANS = 8192;

    /// Shapes of a block: how many tokens it takes, its dynamic shared memory, and whether a warp takes whole panels.
    private enum Shape {
        NARROW_8(8, 71_680, false),
        NARROW_16(16, 143_360, false),
        WIDE_64(64, 98_304, true);

        private final int tokens;
        private final int sharedBytes;
        private final boolean wide;

        Shape(int tokens, int sharedBytes, boolean wide) {
            this.tokens = tokens;
            this.sharedBytes = sharedBytes;
            this.wide = wide;
        }
    }

    private final Gpu gpu;
    private final CudaTensors tensors;
    private final boolean muchShared;
    private final @Nullable Kernel[][] kernels = new Kernel[WeightFormat.values().length][Shape.values().length];
    private final @Nullable ProjectionPlan[] table = new ProjectionPlan[1024];
    private int plans;
    private long scratch;
    private long scratchBytes;
    private @Nullable Shape forced;

    CudaProjections(Gpu gpu, CudaTensors tensors) {
        this.gpu = gpu;
        this.tensors = tensors;
        // Data-centre devices have 163 KB or more for a block, the others of 8.x and 12.x only 99.
        CudaDevice device = gpu.device();
        muchShared = device.major() == 8 && device.minor() == 0 || device.major() == 9 || device.major() == 10;
    }

    /// Runs the products with the rows that the list says.
    void run(Projections list) {
        run(list, 0, 0);
    }

    /// Runs the products with a number of rows that may be less than the launch is made for.
    ///
    /// @param bucket rows of each product, and of the routing of experts; 0 for those that the list says
    /// @param live address of an int, how many rows count; 0 for all
    /// @throws IllegalStateException if a weight was not adopted
    void run(Projections list, int bucket, long live) {
        run(list, false, bucket, live);
    }

    /// The same with pairs of a gate and what it gates; the output of each gate then holds `silu(gate) ⊙ up`, and that of what it
    /// gates is left alone. A block of a launch forms the same rows of both, one after the other.
    ///
    /// @return false if a pair is not of one format and shape; nothing is done then
    boolean runGated(Projections pairs, int bucket, long live) {
        if (!ProjectionPlan.pairs(pairs)) {
            return false;
        }
        run(pairs, true, bucket, live);
        return true;
    }

    private void run(Projections list, boolean gated, int bucket, long live) {
        if (list.count() == 0) {
            return;
        }
        int rows = 0;
        int slots = 0;
        boolean uniform = true;
        for (int i = 0; i < list.count(); i++) {
            int n = list.rows(i);
            if (list.experts(i) != null) {
                slots = Math.max(slots, bucket == 0 ? n : bucket * list.routing(i).spec().perRow());
            } else {
                uniform &= rows == 0 || rows == n;
                rows = Math.max(rows, n);
            }
        }
        if (bucket != 0 && !uniform) {
            throw new IllegalArgumentException("projection: expected products of one number of rows in a bucket");
        }
        ProjectionPlan plan = plan(list, uniform, gated);
        List<ProjectionPlan.Part> parts = plan.parts();
        for (int i = 0; i < parts.size(); i++) {
            run(plan, parts.get(i), bucket == 0 ? rows : bucket, slots, live);
        }
    }

    /// Makes all blocks of one shape, for tests of each: the index of a shape, or −1 for the usual choice.
    void force(int shape) {
        forced = shape < 0 ? null : Shape.values()[shape];
    }

    private ProjectionPlan plan(Projections list, boolean uniform, boolean gated) {
        int hash = ProjectionPlan.hash(list, gated);
        int bucket = hash & table.length - 1;
        for (ProjectionPlan p = table[bucket]; uniform && p != null; p = p.next) {
            if (p.hash == hash && p.matches(list, gated)) {
                return p;
            }
        }
        ProjectionPlan plan = new ProjectionPlan(list, uniform, gated, hash);
        boolean kept = uniform && plans < MOST_PLANS;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(plan.bytes(), Long.BYTES);
            long address = kept ? gpu.allocate(plan.bytes(), "tables of products") : scratch(plan.bytes());
            plan.write(list, tensors, bytes, address);
            gpu.upload(address, bytes);
        }
        if (kept) {
            plan.next = table[bucket];
            table[bucket] = plan;
            plans++;
        }
        return plan;
    }

    /// Room for tables that are sent again for each run: in the order of the stream, so behind the run before.
    private long scratch(long bytes) {
        if (scratchBytes < bytes) {
            scratchBytes = Math.max(2 * scratchBytes, bytes);
            scratch = gpu.allocate(scratchBytes, "tables of products");
        }
        return scratch;
    }

    private void run(ProjectionPlan plan, ProjectionPlan.Part part, int rows, int slots, long live) {
        Shape ofSingles = shape(rows, part.wide().singles(), rows);
        int share = part.experts() == 0 ? 0 : Math.ceilDiv(slots, Math.min(part.experts(), Math.max(1, slots)));
        Shape ofExperts = share <= NARROW_SLOTS ? shape(Math.min(share, NARROW_TOKENS), 0, 0) : shape(share, FULL, share);
        boolean singles = part.narrow().singles() > 0 && rows > 0;
        boolean experts = part.narrow().ofExperts() > 0 && slots > 0;
        if (singles && experts && ofSingles == ofExperts) {
            launch(plan, part, ofSingles, true, true, rows, slots, live);
            return;
        }
        if (singles) {
            launch(plan, part, ofSingles, true, false, rows, slots, live);
        }
        if (experts) {
            launch(plan, part, ofExperts, false, true, rows, slots, live);
        }
    }

    /// The shape that serves a number of tokens best. All give the same bits.
    ///
    /// @param wideBlocks blocks of the wide shape for each group of tokens
    private Shape shape(int tokens, int wideBlocks, int allTokens) {
        if (forced != null) {
            return forced;
        }
        if (tokens <= Shape.NARROW_8.tokens) {
            return Shape.NARROW_8;
        }
        boolean full = (long) wideBlocks * Math.ceilDiv(allTokens, Shape.WIDE_64.tokens) >= FULL;
        if (tokens > NARROW_TOKENS && full) {
            return Shape.WIDE_64;
        }
        return muchShared ? Shape.NARROW_16 : Shape.NARROW_8;
    }

    private void launch(
            ProjectionPlan plan,
            ProjectionPlan.Part part,
            Shape shape,
            boolean withSingles,
            boolean withExperts,
            int rows,
            int slots,
            long live) {
        ProjectionPlan.Blocks blocks = shape.wide ? part.wide() : part.narrow();
        int singles = withSingles ? blocks.singles() : 0;
        int groups = Math.max(1, Math.ceilDiv(rows, shape.tokens));
        // Each expert that has slots begins a group of its own.
        int shared = Math.min(part.experts(), slots);
        int expertGroups = Math.max(1, (slots + shared * (shape.tokens - 1)) / shape.tokens);
        long grid = (long) singles * groups + (withExperts ? (long) blocks.ofExperts() * expertGroups : 0);
        gpu.launch(kernel(part.format(), shape))
                .ptr(plan.products())
                .ptr(plan.blocks(blocks.first() + (withSingles ? 0 : blocks.singles())))
                .i32(singles)
                .i32(groups)
                .i32(expertGroups)
                .i32(rows)
                .ptr(live)
                .run(Math.toIntExact(grid), 1, 1, THREADS, shape.sharedBytes);
    }

    private Kernel kernel(WeightFormat format, Shape shape) {
        Kernel known = kernels[format.ordinal()][shape.ordinal()];
        if (known == null) {
            known = gpu.kernel("project_" + format.id() + "_" + shape.tokens);
            kernels[format.ordinal()][shape.ordinal()] = known;
        }
        return known;
    }
}

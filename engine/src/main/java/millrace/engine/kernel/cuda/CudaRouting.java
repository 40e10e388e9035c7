package millrace.engine.kernel.cuda;

import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;

/// The choice of experts and their slots, route.cu: the experts, weights and slots of the host's router, bit for bit.
///
/// The device's memory of a [Routing] may be followed by words that blocks leave for one another; [#allocate] makes both.
final class CudaRouting {
    /// Limits of route.cu: a lane keeps 32 experts at most, a warp 32 groups and 32 chosen.
    static final int MAX_EXPERTS = 1024;
    static final int MAX_GROUPS = 32;
    static final int MAX_PER_ROW = 32;

    /// As in route.cu: rows of a tile.
    private static final int TILE = 32;

    private static final int WARP = 32;
    private static final int MOST_WARPS = 16;
    private static final int LEAST_WARPS = 4;
    private static final int PLACE_THREADS = 256;

    /// Shared memory that a block may have without asking for more.
    private static final int SHARED_BYTES = 48 << 10;

    private final Gpu gpu;
    private final Kernel route;
    private final Kernel place;

    CudaRouting(Gpu gpu) {
        this.gpu = gpu;
        route = gpu.kernel("route");
        place = gpu.kernel("route_place");
    }

    /// Room for the choice of experts of at most so many rows.
    Routing allocate(int maxRows, RouterSpec spec) {
        if (spec.experts() > MAX_EXPERTS || spec.groups() > MAX_GROUPS || spec.perRow() > MAX_PER_ROW) {
            throw new IllegalArgumentException(
                    "router: expected at most %d experts, %d groups and %d chosen on this device, got %d, %d and %d"
                            .formatted(MAX_EXPERTS, MAX_GROUPS, MAX_PER_ROW, spec.experts(), spec.groups(), spec.perRow()));
        }
        long bytes = Routing.bytes(maxRows, spec) + (long) Integer.BYTES * spec.experts() * tiles(maxRows);
        return Routing.device(maxRows, spec, gpu.allocate(bytes, "the choice of experts"));
    }

    /// Chooses the experts of each row and gives every pair its slot.
    ///
    /// @param bias device address of a float for each expert
    /// @param live device address of how many of the rows there are, 0 for all
    void route(Routing routing, Rows logits, long bias, int rows, long live) {
        RouterSpec spec = routing.spec();
        int experts = spec.experts();
        if (rows < 0 || rows > routing.maxRows() || rows > logits.capacity() || logits.width() != experts) {
            throw new IllegalArgumentException("route: %d rows of %d logits, for %d experts and at most %d rows"
                    .formatted(rows, logits.width(), experts, routing.maxRows()));
        }
        if (rows == 0) {
            return;
        }
        long masks = routing.chosenAddress() + Routing.bytes(routing.maxRows(), spec);
        int tiles = tiles(rows);
        int counts = Integer.BYTES * (2 * experts + 1);
        int perWarp = Integer.BYTES * (WARP + experts);
        int warps = Math.min(Math.min(MOST_WARPS, (SHARED_BYTES - counts) / perWarp), Math.max(LEAST_WARPS, rows));
        Launch launch = gpu.launch(route);
        launch.ptr(routing.chosenAddress()).ptr(routing.weightsAddress()).ptr(routing.slotsAddress());
        launch.ptr(routing.sourcesAddress()).ptr(routing.firstSlotAddress()).ptr(masks);
        launch.ptr(logits.addressAt(0)).ptr(bias).i32(logits.stride()).i32(experts).i32(spec.perRow());
        launch.i32(spec.groups()).i32(spec.keptGroups()).i32(spec.normalize() ? 1 : 0).f32(spec.scaling());
        launch.i32(rows).ptr(live).run(tiles, 1, 1, WARP * warps, counts + warps * perWarp);
        if (tiles > 1) {
            Launch second = gpu.launch(place);
            second.ptr(routing.slotsAddress()).ptr(routing.sourcesAddress()).ptr(routing.firstSlotAddress());
            second.ptr(routing.chosenAddress()).ptr(masks).i32(experts).i32(spec.perRow()).i32(rows).ptr(live);
            second.run(tiles, 1, 1, PLACE_THREADS, counts);
        }
    }

    private static int tiles(int rows) {
        return Math.ceilDiv(rows, TILE);
    }
}

// What the matrix products of all weight formats share: which block computes what, how activations reach the tensor cores,
// and the one order of summation. A format says how its panels become mma operands, see project_*.cu.
//
// Order of one output y[token][row], the same for every launch, see docs/numerics.md. Columns come in units of 64, unit u
// belongs to slice u mod S, and S depends on the matrix alone. An activation is the sum of three BF16, exactly. For each 32
// columns a part is summed up from 0 by mma steps, first of low, then of mid, then of high parts, two steps each. A slice adds
// its parts, ascending, from 0 (with `fma(scale, part, acc)` where weights are codes); the slices are added, ascending; then
// the bias.
//
// What limits a launch on an H200: memory at 4.3 TB/s is 18.6 bytes in a cycle of each of 132 multiprocessors at 1.75 GHz; each
// issues 4 instructions of a warp in a cycle, and needs about 23 KB on their way. Counted in the PTX, without what ptxas drops:
// instructions of a warp for a unit of 1024 weights, with the loop around it and with one token's share of splitting (8
// tokens in a matrix of up to 4096 rows add up to 170, in one of more than 8192 rows 40); bytes that these let through in a
// cycle; and what is predicted for one token and more than 100 MB of weights. None of this has been measured yet.
//
//   format   bytes   instructions   bytes/cycle   of 4.3 TB/s   against BF16
//   f32      4096    470            35            88 %          0.5
//   bf16     2048    85             96            88 %          1
//   packed   1536    175            35            85 %          1.28
//   int8     1088    155            28            87 %          1.85
//   fp8      1056    155            27            87 %          1.9
//   int4      576    130            18            80 %          3.2
//
// Two shapes of a block of 8 warps give that order. *Narrow*, for few tokens: S warps share a panel of 16 rows, one slice
// each, so that also small matrices have enough loads on their way; they add up in shared memory. *Wide*, for many tokens:
// a warp takes a panel alone, slice after slice, and uses each decoded weight for up to 8 tiles of 8 tokens.
#pragma once
#include "port.h"

constexpr int PROJECT_WARPS = 8;
constexpr int PROJECT_THREADS = 32 * PROJECT_WARPS;
constexpr int PANEL_ROWS = 16;
constexpr int UNIT = 64;          // columns of a unit
constexpr int UNIT_STEPS = 4;     // mma steps of 16 columns in a unit
constexpr int TILE_TOKENS = 8;    // the columns of an mma result

/// One product of a launch, or one for each expert of a table. 80 bytes; CudaProjections writes it.
struct Product {
    unsigned long long weights; // the panels; of experts, a table of such addresses
    const float* x;             // row 0
    float* y;                   // row 0
    const float* bias;          // null for none
    const int* firstSlot;       // of experts: the first row of each, and one more number, where the last ends; else null
    unsigned long long panelBytes; // 0 where panels differ in size
    int rows, cols;             // of the matrix
    int xStride, yStride;       // floats
    int tokens;                 // rows of x; -1 for those that the launch says
    int slices;                 // 1, 2, 4 or 8
    int experts;                // 0 for a single product
    int pair;                   // GATE, and behind it in the table GATED, a product of equal shape; else 0
};
static_assert(sizeof(Product) == 80, "as CudaProjections says");
constexpr int GATE = 1;
constexpr int GATED = 2;

/// The work of a launch: entries of `blocks`, a product and its first panel each; first those of single products, for each
/// of which there are `groups` blocks, then those of experts, with `expertGroups`. Neighbours share their weights.
struct Work {
    const Product* products;
    const uint2* blocks;
    int singles, groups, expertGroups;
    int rows;        // of single products that do not say themselves
    const int* live; // where it stands how many of these rows count; null for all
};

/// What a block works on.
struct Place {
    int first;  // its first token
    int panel;  // its first
    int tokens; // at least 1
    int expert; // 0 for a single product
};

// The groups of an expert's rows, of GROUP rows each.
template <int GROUP> __device__ __forceinline__ int expert_groups(int begin, int end) { return (end - begin + GROUP - 1) / GROUP; }

// The expert that a group of rows belongs to: experts have their groups one after another. False if there are no more than
// `group`. All lanes of a warp call this together; each looks at as many neighbours, so that all loads are on their way at once.
template <int GROUP>
__device__ __forceinline__ bool find_expert(const Product& p, int group, int& expert, int& first, int& tokens) {
    int lane = threadIdx.x & 31;
    int each = (p.experts + 31) / 32;
    int from = min(lane * each, p.experts);
    int to = min(from + each, p.experts);
    int groups = 0;
#pragma unroll 4
    for (int e = from; e < to; e++) {
        groups += expert_groups<GROUP>(p.firstSlot[e], p.firstSlot[e + 1]);
    }
    int upTo = groups;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        int other = __shfl_up_sync(GPU_ALL_LANES, upTo, o);
        upTo += lane >= o ? other : 0;
    }
    unsigned beyond = __ballot_sync(GPU_ALL_LANES, upTo > group);
    if (beyond == 0) {
        return false;
    }
    int owner = __ffs((int)beyond) - 1;
    if (lane == owner) {
        int left = group - (upTo - groups);
        expert = from;
        for (int own; left >= (own = expert_groups<GROUP>(p.firstSlot[expert], p.firstSlot[expert + 1])); left -= own) {
            expert++;
        }
        first = p.firstSlot[expert] + left * GROUP;
        tokens = min(GROUP, p.firstSlot[expert + 1] - first);
    }
    expert = __shfl_sync(GPU_ALL_LANES, expert, owner);
    first = __shfl_sync(GPU_ALL_LANES, first, owner);
    tokens = __shfl_sync(GPU_ALL_LANES, tokens, owner);
    return true;
}

/// Where this block works; false if it has nothing to do. The same for all threads of a block.
template <int GROUP> __device__ __forceinline__ bool find_place(const Work& work, const Product*& product, Place& place) {
    int b = blockIdx.x;
    int behind = b - work.singles * work.groups;
    int groups = behind < 0 ? work.groups : work.expertGroups;
    b = behind < 0 ? b : behind;
    int group = b % groups;
    uint2 entry = work.blocks[b / groups + (behind < 0 ? 0 : work.singles)];
    product = work.products + entry.x;
    const Product& p = *product;
    int first = group * GROUP;
    int tokens = 0;
    int expert = 0;
    if (p.experts > 0) {
        if (!find_expert<GROUP>(p, group, expert, first, tokens)) {
            return false;
        }
    } else {
        tokens = p.tokens >= 0 ? p.tokens : work.live == nullptr ? work.rows : min(work.rows, *work.live);
        tokens = min(GROUP, tokens - first);
        if (tokens <= 0) {
            return false;
        }
    }
    place.first = first;
    place.panel = (int)entry.y;
    place.tokens = tokens;
    place.expert = expert;
    return true;
}

/// The units of a warp, in the order of its sums. Narrow: those of one slice. Wide: those of all slices, one after another.
template <bool WIDE> struct Walk {
    int unit, slice, slices, units;

    __device__ __forceinline__ Walk(int firstSlice, int slices_, int units_)
        : unit(firstSlice), slice(firstSlice), slices(slices_), units(units_) {}

    __device__ __forceinline__ bool inside() const { return unit < units; }

    __device__ __forceinline__ void next() {
        unit += slices;
        if (WIDE && unit >= units && slice + 1 < slices) {
            unit = ++slice;
        }
    }
    /// Whether the current unit is the last of its slice.
    __device__ __forceinline__ bool endsSlice() const { return unit + slices >= units; }
};

/// Activations on their way from memory to mma operands. A *quad* is 4 columns of one token; each thread copies its own
/// quads of a stage as they are (cp.async), and when they have landed, splits them into operands that all warps read.
///
/// Operands of a step of 16 columns and a tile of 8 tokens: for lane (token · 4 + t) the two words of `high`, of `mid` and
/// of `low` of quad t. One layout for every format: a format whose codes lie otherwise says so by `F::place` and `F::SWAP`.
template <class F, int TILES, int COLS> struct Activations {
    static constexpr int STEPS = COLS / 16;
    static constexpr int QUADS = COLS / 4;
    // Of a step in shared memory. Four more than there are, so that the quads that are written together meet in no bank; not
    // where that would be too much for devices with 99 KB.
    static constexpr int STEP_LANES = COLS == UNIT ? 32 : 36;
    static constexpr int SLOTS = TILES * TILE_TOKENS * QUADS / PROJECT_THREADS; // quads of a thread
    static constexpr int OPERANDS = TILES * STEPS * STEP_LANES;
    static constexpr int RAW_BYTES = SLOTS * PROJECT_THREADS * 16;
    static constexpr int BYTES = RAW_BYTES + 2 * OPERANDS * (16 + 8);

    float4* raw;
    uint4* highMid; // [2][TILES][STEPS][STEP_LANES]
    uint2* low;
    const float* x;
    int stride, cols, quads;
    bool aligned;

    __device__ __forceinline__ Activations(unsigned char* shared, const float* x_, int stride_, int cols_, int tokens)
        : raw(reinterpret_cast<float4*>(shared)), highMid(reinterpret_cast<uint4*>(shared + RAW_BYTES)),
          low(reinterpret_cast<uint2*>(shared + RAW_BYTES + 2 * OPERANDS * 16)), x(x_), stride(stride_), cols(cols_),
          quads(tokens * QUADS) {
        aligned = ((reinterpret_cast<unsigned long long>(x_) | (unsigned long long)stride_ * 4) & 15) == 0;
        if (tokens < TILES * TILE_TOKENS) { // tokens that are not there are zeros, in both stages
            for (int i = threadIdx.x; i < 2 * OPERANDS; i += PROJECT_THREADS) {
                highMid[i] = make_uint4(0, 0, 0, 0);
                low[i] = make_uint2(0, 0);
            }
            __syncthreads();
        }
    }

    /// Begins the copies of the columns from `first` on; zeros stand for those beyond the last.
    __device__ __forceinline__ void begin(int first) {
#pragma unroll 1
        for (int quad = threadIdx.x; quad < quads; quad += PROJECT_THREADS) {
            int col = first + quad % QUADS * 4;
            const float* from = x + (long long)(quad / QUADS) * stride + col;
            float* to = reinterpret_cast<float*>(raw + quad);
            if (aligned && col + 4 <= cols) {
                gpu_cp_async16(to, from);
            } else {
#pragma unroll 1
                for (int i = 0; i < 4; i++) {
                    if (col + i < cols) {
                        gpu_cp_async_small<4>(to + i, from + i);
                    } else {
                        to[i] = 0.0f;
                    }
                }
            }
        }
        gpu_cp_async_commit();
    }

    /// Makes operands of the copies, in one of the two stages. Other warps may read them after a barrier.
    __device__ __forceinline__ void finish(int stage) {
        gpu_cp_async_wait<0>();
#pragma unroll 1
        for (int quad = threadIdx.x; quad < quads; quad += PROJECT_THREADS) {
            float4 v = raw[quad];
            if (F::SWAP) {
                float y = v.y;
                v.y = v.z;
                v.z = y;
            }
            int token = quad / QUADS;
            int step, t;
            F::place(quad % QUADS, step, t);
            int at = ((stage * TILES + token / TILE_TOKENS) * STEPS + step) * STEP_LANES + token % TILE_TOKENS * 4 + t;
            uint4 hm;
            uint2 l;
            split(v.x, v.y, hm.x, hm.z, l.x);
            split(v.z, v.w, hm.y, hm.w, l.y);
            highMid[at] = hm;
            low[at] = l;
        }
    }

    /// A pair as three pairs of BF16 whose sum it is, exactly, unless a part is too small for an F32's exponent: 8 bits of
    /// 24 each, cut and not rounded. What is not finite leaves a NaN in mid and low.
    static __device__ __forceinline__ void split(float first, float second, unsigned& high, unsigned& mid, unsigned& low) {
        unsigned a = __float_as_uint(first);
        unsigned b = __float_as_uint(second);
        high = gpu_prmt(a, b, 0x7632);
        a = __float_as_uint(__fsub_rn(first, __uint_as_float(a & 0xffff0000u)));
        b = __float_as_uint(__fsub_rn(second, __uint_as_float(b & 0xffff0000u)));
        mid = gpu_prmt(a, b, 0x7632);
        float restA = __fsub_rn(__uint_as_float(a), __uint_as_float(a & 0xffff0000u));
        float restB = __fsub_rn(__uint_as_float(b), __uint_as_float(b & 0xffff0000u));
        low = gpu_prmt(__float_as_uint(restA), __float_as_uint(restB), 0x7632);
    }

    /// The operands of a step for a tile: high, mid, low, two words each.
    __device__ __forceinline__ void operands(int stage, int tile, int step, unsigned* b) const {
        int at = (stage * TILES + tile) * (STEPS * STEP_LANES) + step * STEP_LANES + (threadIdx.x & 31);
        uint4 hm = highMid[at];
        uint2 l = low[at];
        b[0] = hm.x;
        b[1] = hm.y;
        b[2] = hm.z;
        b[3] = hm.w;
        b[4] = l.x;
        b[5] = l.y;
    }
};

/// The arrangement of quads that most formats have: quad t of a step is columns 4 t to 4 t + 3.
struct InOrder {
    static constexpr bool SWAP = false;
    static __device__ __forceinline__ void place(int quad, int& step, int& t) {
        step = quad >> 2;
        t = quad & 3;
    }
};

/// Adds the products of 32 columns to the sums of some tiles: a chain of mma steps for each, products of small parts first.
///
/// @param a `[2][F::PARTS][4]`, the weights of two steps
template <class F, int TILES, int COLS, int TOGETHER>
__device__ __forceinline__ void multiply_half(
    const unsigned (*a)[F::PARTS][4], float scale0, float scale1, const Activations<F, TILES, COLS>& x, int stage, int tile,
    int step, float* acc) {
    // Of each order of magnitude, from low · low to high · high: pairs of a part of the weight and one of the activation.
    constexpr int CHAIN = 2 * 3 * F::PARTS;
    float sums[TOGETHER][4];
    unsigned weights[CHAIN][4];
    unsigned parts[TOGETHER][CHAIN][2];
#pragma unroll
    for (int u = 0; u < TOGETHER; u++) {
        unsigned b[2][6];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            x.operands(stage, tile + u, step + s, b[s]);
        }
        int at = 0;
#pragma unroll
        for (int smallness = F::PARTS + 1; smallness >= 0; smallness--) {
#pragma unroll
            for (int w = F::PARTS - 1; w >= 0; w--) {
                int part = smallness - w;
                if (part >= 0 && part < 3) {
#pragma unroll
                    for (int s = 0; s < 2; s++) {
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            weights[at][i] = a[s][w][i];
                        }
                        parts[u][at][0] = b[s][2 * part];
                        parts[u][at][1] = b[s][2 * part + 1];
                        at++;
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[u][i] = 0.0f;
        }
    }
    // In the emulator a meeting of the warp for several steps; on a device the tiles' chains go on side by side.
    constexpr int MEETING = GPU_EMULATED ? 6 : 1;
#pragma unroll
    for (int i = 0; i < CHAIN; i += MEETING) {
#pragma unroll
        for (int u = 0; u < TOGETHER; u++) {
            gpu_mma_16816_bf16_n<MEETING, 0, 4, 2>(sums[u], weights[i], parts[u][i]);
        }
    }
#pragma unroll
    for (int u = 0; u < TOGETHER; u++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float& to = acc[4 * (tile + u) + i];
            to = F::GROUPED ? __fmaf_rn(i < 2 ? scale0 : scale1, sums[u][i], to) : __fadd_rn(to, sums[u][i]);
        }
    }
}

/// Adds a unit's products to the sums of the tiles.
///
/// @param acc `[TILES][4]`: rows 2 g, 2 g, 2 g + 1, 2 g + 1 by tokens 2 t, 2 t + 1 for lane g · 4 + t
/// @param firstStep of the unit in its stage
template <class F, int TILES, int COLS>
__device__ __forceinline__ void multiply_unit(
    const F& format, const typename F::Unit& unit, typename F::State& state, int unitNumber,
    const Activations<F, TILES, COLS>& x, int stage, int firstStep, int tiles, float* acc) {
    // Two chains at a time are enough to keep the matrix unit busy; where a tile is missing, its operands are zeros.
    constexpr int TOGETHER = TILES > 1 ? 2 : 1;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned a[2][F::PARTS][4];
#pragma unroll
        for (int s = 0; s < 2; s++) {
            format.operands(unit, state, unitNumber, 2 * half + s, &a[s][0][0]);
        }
        float scale0 = 1.0f, scale1 = 1.0f;
        if (F::GROUPED) {
            format.scales(unit, half, scale0, scale1);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile += TOGETHER) {
            if (tile < tiles) {
                multiply_half<F, TILES, COLS, TOGETHER>(a, scale0, scale1, x, stage, tile, firstStep + 2 * half, acc);
            }
        }
    }
}

/// Writes the sums of a panel, with their bias; those of a gate as swiglu.cu has it, over what they gate. That the same thread
/// has written, since it has the same place in each of two products of equal shape.
template <int TILES>
__device__ __forceinline__ void store_panel(const Product& p, const Place& place, int panel, const float* acc) {
    int lane = threadIdx.x & 31;
    int row = panel * PANEL_ROWS + lane / 4 * 2;
#pragma unroll
    for (int i = 0; i < 4 * TILES; i++) {
        int token = i / 4 * TILE_TOKENS + lane % 4 * 2 + (i & 1);
        int r = row + (i >> 1 & 1);
        if (token < place.tokens && r < p.rows) {
            float v = p.bias == nullptr ? acc[i] : __fadd_rn(acc[i], p.bias[r]);
            float* to = p.y + (long long)(place.first + token) * p.yStride + r;
            *to = p.pair == GATE ? gpu_swiglu(v, *to) : v;
        }
    }
}

/// Bytes of dynamic shared memory that a kernel needs; CudaProjections has the same numbers.
template <int TILES, bool WIDE> constexpr int project_shared_bytes() {
    return Activations<InOrder, TILES, WIDE ? UNIT : PROJECT_WARPS * UNIT>::BYTES + (WIDE ? PROJECT_WARPS * TILES * 128 * 4 : 0);
}
static_assert(project_shared_bytes<1, false>() == 71680, "as CudaProjections says");
static_assert(project_shared_bytes<2, false>() == 143360, "as CudaProjections says");
static_assert(project_shared_bytes<8, true>() == 98304, "as CudaProjections says");

/// One product of a block.
///
/// @param F the format: PARTS operands of a weight; GROUPED, SWAP, place; Unit, what a lane holds of a unit; State, what a
///        warp carries on; DEPTH units on their way; load, operands, scales
template <class F, int TILES, bool WIDE>
__device__ __forceinline__ void project_panels(const Product& p, const Place& place, unsigned char* shared) {
    constexpr int COLS = WIDE ? UNIT : PROJECT_WARPS * UNIT;
    constexpr int DEPTH = WIDE && F::DEPTH > 2 ? 2 : F::DEPTH;
    typedef Activations<F, TILES, COLS> X;
    int lane = threadIdx.x & 31;
    int warp = threadIdx.x >> 5;
    int slices = p.slices;
    int units = (p.cols + UNIT - 1) / UNIT;
    int slice = WIDE ? 0 : warp % slices;
    int panel = place.panel + (WIDE ? warp : warp / slices);
    bool mine = panel * PANEL_ROWS < p.rows;
    int tiles = (place.tokens + TILE_TOKENS - 1) / TILE_TOKENS;
    int perStage = WIDE ? 1 : PROJECT_WARPS / slices;         // units of a warp in a stage
    int count = WIDE ? units : (units + slices - 1) / slices; // units of a warp

    X x(shared, p.x + (long long)place.first * p.xStride, p.xStride, p.cols, place.tokens);
    float* totals = reinterpret_cast<float*>(shared + (WIDE ? X::BYTES : 0)) + warp * TILES * 128 + lane;
    F format(p, p.experts > 0 ? reinterpret_cast<const unsigned long long*>(p.weights)[place.expert] : p.weights, mine ? panel : 0);
    Walk<WIDE> ahead(slice, slices, mine ? units : 0);
    Walk<WIDE> now = ahead;
    Walk<WIDE> staged(0, WIDE ? slices : PROJECT_WARPS, units); // the first unit of the stage whose copies begin next
    typename F::Unit ring[DEPTH];
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        if (ahead.inside()) {
            format.load(ring[d], ahead.unit);
        }
        ahead.next();
    }
    x.begin(staged.unit * UNIT);
    typename F::State state; // waits for what it reads, so after all loads were begun
    format.begin(state, slice);
    x.finish(0);
    staged.next();
    x.begin(staged.unit * UNIT);

    float acc[4 * TILES];
#pragma unroll
    for (int i = 0; i < 4 * TILES; i++) {
        acc[i] = 0.0f;
    }
    int stage = -1;
    for (int n0 = 0; n0 < count; n0 += DEPTH) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            int n = n0 + d;
            if (n < count) {
                if ((n & (perStage - 1)) == 0) {
                    // From here on all have written this stage, and nobody reads the one before, which the next replaces.
                    stage++;
                    __syncthreads();
                    x.finish((stage + 1) & 1);
                    staged.next();
                    x.begin(staged.unit * UNIT);
                }
                if (now.inside()) {
                    int inStage = WIDE ? 0 : now.unit - stage * PROJECT_WARPS;
                    multiply_unit<F, TILES, COLS>(
                        format, ring[d], state, now.unit, x, stage & 1, inStage * UNIT_STEPS, tiles, acc);
                    if (WIDE && slices > 1 && now.endsSlice()) {
#pragma unroll
                        for (int i = 0; i < 4 * TILES; i++) {
                            totals[32 * i] = now.slice == 0 ? acc[i] : __fadd_rn(totals[32 * i], acc[i]);
                            acc[i] = 0.0f;
                        }
                        if (now.slice + 1 < slices) {
                            format.begin(state, now.slice + 1);
                        }
                    }
                }
                if (ahead.inside()) {
                    format.load(ring[d], ahead.unit);
                }
                now.next();
                ahead.next();
            }
        }
    }
    gpu_cp_async_wait<0>();
    if (slices > 1) {
        if (!WIDE) {
            __syncthreads(); // nobody splits activations any more: their room is free
#pragma unroll
            for (int i = 0; i < 4 * TILES; i++) {
                totals[32 * i] = acc[i];
            }
            __syncthreads();
            mine &= slice == 0;
        }
#pragma unroll
        for (int i = 0; mine && i < 4 * TILES; i++) {
            float sum = totals[32 * i];
            for (int s = 1; s < (WIDE ? 1 : slices); s++) {
                sum = __fadd_rn(sum, totals[32 * i + s * TILES * 128]);
            }
            acc[i] = sum;
        }
    }
    if (mine) {
        store_panel<TILES>(p, place, panel, acc);
    }
}

/// The body of every kernel: what is gated goes first, and the gate finds it in y.
template <class F, int TILES, bool WIDE>
__device__ __forceinline__ void project(const Work& work) {
    GPU_DYN_SHARED(unsigned char, shared);
    const Product* product;
    Place place;
    if (!find_place<TILES * TILE_TOKENS>(work, product, place)) {
        return;
    }
    product += product->pair == GATE;
#pragma unroll 1
    for (;;) {
        project_panels<F, TILES, WIDE>(*product, place, shared);
        if (product->pair != GATED) {
            return;
        }
        product--;
        __syncthreads(); // nobody reads the sums of the product before: their room is free
    }
}

/// The three kernels of a format: up to 8 tokens in a block, up to 16, and up to 64.
///
/// @param narrow blocks that a multiprocessor is to hold at once, which limits registers; 3 by shared memory
/// @param wide the same of the last kernel; 2 by shared memory
#define PROJECT_KERNELS(name, F, narrow, wide)                                                                                \
    PROJECT_KERNEL(name##_8, F, 1, false, narrow)                                                                             \
    PROJECT_KERNEL(name##_16, F, 2, false, 1)                                                                                 \
    PROJECT_KERNEL(name##_64, F, 8, true, wide)
#define PROJECT_KERNEL(name, F, TILES, WIDE, perMultiprocessor)                                                               \
    GPU_KERNEL __launch_bounds__(PROJECT_THREADS, perMultiprocessor) name(                                                    \
        const Product* products, const uint2* blocks, int singles, int groups, int expertGroups, int rows, const int* live) { \
        Work work = {products, blocks, singles, groups, expertGroups, rows, live};                                            \
        project<F, TILES, WIDE>(work);                                                                                        \
    }                                                                                                                         \
    GPU_EXPORT(name)

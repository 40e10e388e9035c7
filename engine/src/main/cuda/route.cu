/* The router of a mixture of experts, and the slots of its pairs of row and expert.
 *
 * For each row, as ExpertRouter on the host does: s = sigmoid(logit), the choice by s + bias within the best groups, ties to
 * the lower index; weights are s, over their sum (ascending by expert, plus 1e-20) where `normalize`, times `scaling`.
 *
 * Then every pair gets a slot, ascending by expert and then by row: a stable counting sort, of which all counts are
 * integers. 32 rows are a tile, and a tile keeps for each expert a word whose bit r says that its row r chose it, so a
 * pair's slot is a sum of bit counts:
 *
 *   slot = bits of all lower experts + bits of this expert in lower tiles + its bits below r in the tile
 *
 * Rows from *live on are not looked at and get no slots.
 */
#include "port.h"

#define ROUTE_TILE 32

/* What a warp looks for: the largest value, the lowest index of several, -1 for none. */
struct RouteCandidate {
    float value;
    int index;
};

__device__ __forceinline__ RouteCandidate route_better(RouteCandidate a, RouteCandidate b) {
    bool takeB = b.index >= 0 && (a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index));
    return takeB ? b : a;
}

__device__ __forceinline__ bool route_is_nan(float v) { return v != v; }

/* The best of this lane's values (lane, lane + 32, ...), without NaN and without those whose bit in `taken` is set. */
__device__ __forceinline__ RouteCandidate route_best_of_lane(const float *values, int count, int lane, unsigned taken) {
    RouteCandidate best = {0.0f, -1};
    for (int i = lane, bit = 0; i < count; i += 32, bit++) {
        float v = values[i];
        if (!(taken >> bit & 1u) && !route_is_nan(v) && (best.index < 0 || v > best.value)) {
            best.value = v;
            best.index = i;
        }
    }
    return best;
}

__device__ __forceinline__ RouteCandidate route_best_of_warp(RouteCandidate best) {
#pragma unroll
    for (int o = 16; o; o /= 2) {
        RouteCandidate other;
        other.value = __shfl_xor_sync(GPU_ALL_LANES, best.value, o);
        other.index = __shfl_xor_sync(GPU_ALL_LANES, best.index, o);
        best = route_better(best, other);
    }
    return best;
}

/* The lowest index that no lane has taken. */
__device__ __forceinline__ int route_first_left(int count, int lane, unsigned taken) {
    int bit = __ffs((int)~taken) - 1; /* 32 values of a lane at most, so bit -1 is none left */
    int first = bit < 0 || lane + 32 * bit >= count ? count : lane + 32 * bit;
#pragma unroll
    for (int o = 16; o; o /= 2) {
        first = min(first, __shfl_xor_sync(GPU_ALL_LANES, first, o));
    }
    return first;
}

/* Sets the choice of all experts outside the best groups to -infinity. Lane g looks after group g. */
__device__ __forceinline__ void route_limit_to_groups(float *choice, int experts, int groups, int keptGroups, int lane) {
    const float NONE = -__uint_as_float(0x7f800000u);
    int size = experts / groups;
    float first = NONE, second = NONE;
    if (lane < groups) {
        for (int e = lane * size; e < (lane + 1) * size; e++) {
            float v = choice[e];
            if (v > first) {
                second = first;
                first = v;
            } else if (v > second) {
                second = v;
            }
        }
    }
    float score = size == 1 ? first : __fadd_rn(first, second);
    unsigned taken = lane < groups ? 0u : 1u; /* bit 0 is this lane's group */
    bool kept = false;
    for (int j = 0; j < keptGroups; j++) {
        RouteCandidate mine = {score, taken || route_is_nan(score) ? -1 : lane};
        int best = route_best_of_warp(mine).index;
        /* As on the host: a NaN that comes first is never beaten. */
        int left = route_first_left(groups, lane, taken ? GPU_ALL_LANES : 0u);
        if (best < 0 || route_is_nan(__shfl_sync(GPU_ALL_LANES, score, left))) {
            best = left;
        }
        if (lane == best) {
            taken = 1u;
            kept = true;
        }
    }
    for (int g = 0; g < groups; g++) {
        if (!__shfl_sync(GPU_ALL_LANES, (int)kept, g)) {
            for (int i = lane; i < size; i += 32) {
                choice[g * size + i] = NONE;
            }
        }
    }
    __syncwarp();
}

/* One row by one warp: experts ascending to `chosen`, their weights to `weights`. */
__device__ __forceinline__ void route_choose(int *chosen, float *weights, float *choice, int *order, const float *logits,
                                       const float *bias, int experts, int perRow, int groups, int keptGroups,
                                       int normalize, float scaling, int lane) {
    bool nan = false;
    for (int e = lane; e < experts; e += 32) {
        float c = __fadd_rn(gpu_sigmoid(logits[e]), bias[e]);
        choice[e] = c;
        nan |= route_is_nan(c);
    }
    nan = __any_sync(GPU_ALL_LANES, nan);
    __syncwarp();
    if (groups > 1) {
        route_limit_to_groups(choice, experts, groups, keptGroups, lane);
    }
    unsigned taken = 0;
    RouteCandidate local = route_best_of_lane(choice, experts, lane, taken);
    for (int j = 0; j < perRow; j++) {
        int best = route_best_of_warp(local).index;
        if (nan) {
            int left = route_first_left(experts, lane, taken);
            if (best < 0 || route_is_nan(choice[left])) {
                best = left;
            }
        }
        if (lane == best % 32) {
            taken |= 1u << (best / 32);
            local = route_best_of_lane(choice, experts, lane, taken);
        }
        if (lane == 0) {
            order[j] = best;
        }
    }
    __syncwarp();
    int expert = lane < perRow ? order[lane] : 0, rank = 0;
    for (int j = 0; j < perRow; j++) {
        rank += order[j] < expert;
    }
    __syncwarp();
    if (lane < perRow) {
        order[rank] = expert;
    }
    __syncwarp();
    float weight = 0.0f, sum = 0.0f;
    if (lane < perRow) {
        expert = order[lane];
        weight = gpu_sigmoid(logits[expert]);
    }
    for (int j = 0; j < perRow; j++) {
        sum = __fadd_rn(sum, __shfl_sync(GPU_ALL_LANES, weight, j));
    }
    if (lane < perRow) {
        if (normalize) {
            weight = __fdiv_rn(weight, __fadd_rn(sum, 1e-20f));
        }
        chosen[lane] = expert;
        weights[lane] = __fmul_rn(weight, scaling);
    }
}

/* Turns counts into where each begins, by one warp: a lane takes a run of neighbours. Writes counts[n] too. */
__device__ __forceinline__ void route_begins(int *counts, int n, int lane) {
    int run = (n + 31) / 32, from = min(n, lane * run), to = min(n, from + run), sum = 0;
    for (int i = from; i < to; i++) {
        sum += counts[i];
    }
    int through = sum;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        int before = __shfl_up_sync(GPU_ALL_LANES, through, o);
        through += lane >= o ? before : 0;
    }
    int begin = through - sum;
    for (int i = from; i < to; i++) {
        int count = counts[i];
        counts[i] = begin;
        begin += count;
    }
    if (lane == 31) {
        counts[n] = through;
    }
}

/* The slots of one tile, by one block, once `begins` holds where each expert's begin and `masks` the tile's words. */
__device__ __forceinline__ void route_slots(int *slots, int *sources, const int *chosen, const int *begins,
                                      const unsigned *masks, int perRow, int firstRow, int count) {
    for (int i = threadIdx.x; i < count * perRow; i += blockDim.x) {
        int row = i / perRow;
        size_t pair = (size_t)firstRow * perRow + i;
        int expert = chosen[pair];
        int slot = begins[expert] + __popc(masks[expert] & ((1u << row) - 1u));
        slots[pair] = slot;
        sources[slot] = firstRow + row;
    }
}

/* A block for each tile. Where there is one tile, its slots are made here too; else `route_place` does it.
 * Shared: masks[experts], begins[experts + 1], for each warp order[32] and choice[experts] (words of 4 bytes).
 * perRow and groups are at most 32, experts at most 1024. */
GPU_KERNEL __launch_bounds__(512) route(int *chosen, float *weights, int *slots, int *sources, int *firstSlot,
                                        unsigned *tileMasks, const float *logits, const float *bias, int stride,
                                        int experts, int perRow, int groups, int keptGroups, int normalize,
                                        float scaling, int rows, const int *live) {
    GPU_DYN_SHARED(unsigned, masks);
    int *begins = (int *)(masks + experts);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int *order = begins + experts + 1 + warp * (32 + experts);
    float *choice = (float *)(order + 32);
    int firstRow = blockIdx.x * ROUTE_TILE, count = min(ROUTE_TILE, live_rows(rows, live) - firstRow);
    for (int e = threadIdx.x; e < experts; e += blockDim.x) {
        masks[e] = 0u;
    }
    __syncthreads();
    for (int r = warp; r < count; r += warps) {
        size_t row = firstRow + r, pair = row * perRow;
        route_choose(chosen + pair, weights + pair, choice, order, logits + row * stride, bias, experts, perRow, groups,
               keptGroups, normalize, scaling, lane);
        if (lane < perRow) {
            atomicOr(&masks[order[lane]], 1u << r);
        }
        __syncwarp();
    }
    __syncthreads();
    if (gridDim.x > 1) {
        for (int e = threadIdx.x; e < experts; e += blockDim.x) {
            tileMasks[(size_t)blockIdx.x * experts + e] = masks[e];
        }
        return;
    }
    for (int e = threadIdx.x; e < experts; e += blockDim.x) {
        begins[e] = __popc(masks[e]);
    }
    __syncthreads();
    if (warp == 0) {
        route_begins(begins, experts, lane);
    }
    __syncthreads();
    for (int e = threadIdx.x; e <= experts; e += blockDim.x) {
        firstSlot[e] = begins[e];
    }
    route_slots(slots, sources, chosen, begins, masks, perRow, firstRow, count);
}
GPU_EXPORT(route)

/* The slots of several tiles, a block for each: every block counts for itself, so that none waits for another.
 * Shared: masks[experts], begins[experts + 1] (words of 4 bytes). */
GPU_KERNEL __launch_bounds__(512) route_place(int *slots, int *sources, int *firstSlot, const int *chosen,
                                              const unsigned *tileMasks, int experts, int perRow, int rows,
                                              const int *live) {
    GPU_DYN_SHARED(unsigned, masks);
    int *begins = (int *)(masks + experts);
    int present = live_rows(rows, live), tiles = (present + ROUTE_TILE - 1) / ROUTE_TILE, mine = blockIdx.x;
    int firstRow = mine * ROUTE_TILE, count = min(ROUTE_TILE, present - firstRow);
    if (count <= 0 && mine > 0) {
        return;
    }
    for (int e = threadIdx.x; e < experts; e += blockDim.x) {
        int sum = 0;
#pragma unroll 4
        for (int t = 0; t < tiles; t++) {
            sum += __popc(tileMasks[(size_t)t * experts + e]);
        }
        begins[e] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        route_begins(begins, experts, threadIdx.x);
    }
    __syncthreads();
    if (mine == 0) {
        for (int e = threadIdx.x; e <= experts; e += blockDim.x) {
            firstSlot[e] = begins[e];
        }
        __syncthreads();
    }
    for (int e = threadIdx.x; e < experts; e += blockDim.x) {
        int below = 0;
#pragma unroll 4
        for (int t = 0; t < mine; t++) {
            below += __popc(tileMasks[(size_t)t * experts + e]);
        }
        begins[e] += below;
        masks[e] = count > 0 ? tileMasks[(size_t)mine * experts + e] : 0u;
    }
    __syncthreads();
    route_slots(slots, sources, chosen, begins, masks, perRow, firstRow, count);
}
GPU_EXPORT(route_place)

// Joins the partial sums of a row's splits, one after another from the first on, with the operations of a block that has
// them all.
//
// Limit: latency. 32k tokens are 128 splits: the factors of 128 splits take one warp some 600 clocks, a chain of 128 fma and
// its loads from the second-level cache about 3 µs.
#include "attend_tile.h"

/// Splits whose factors are found at a time.
constexpr int COMBINE_SPLITS = 128;

/// Factors of up to 128 splits by the first warp. `m` is the largest score of the splits before, and then of all.
__device__ __forceinline__ void stage_factors(
        const float2* stats, int stride, int first, int count, float& m, float* keep, float* take, float* l) {
    int lane = threadIdx.x & 31;
    for (int from = 0; from < count; from += 32) {
        int i = from + lane;
        float2 next = i < count ? stats[(long long)(first + i) * stride] : make_float2(m, 0.0f);
        float largest = next.x;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            float other = __shfl_up_sync(GPU_ALL_LANES, largest, o);
            largest = lane >= o ? larger(other, largest) : largest;
        }
        if (first + from > 0) {
            largest = larger(m, largest);
        }
        float before = __shfl_up_sync(GPU_ALL_LANES, largest, 1);
        before = lane == 0 ? m : before;
        if (i < count) {
            keep[i] = gpu_exp(__fsub_rn(before, largest));
            take[i] = gpu_exp(__fsub_rn(next.x, largest));
            l[i] = next.y;
        }
        m = __shfl_sync(GPU_ALL_LANES, largest, 31);
    }
}

/// Grid (rows, heads), up to 512 threads, one for each dimension; `dim` floats of shared memory where `rotation` is not 0.
/// Rows whose sums stayed in their blocks are passed over.
///
/// @param chosenCounts null, or rows attended to chosen positions, and a row has `partialSplits` records
GPU_KERNEL attend_combine(const int* counts, const CacheSegment* segments, const int* segmentOf, int heads, int dim, int lanes,
        float rotation, const float* partialSums, const float* partialStats, int records, const int* chosenCounts,
        int partialSplits, float* out, int outStride) {
    GPU_DYN_SHARED(float, shared);
    float* keep = shared;
    float* take = keep + COMBINE_SPLITS;
    float* l = take + COMBINE_SPLITS;
    float* x = l + COMBINE_SPLITS;
    int row = blockIdx.x; // of these there may be more than a grid has in y
    int head = blockIdx.y;
    if (row >= counts[1] || segmentOf[row] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[row]];
    int within = row - segment.firstRow;
    int splits = splits_of(segment.start + within + 1);
    long long record = segment.firstPartial + (long long)within * segment.splits();
    bool partial = segment.partial(records);
    if (chosenCounts != nullptr) {
        ChosenPositions chosen = {chosenCounts, nullptr, 0, partialSplits};
        splits = splits_of(chosen.of(row, segment));
        record = (long long)row * partialSplits;
        partial = chosen.partial(splits);
    }
    if (!partial) {
        return;
    }
    const float2* stats = reinterpret_cast<const float2*>(partialStats) + record * heads + head;
    const float* sums = partialSums + (record * heads + head) * lanes;
    float* result = out + (long long)row * outStride + (long long)head * dim;
    for (int d0 = 0; d0 < dim; d0 += blockDim.x) {
        int d = d0 + threadIdx.x;
        float m = 0.0f;
        float sum = 0.0f;
        float norm = 0.0f;
        for (int first = 0; first < splits; first += COMBINE_SPLITS) {
            int count = splits - first < COMBINE_SPLITS ? splits - first : COMBINE_SPLITS;
            __syncthreads();
            if (threadIdx.x < 32) {
                stage_factors(stats, heads, first, count, m, keep, take, l);
            }
            __syncthreads();
            if (d < dim) {
#pragma unroll 8
                for (int i = 0; i < count; i++) {
                    float next = sums[(long long)(first + i) * heads * lanes + d];
                    bool begin = first + i == 0;
                    sum = begin ? next : joined_sum(sum, keep[i], next, take[i]);
                    norm = begin ? l[i] : joined_sum(norm, keep[i], l[i], take[i]);
                }
            }
        }
        if (d < dim) {
            float value = __fmul_rn(sum, __fdiv_rn(1.0f, norm));
            if (rotation == 0.0f) {
                result[d] = value;
            } else {
                x[d] = value;
            }
        }
    }
    if (rotation != 0.0f) {
        __syncthreads();
        if (threadIdx.x < 32) {
            warp_rotate(x, dim, rotation);
            for (int d = threadIdx.x; d < dim; d += 32) {
                result[d] = x[d];
            }
        }
    }
}
GPU_EXPORT(attend_combine)

// Attention over grouped keys and values, and the joining of partial sums for every kind of cache.
//
// Limit: memory. A block of a decode step reads 256 tokens of keys and values once (64 KB in INT8 of 128 dimensions) and
// writes 4 KB of partial sums for 8 queries. At 4.3 TB/s that is 3500 clocks of an SM; the mma of 8 queries in three parts
// take about 1650 (1024 mma at 0.62 of the peak), integer operations about 4000 of the 7000 instructions that their pipe has
// room for in that time: decoding costs 6 for 4 codes. In flight are 2 KB for each warp, 4 blocks an SM: 32 KB of the 23 KB
// that are needed. Prediction for an H200, INT8, 128 dimensions, 8 queries a KV head, 32k tokens: 75 % of the bandwidth at
// batch 1, 85 % from batch 4 on; BF16 more; INT4 about 60 % of its (halved) bytes. Prefill: 16 queries a tile, bound by the
// tensor cores' three parts, a third of what one part could do.
#include "attend.h"

/// Sizes of a grouped block.
struct GroupedSizes {
    int headDim;
    int lanes; // of values
    long long valueOffset;
    long long keyScaleOffset;
    long long valueScaleOffset;
};

template <int FORMAT> constexpr bool SCALED = FORMAT == CACHE_INT8 || FORMAT == CACHE_INT4;
/// Groups of dimensions that have a scale of their own.
template <int FORMAT> __device__ __forceinline__ int scale_groups(int headDim) {
    return FORMAT == CACHE_INT4 ? headDim / 32 : SCALED<FORMAT> ? 1 : 0;
}

/// Addresses and scales of a split's pages; behind the last token that the tile sees scales are zero.
template <int FORMAT>
__device__ __forceinline__ void stage_pages(const AttendBatch& b, const AttendShared& s, const QueryTile& tile,
        const GroupedSizes& sizes, int split, int tokens) {
    for (int i = threadIdx.x; i < CACHE_SPLIT; i += ATTEND_THREADS) {
        int page = i / CACHE_TOKENS;
        const unsigned char* block = nullptr;
        if (page * CACHE_TOKENS < tokens) {
            int index = tile.segment.firstPage + split * SPLIT_PAGES + page;
            block = cache_page(b.pages, index, b.layerOffset) + tile.head * b.blockBytes;
        }
        if (i % CACHE_TOKENS == 0) {
            s.pages[page] = reinterpret_cast<unsigned long long>(block);
        }
        if (SCALED<FORMAT>) {
            for (int g = 0; g < scale_groups<FORMAT>(sizes.headDim); g++) {
                int at = 2 * (CACHE_TOKENS * g + i % CACHE_TOKENS);
                unsigned short key = 0;
                unsigned short value = 0;
                if (i < tokens) {
                    key = *reinterpret_cast<const unsigned short*>(block + sizes.keyScaleOffset + at);
                    value = *reinterpret_cast<const unsigned short*>(block + sizes.valueScaleOffset + at);
                }
                s.keyScales[g * CACHE_SPLIT + i] = f16_to_f32(key);
                s.valueScales[g * CACHE_SPLIT + i] = f16_to_f32(value);
            }
        }
    }
}

/// Queries as operands; where keys are rotated, they are rotated first.
template <int FORMAT, int QUERIES>
__device__ __forceinline__ void stage_tile(const AttendShared& s, const QueryTile& tile, int headDim, int steps, const float* q,
        int qStride, float rotation) {
    auto query = [&](int i) { return q + (long long)tile.row(i) * qStride + (long long)tile.queryHead(i) * headDim; };
    if (FORMAT == CACHE_INT4) {
        for (int i = threadIdx.x >> 5; i < tile.count; i += ATTEND_WARPS) {
            float* x = s.sums + i * s.sumPitch;
            const float* from = query(i);
            for (int d = threadIdx.x & 31; d < headDim; d += 32) {
                x[d] = from[d];
            }
            warp_rotate(x, headDim, rotation);
        }
        __syncthreads();
        stage_queries<QUERIES, GroupedKeys<FORMAT>>(
                s.queries, 0, steps, headDim, tile.count, [&](int i) { return (const float*)s.sums + i * s.sumPitch; });
    } else {
        stage_queries<QUERIES, GroupedKeys<FORMAT>>(s.queries, 0, steps, headDim, tile.count, query);
    }
}

template <int FORMAT, int QUERIES>
__device__ __forceinline__ void attend_split(
        const AttendBatch& b, const AttendShared& s, const QueryTile& tile, const GroupedSizes& sizes, int split) {
    using Keys = GroupedKeys<FORMAT>;
    int warp = threadIdx.x >> 5;
    int lane = threadIdx.x & 31;
    int seen = tile.visible(tile.count - 1) - split * CACHE_SPLIT;
    int tokens = seen < CACHE_SPLIT ? seen : CACHE_SPLIT;
    stage_pages<FORMAT>(b, s, tile, sizes, split, tokens);
    __syncthreads();
    int dimensions = 16 * Keys::STEPS;
    int units = (sizes.headDim + dimensions - 1) / dimensions;
    int perRow = 4 * Keys::STEPS / Keys::LOADS;
    int rows = (sizes.headDim + perRow - 1) / perRow;
    for (int from = 32 * warp; from < tokens; from += 32 * ATTEND_WARPS) {
        Scores<QUERIES> scores;
        unsigned long long block = s.pages[from / CACHE_TOKENS + (lane >> 4)];
        scores.template run<Keys>(block, rows, sizes.headDim, units, s.queries, 0, SCALED<FORMAT> ? s.keyScales + from : nullptr,
                FORMAT == CACHE_INT4 ? 1 : units);
        scores.store(s.scores + from, SCORE_PITCH, b.scale);
    }
    __syncthreads();
    int padded = (tokens + CACHE_TOKENS - 1) / CACHE_TOKENS * CACHE_TOKENS;
    softmax_split(b, s, tile, split, padded, FORMAT == CACHE_INT8 ? s.valueScales : nullptr);
    __syncthreads();
    for (int slice = warp; 32 * slice < sizes.lanes; slice += ATTEND_WARPS) {
        Sums<QUERIES> sums[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[i].clear();
        }
        const float* scales = FORMAT == CACHE_INT4 ? s.valueScales + slice * CACHE_SPLIT : nullptr;
        sum_slice<QUERIES, Values<FORMAT>>(sums, s, sizes.valueOffset, sizes.lanes, slice, tokens, scales);
        keep_slice<QUERIES, Values<FORMAT>>(sums, b, s, tile, split, sizes.lanes, slice);
    }
    __syncthreads();
}

template <int FORMAT, int QUERIES>
__device__ __forceinline__ void attend_grouped(
        const AttendBatch& b, const GroupedSizes& sizes, const float* q, int qStride, float rotation) {
    GPU_DYN_SHARED(unsigned, shared);
    constexpr int STEPS = GroupedKeys<FORMAT>::STEPS;
    int steps = (sizes.headDim + 16 * STEPS - 1) / (16 * STEPS) * STEPS;
    int groups = scale_groups<FORMAT>(sizes.headDim);
    AttendShared s(shared, SPLIT_PAGES, steps * OPERANDS<QUERIES> * 128, QUERIES, groups, groups, sizes.lanes);
    QueryTile tile;
    tile.head = blockIdx.x;
    tile.group = b.heads / b.kvHeads;
    for (int item = blockIdx.y; find_tile<QUERIES>(b, item, tile); item += gridDim.y) {
        if (tile.split >= tile.splits) {
            continue;
        }
        stage_tile<FORMAT, QUERIES>(s, tile, sizes.headDim, steps, q, qStride, rotation);
        int from = tile.split < 0 ? 0 : tile.split;
        int to = tile.split < 0 ? tile.splits : tile.split + 1;
        // The first barrier of a split also stands behind the staging of the queries.
        for (int split = from; split < to; split++) {
            attend_split<FORMAT, QUERIES>(b, s, tile, sizes, split);
        }
        if (tile.split < 0) {
            write_tile(b, s, tile, sizes.headDim, rotation);
            __syncthreads();
        }
    }
}

/// Grid (KV heads, any), 128 threads. Offsets are those of CacheShape.Grouped; `rotation` is the factor of
/// Hadamard.rotate, or 0. Blocks take items in turn until there are none.
#define ATTEND_GROUPED(NAME, FORMAT, QUERIES)                                                                             \
    GPU_KERNEL __launch_bounds__(ATTEND_THREADS, ATTEND_BLOCKS_##QUERIES) NAME(const int* counts, const CacheSegment* segments,\
            const unsigned long long* pages, long long layerOffset, long long blockBytes, int heads, int kvHeads,         \
            float scale, int headDim, int valueLanes, long long valueOffset, long long keyScaleOffset,                    \
            long long valueScaleOffset, float rotation, const float* q, int qStride, float* out, int outStride,           \
            float* partialSums, float* partialStats, int records) {                                                       \
        AttendBatch b = {counts, segments, pages, layerOffset, blockBytes, heads, kvHeads, scale, out, outStride,         \
                partialSums, reinterpret_cast<float2*>(partialStats), records};                                           \
        GroupedSizes sizes = {headDim, valueLanes, valueOffset, keyScaleOffset, valueScaleOffset};                        \
        attend_grouped<FORMAT, QUERIES>(b, sizes, q, qStride, rotation);                                                  \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

ATTEND_GROUPED(attend_grouped_f32_8, CACHE_F32, 8)
ATTEND_GROUPED(attend_grouped_f32_16, CACHE_F32, 16)
ATTEND_GROUPED(attend_grouped_bf16_8, CACHE_BF16, 8)
ATTEND_GROUPED(attend_grouped_bf16_16, CACHE_BF16, 16)
ATTEND_GROUPED(attend_grouped_int8_8, CACHE_INT8, 8)
ATTEND_GROUPED(attend_grouped_int8_16, CACHE_INT8, 16)
ATTEND_GROUPED(attend_grouped_int4_8, CACHE_INT4, 8)
ATTEND_GROUPED(attend_grouped_int4_16, CACHE_INT4, 16)

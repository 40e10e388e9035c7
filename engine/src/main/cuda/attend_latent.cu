// Attention over latents, where a latent is key and value of all heads.
//
// Limit: the tensor cores. Of a token, 64 heads in three parts need 576 · 64 · 3 + 512 · 64 · 3 products, 170 clocks of an SM
// at 0.6 of its peak, while its 656 bytes of FP8 take 35: three parts of queries cost what one part of 192 heads would.
// Four tiles of 16 heads read a latent one after another from the second-level cache. Prediction for an H200, FP8, 64 heads:
// 15 to 20 % of the bandwidth; 16 heads, half of it.
#include "attend.h"

constexpr int LATENT_GROUP = 128;
constexpr int LATENT_QUERIES = 16;

/// Sizes of a latent block.
struct LatentSizes {
    int rank;
    int ropeDim;
    int latentLanes;
    int ropeLanes;
    long long ropeOffset;
    long long scaleOffset;
    int groups; // scales of a token
};

/// Addresses and scales of a split's pages; behind the last token that the tile sees scales are zero.
__device__ __forceinline__ void stage_pages(
        const AttendBatch& b, const AttendShared& s, const QueryTile& tile, const LatentSizes& sizes, int split, int tokens) {
    for (int i = threadIdx.x; i < CACHE_SPLIT; i += ATTEND_THREADS) {
        int page = i / CACHE_TOKENS;
        const unsigned char* block = nullptr;
        if (page * CACHE_TOKENS < tokens) {
            block = cache_page(b.pages, tile.segment.firstPage + split * SPLIT_PAGES + page, b.layerOffset);
        }
        if (i % CACHE_TOKENS == 0) {
            s.pages[page] = reinterpret_cast<unsigned long long>(block);
        }
        for (int g = 0; g < sizes.groups; g++) {
            long long at = sizes.scaleOffset + 4 * (CACHE_TOKENS * g + i % CACHE_TOKENS);
            s.keyScales[g * CACHE_SPLIT + i] = i < tokens ? *reinterpret_cast<const float*>(block + at) : 0.0f;
        }
    }
}

template <int LATENT, int ROPE>
__device__ __forceinline__ void attend_split(
        const AttendBatch& b, const AttendShared& s, const QueryTile& tile, const LatentSizes& sizes, int split) {
    constexpr bool PLAIN = ROPE == CACHE_FP8;
    int warp = threadIdx.x >> 5;
    int lane = threadIdx.x & 31;
    int seen = tile.visible(tile.count - 1) - split * CACHE_SPLIT;
    int tokens = seen < CACHE_SPLIT ? seen : CACHE_SPLIT;
    stage_pages(b, s, tile, sizes, split, tokens);
    __syncthreads();
    int steps = sizes.latentLanes / 16;
    for (int from = 32 * warp; from < tokens; from += 32 * ATTEND_WARPS) {
        Scores<LATENT_QUERIES> scores;
        unsigned long long block = s.pages[from / CACHE_TOKENS + (lane >> 4)];
        const float* scales = sizes.groups == 0 ? nullptr : s.keyScales + from;
        scores.template run<LatentKeys<LATENT>>(
                block, sizes.latentLanes, sizes.rank, steps, s.queries, 0, scales, PLAIN ? steps : LATENT_GROUP / 16);
        unsigned long long rope = block == 0 ? 0 : block + sizes.ropeOffset;
        scores.template run<LatentKeys<ROPE>>(rope, sizes.ropeLanes, sizes.ropeDim, sizes.ropeLanes / 16, s.queries, steps,
                PLAIN ? scales : nullptr, sizes.ropeLanes);
        scores.store(s.scores + from, b.scale);
    }
    __syncthreads();
    int padded = (tokens + CACHE_TOKENS - 1) / CACHE_TOKENS * CACHE_TOKENS;
    softmax_split(b, s, tile, split, padded, PLAIN ? s.keyScales : nullptr);
    __syncthreads();
    for (int slice = warp; 32 * slice < sizes.latentLanes; slice += ATTEND_WARPS) {
        Sums<LATENT_QUERIES> sums[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[i].clear();
        }
        bool grouped = sizes.groups > 0 && !PLAIN;
        const float* scales = grouped ? s.keyScales + 32 * slice / LATENT_GROUP * CACHE_SPLIT : nullptr;
        sum_slice<LATENT_QUERIES, Values<LATENT>>(sums, s, 0, sizes.latentLanes, slice, tokens, scales);
        keep_slice<LATENT_QUERIES, Values<LATENT>>(sums, b, s, tile, split, sizes.latentLanes, slice);
    }
    __syncthreads();
}

template <int LATENT, int ROPE>
__device__ __forceinline__ void attend_latent(
        const AttendBatch& b, const LatentSizes& sizes, const float* latentQ, int latentStride, const float* q, int qStride,
        int headDim) {
    GPU_DYN_SHARED(unsigned, shared);
    int latentSteps = sizes.latentLanes / 16;
    int steps = latentSteps + sizes.ropeLanes / 16;
    AttendShared s(shared, steps * OPERANDS<LATENT_QUERIES> * 128, LATENT_QUERIES, sizes.groups, 0, sizes.latentLanes);
    QueryTile tile;
    tile.head = 0;
    tile.group = b.heads;
    for (int item = blockIdx.y; find_tile<LATENT_QUERIES>(b, item, tile); item += gridDim.y) {
        if (tile.split >= tile.splits) {
            continue;
        }
        stage_queries<LATENT_QUERIES, LatentKeys<LATENT>>(s.queries, 0, latentSteps, sizes.rank, tile.count, [&](int i) {
            return latentQ + (long long)tile.row(i) * latentStride + (long long)tile.queryHead(i) * sizes.rank;
        });
        stage_queries<LATENT_QUERIES, LatentKeys<ROPE>>(s.queries, latentSteps, steps, sizes.ropeDim, tile.count, [&](int i) {
            return q + (long long)tile.row(i) * qStride + (long long)(tile.queryHead(i) + 1) * headDim - sizes.ropeDim;
        });
        int from = tile.split < 0 ? 0 : tile.split;
        int to = tile.split < 0 ? tile.splits : tile.split + 1;
        // The first barrier of a split also stands behind the staging of the queries.
        for (int split = from; split < to; split++) {
            attend_split<LATENT, ROPE>(b, s, tile, sizes, split);
        }
        if (tile.split < 0) {
            write_tile(b, s, tile, sizes.rank, 0.0f);
            __syncthreads();
        }
    }
}

/// Grid (1, any), 128 threads. Offsets are those of CacheShape.Latent; `headDim` numbers of `q` belong to a head, the last
/// `ropeDim` of them are met with the rotated key. Blocks take items in turn until there are none.
#define ATTEND_LATENT(NAME, LATENT, ROPE)                                                                                 \
    GPU_KERNEL __launch_bounds__(ATTEND_THREADS, ATTEND_BLOCKS_16) NAME(const int* counts, const CacheSegment* segments,  \
            const unsigned long long* pages, long long layerOffset, int heads, float scale, int rank, int ropeDim,        \
            int latentLanes, int ropeLanes, long long ropeOffset, long long scaleOffset, int groups, const float* latentQ,\
            int latentStride, const float* q, int qStride, int headDim, float* out, int outStride, float* partialSums,    \
            float* partialStats, int records) {                                                                           \
        AttendBatch b = {counts, segments, pages, layerOffset, 0, heads, 1, scale, out, outStride, partialSums,           \
                reinterpret_cast<float2*>(partialStats), records};                                                        \
        LatentSizes sizes = {rank, ropeDim, latentLanes, ropeLanes, ropeOffset, scaleOffset, groups};                     \
        attend_latent<LATENT, ROPE>(b, sizes, latentQ, latentStride, q, qStride, headDim);                                \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

ATTEND_LATENT(attend_latent_f32, CACHE_F32, CACHE_F32)
ATTEND_LATENT(attend_latent_bf16, CACHE_BF16, CACHE_BF16)
ATTEND_LATENT(attend_latent_int8, CACHE_INT8, CACHE_BF16)
ATTEND_LATENT(attend_latent_fp8, CACHE_FP8, CACHE_BF16)
ATTEND_LATENT(attend_latent_fp8_plain, CACHE_FP8, CACHE_FP8)

// Attention over latents, where a latent is key and value of all heads.
//
// Limit: the tensor cores. Of a token, 64 heads in three parts need 576 · 64 · 3 + 512 · 64 · 3 products, 170 clocks of an SM
// at 0.6 of its peak, while its 656 bytes of FP8 take 35: three parts of queries cost what one part of 192 heads would.
// Four tiles of 16 heads read a latent one after another from the second-level cache. Prediction for an H200, FP8, 64 heads:
// 15 to 20 % of the bandwidth; 16 heads, half of it.
#include "attend_latent.h"

template <int LATENT, int ROPE>
__device__ __forceinline__ void attend_latent(const AttendBatch& b, const LatentSizes& sizes, const LatentQueries& from) {
    GPU_DYN_SHARED(unsigned, shared);
    int steps = (sizes.latentLanes + sizes.ropeLanes) / 16;
    AttendShared s(shared, SPLIT_PAGES, steps * OPERANDS<LATENT_QUERIES> * 128, LATENT_QUERIES, sizes.groups, 0, sizes.latentLanes);
    QueryTile tile;
    tile.head = 0;
    tile.group = b.heads;
    for (int item = blockIdx.y; find_tile<LATENT_QUERIES>(b, item, tile); item += gridDim.y) {
        if (tile.split < tile.splits) {
            attend_tile<LATENT, ROPE, LatentPages<LATENT, ROPE>>(b, s, tile, sizes, from);
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
        attend_latent<LATENT, ROPE>(b, sizes, {latentQ, latentStride, q, qStride, headDim});                              \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

ATTEND_LATENT(attend_latent_f32, CACHE_F32, CACHE_F32)
ATTEND_LATENT(attend_latent_bf16, CACHE_BF16, CACHE_BF16)
ATTEND_LATENT(attend_latent_int8, CACHE_INT8, CACHE_BF16)
ATTEND_LATENT(attend_latent_fp8, CACHE_FP8, CACHE_BF16)
ATTEND_LATENT(attend_latent_fp8_plain, CACHE_FP8, CACHE_FP8)

// Attention over latents of chosen positions: the kernels of attend_latent.cu, but for where a token lies.
//
// A split is 256 of the chosen positions, from the first on, so that a row that chose every position has the bits of one
// that sees them all. A load brings four dimensions of one token, not of the 2 or 4 that share its words: all of a word is
// read for the part of it that one token has.
//
// Limit: the tensor cores, as attend_latent. Of 2048 chosen tokens in BF16, the 4.7 MB that a row reads for its 2.4 MB come
// from memory in 1 µs, and again for each of four tiles of 16 heads from the second-level cache. The products of 64 heads
// take 6 µs on the 32 SMs that 8 splits and 4 tiles of one row give work to. Prediction for an H200, 64 heads: 10 to 15 µs a
// layer at batch 1, whatever the context, and 30 to 50 µs at batch 16.
#include "attend_latent.h"

/// Chosen positions: tokens one by one.
template <int LATENT, int ROPE> struct LatentTokens {
    using Tile = ChosenQueries;
    using Keys = ChosenKeys<LATENT>;
    using RopeKeys = ChosenKeys<ROPE>;
    using Sums = ChosenValues<LATENT>;

    /// Addresses of a split's tokens, each of its block plus its slot, and scales; behind the last one both are zero.
    static __device__ __forceinline__ void stage(
            const AttendBatch& b, const AttendShared& s, const Tile& tile, const LatentSizes& sizes, int split, int tokens) {
        for (int i = threadIdx.x; i < CACHE_SPLIT; i += ATTEND_THREADS) {
            int position = CACHE_SPLIT * split + i;
            const unsigned char* block = nullptr;
            int slot = 0;
            if (i < tokens) {
                position = tile.positions == nullptr ? position : tile.positions[position];
                slot = position % CACHE_TOKENS;
                block = cache_page(b.pages, tile.firstPage + position / CACHE_TOKENS, b.layerOffset);
            }
            s.pages[i] = reinterpret_cast<unsigned long long>(block) + (unsigned)slot;
            for (int g = 0; g < sizes.groups; g++) {
                long long at = sizes.scaleOffset + 4 * (CACHE_TOKENS * g + slot);
                s.keyScales[g * CACHE_SPLIT + i] = i < tokens ? *reinterpret_cast<const float*>(block + at) : 0.0f;
            }
        }
    }

    static __device__ __forceinline__ ChosenTile latents(const AttendShared& s, const LatentSizes& sizes, int from) {
        return chosen_tile<LATENT>(s.pages + from + (threadIdx.x & 28), 0, sizes.latentLanes);
    }
    static __device__ __forceinline__ ChosenTile ropes(const AttendShared& s, const LatentSizes& sizes, int from) {
        return chosen_tile<ROPE>(s.pages + from + (threadIdx.x & 28), sizes.ropeOffset, sizes.ropeLanes);
    }
};

/// Finds a block's item: rows times tiles of heads times splits. False behind the last one; a tile without splits where the item
/// has nothing to do.
__device__ __forceinline__ bool find_chosen(
        const AttendBatch& b, const int* segmentOf, const ChosenPositions& chosen, int item, ChosenQueries& tile) {
    int tiles = (b.heads + LATENT_QUERIES - 1) / LATENT_QUERIES;
    int splits = chosen.partialSplits > 0 ? chosen.partialSplits : 1;
    int row = item / (tiles * splits);
    if (row >= b.counts[1]) {
        return false;
    }
    tile.count = 0;
    if (segmentOf[row] < 0) {
        return true;
    }
    CacheSegment segment = b.segments[segmentOf[row]];
    int split = item / tiles % splits;
    tile.theRow = row;
    tile.firstPage = segment.firstPage;
    tile.positions = chosen.counts[row] < 0 ? nullptr : chosen.positions + (long long)row * chosen.most;
    tile.seen = chosen.of(row, segment);
    tile.first = item % tiles * LATENT_QUERIES;
    tile.splits = splits_of(tile.seen);
    tile.records = chosen.partialSplits;
    bool partial = chosen.partial(tile.splits);
    tile.split = partial ? split : -1;
    bool idle = partial ? split >= tile.splits : split > 0;
    int left = b.heads - tile.first;
    tile.count = idle ? 0 : left < LATENT_QUERIES ? left : LATENT_QUERIES;
    return true;
}

template <int LATENT, int ROPE>
__device__ __forceinline__ void attend_chosen(const AttendBatch& b, const int* segmentOf, const ChosenPositions& chosen,
        const LatentSizes& sizes, const LatentQueries& from) {
    GPU_DYN_SHARED(unsigned, shared);
    int steps = (sizes.latentLanes + sizes.ropeLanes) / 16;
    AttendShared s(shared, CACHE_SPLIT, steps * OPERANDS<LATENT_QUERIES> * 128, LATENT_QUERIES, sizes.groups, 0, sizes.latentLanes);
    ChosenQueries tile;
    for (int item = blockIdx.y; find_chosen(b, segmentOf, chosen, item, tile); item += gridDim.y) {
        if (tile.count > 0) {
            attend_tile<LATENT, ROPE, LatentTokens<LATENT, ROPE>>(b, s, tile, sizes, from);
        }
    }
}

/// Grid (1, any), 128 threads. As ATTEND_LATENT; a row's records of partial sums are `row * partialSplits` on, where it has no
/// more splits than that.
#define ATTEND_CHOSEN(NAME, LATENT, ROPE)                                                                                 \
    GPU_KERNEL __launch_bounds__(ATTEND_THREADS, ATTEND_BLOCKS_16) NAME(const int* counts, const CacheSegment* segments,  \
            const int* segmentOf, const unsigned long long* pages, const int* chosenCounts, const int* chosenPositions,   \
            int most, long long layerOffset, int heads, float scale, int rank, int ropeDim, int latentLanes, int ropeLanes,\
            long long ropeOffset, long long scaleOffset, int groups, const float* latentQ, int latentStride,              \
            const float* q, int qStride, int headDim, float* out, int outStride, float* partialSums, float* partialStats, \
            int partialSplits) {                                                                                          \
        AttendBatch b = {counts, segments, pages, layerOffset, 0, heads, 1, scale, out, outStride, partialSums,           \
                reinterpret_cast<float2*>(partialStats), 0};                                                              \
        ChosenPositions chosen = {chosenCounts, chosenPositions, most, partialSplits};                                    \
        LatentSizes sizes = {rank, ropeDim, latentLanes, ropeLanes, ropeOffset, scaleOffset, groups};                     \
        attend_chosen<LATENT, ROPE>(b, segmentOf, chosen, sizes, {latentQ, latentStride, q, qStride, headDim});           \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

ATTEND_CHOSEN(attend_chosen_f32, CACHE_F32, CACHE_F32)
ATTEND_CHOSEN(attend_chosen_bf16, CACHE_BF16, CACHE_BF16)
ATTEND_CHOSEN(attend_chosen_int8, CACHE_INT8, CACHE_BF16)
ATTEND_CHOSEN(attend_chosen_fp8, CACHE_FP8, CACHE_BF16)
ATTEND_CHOSEN(attend_chosen_fp8_plain, CACHE_FP8, CACHE_FP8)

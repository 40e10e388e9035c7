// Attention over latents: what is the same for rows that see every position up to their own and for rows that see chosen ones.
#pragma once
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

/// Positions up to the row's own: pages as they are.
template <int LATENT, int ROPE> struct LatentPages {
    using Tile = QueryTile;
    using Keys = LatentKeys<LATENT>;
    using RopeKeys = LatentKeys<ROPE>;
    using Sums = Values<LATENT>;

    /// Addresses and scales of a split's pages; behind the last token that the tile sees scales are zero.
    static __device__ __forceinline__ void stage(
            const AttendBatch& b, const AttendShared& s, const Tile& tile, const LatentSizes& sizes, int split, int tokens) {
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

    /// The lane's tokens of 32 from token `from` of the split on.
    static __device__ __forceinline__ unsigned long long block(const AttendShared& s, int from) {
        return s.pages[from / CACHE_TOKENS + ((threadIdx.x & 31) >> 4)];
    }
    static __device__ __forceinline__ unsigned long long latents(const AttendShared& s, const LatentSizes&, int from) {
        return block(s, from);
    }
    static __device__ __forceinline__ unsigned long long ropes(const AttendShared& s, const LatentSizes& sizes, int from) {
        return block(s, from) == 0 ? 0 : block(s, from) + sizes.ropeOffset;
    }
};

/// Forms the sums of a split.
///
/// @tparam Access where tokens lie: [LatentPages] or another with the same members
template <int LATENT, int ROPE, class Access>
__device__ __forceinline__ void attend_split(const AttendBatch& b, const AttendShared& s, const typename Access::Tile& tile,
        const LatentSizes& sizes, int split) {
    constexpr bool PLAIN = ROPE == CACHE_FP8;
    int warp = threadIdx.x >> 5;
    int seen = tile.visible(tile.count - 1) - split * CACHE_SPLIT;
    int tokens = seen < CACHE_SPLIT ? seen : CACHE_SPLIT;
    Access::stage(b, s, tile, sizes, split, tokens);
    __syncthreads();
    int steps = sizes.latentLanes / 16;
    for (int from = 32 * warp; from < tokens; from += 32 * ATTEND_WARPS) {
        Scores<LATENT_QUERIES> scores;
        const float* scales = sizes.groups == 0 ? nullptr : s.keyScales + from;
        scores.template run<typename Access::Keys>(Access::latents(s, sizes, from), sizes.latentLanes, sizes.rank, steps,
                s.queries, 0, scales, PLAIN ? steps : LATENT_GROUP / 16);
        scores.template run<typename Access::RopeKeys>(Access::ropes(s, sizes, from), sizes.ropeLanes, sizes.ropeDim,
                sizes.ropeLanes / 16, s.queries, steps, PLAIN ? scales : nullptr, sizes.ropeLanes);
        scores.store(s.scores + from, SCORE_PITCH, b.scale);
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
        sum_slice<LATENT_QUERIES, typename Access::Sums>(sums, s, 0, sizes.latentLanes, slice, tokens, scales);
        keep_slice<LATENT_QUERIES, typename Access::Sums>(sums, b, s, tile, split, sizes.latentLanes, slice);
    }
    __syncthreads();
}

/// Where the parts of queries lie: `headDim` numbers of `q` belong to a head, the last `ropeDim` of them are met with the
/// rotated key.
struct LatentQueries {
    const float* latentQ;
    int latentStride;
    const float* q;
    int qStride;
    int headDim;
};

/// A tile from its queries to its results.
template <int LATENT, int ROPE, class Access>
__device__ __forceinline__ void attend_tile(const AttendBatch& b, const AttendShared& s, const typename Access::Tile& tile,
        const LatentSizes& sizes, const LatentQueries& from) {
    int latentSteps = sizes.latentLanes / 16;
    int steps = latentSteps + sizes.ropeLanes / 16;
    stage_queries<LATENT_QUERIES, typename Access::Keys>(s.queries, 0, latentSteps, sizes.rank, tile.count, [&](int i) {
        return from.latentQ + (long long)tile.row(i) * from.latentStride + (long long)tile.queryHead(i) * sizes.rank;
    });
    stage_queries<LATENT_QUERIES, typename Access::RopeKeys>(s.queries, latentSteps, steps, sizes.ropeDim, tile.count, [&](int i) {
        return from.q + (long long)tile.row(i) * from.qStride + (long long)(tile.queryHead(i) + 1) * from.headDim - sizes.ropeDim;
    });
    int first = tile.split < 0 ? 0 : tile.split;
    int end = tile.split < 0 ? tile.splits : tile.split + 1;
    // The first barrier of a split also stands behind the staging of the queries.
    for (int split = first; split < end; split++) {
        attend_split<LATENT, ROPE, Access>(b, s, tile, sizes, split);
    }
    if (tile.split < 0) {
        write_tile(b, s, tile, sizes.rank, 0.0f);
        __syncthreads();
    }
}

// The work of attention's blocks: tiles of queries, splits of positions, and how splits are joined.
#pragma once
#include "cache.h"

constexpr int ATTEND_THREADS = 128;
constexpr int ATTEND_WARPS = 4;
/// Blocks of a multiprocessor whose registers suffice: 4 or 3 with code for sm_90, one less before, which needs more.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int ATTEND_BLOCKS_8 = 3;
constexpr int ATTEND_BLOCKS_16 = 2;
#else
constexpr int ATTEND_BLOCKS_8 = 4;
constexpr int ATTEND_BLOCKS_16 = 3;
#endif
constexpr int SPLIT_PAGES = CACHE_SPLIT / CACHE_TOKENS;
/// Floats from one query's scores to the next's: 4 mod 8 runs of 16 bytes, so that loads of operands do not collide.
constexpr int SCORE_PITCH = CACHE_SPLIT + 16;

/// Where things lie in device memory, and the sizes of the operation.
struct AttendBatch {
    const int* counts;
    const CacheSegment* segments;
    const unsigned long long* pages;
    long long layerOffset;
    long long blockBytes; // from one KV head's block to the next's
    int heads;
    int kvHeads;
    float scale;
    float* out;
    int outStride;
    float* partialSums;   // [record][head][lanes]
    float2* partialStats; // [record][head] (m, l)
    int records;          // that there is room for
};

/// The tile of a block: queries of one segment and KV head, numbered row by row.
struct QueryTile {
    CacheSegment segment;
    int head;  // KV head
    int group; // queries of a row
    int first; // query
    int count;
    int split; // or -1: all of them
    int splits; // of the last query

    __device__ __forceinline__ int row(int q) const { return segment.firstRow + (first + q) / group; }
    __device__ __forceinline__ int queryHead(int q) const { return head * group + (first + q) % group; }
    /// Of a query's partial sums.
    __device__ __forceinline__ long long record(int q) const {
        return segment.firstPartial + (long long)((first + q) / group) * segment.splits() + split;
    }
    /// Positions that a query sees.
    __device__ __forceinline__ int visible(int q) const { return segment.start + (first + q) / group + 1; }
};

__device__ __forceinline__ int splits_of(int positions) { return (positions + CACHE_SPLIT - 1) / CACHE_SPLIT; }

/// Finds a block's item: tiles of a segment times its splits, or times 1 where sums stay in the block. False if there are
/// fewer. Tiles with more to do come first. All lanes of a warp together.
template <int QUERIES> __device__ __forceinline__ bool find_tile(const AttendBatch& b, int item, QueryTile& tile) {
    int lane = threadIdx.x & 31;
    int count = b.counts[0];
    int before = 0;
    for (int s0 = 0; s0 < count; s0 += 32) {
        CacheSegment segment = b.segments[s0 + lane < count ? s0 + lane : 0];
        int tiles = (segment.rows * tile.group + QUERIES - 1) / QUERIES;
        int splits = segment.partial(b.records) ? segment.splits() : 1;
        int items = s0 + lane < count ? tiles * splits : 0;
        int end = items;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            int other = __shfl_up_sync(GPU_ALL_LANES, end, o);
            end += lane >= o ? other : 0;
        }
        unsigned beyond = __ballot_sync(GPU_ALL_LANES, before + end > item);
        if (beyond) {
            int source = __ffs((int)beyond) - 1;
            tile.segment = b.segments[s0 + source];
            int within = item - before - __shfl_sync(GPU_ALL_LANES, end - items, source);
            tiles = __shfl_sync(GPU_ALL_LANES, tiles, source);
            tile.first = (tiles - 1 - within % tiles) * QUERIES;
            int left = tile.segment.rows * tile.group - tile.first;
            tile.count = left < QUERIES ? left : QUERIES;
            tile.split = tile.segment.partial(b.records) ? within / tiles : -1;
            tile.splits = splits_of(tile.visible(tile.count - 1));
            return true;
        }
        before += __shfl_sync(GPU_ALL_LANES, end, 31);
    }
    return false;
}

/// Which positions rows attend to, see millrace.engine.kernel.Selection, and the splits that partial sums have room for.
struct ChosenPositions {
    const int* counts; // of a row, or -1 for all up to its own
    const int* positions;
    int most;
    int partialSplits; // records of a row, 0 for no partial sums

    __device__ __forceinline__ int of(int row, const CacheSegment& segment) const {
        return counts[row] < 0 ? segment.start + row - segment.firstRow + 1 : counts[row];
    }
    /// Whether a row's splits go to partial sums: record `row * partialSplits` on.
    __device__ __forceinline__ bool partial(int splits) const { return splits <= partialSplits; }
};

/// The tile of a block that attends to chosen positions: queries of one row. Splits are those of the list of positions.
struct ChosenQueries {
    int theRow;
    int firstPage;
    const int* positions; // or null for all
    int seen;
    int first; // query
    int count;
    int split; // or -1: all of them
    int splits;
    int records;

    __device__ __forceinline__ int row(int) const { return theRow; }
    __device__ __forceinline__ int queryHead(int q) const { return first + q; }
    __device__ __forceinline__ long long record(int) const { return (long long)theRow * records + split; }
    __device__ __forceinline__ int visible(int) const { return seen; }
};

/// How (m, l) of the splits up to one and of the next become one: the sums so far times `keep`, plus the next times `take`.
struct Joined {
    float m;
    float l;
    float keep;
    float take;
};
__device__ __forceinline__ float larger(float a, float b) { return b > a || b != b ? b : a; }
__device__ __forceinline__ Joined joined(float m, float l, float nextM, float nextL) {
    Joined j;
    j.m = larger(m, nextM);
    j.keep = gpu_exp(__fsub_rn(m, j.m));
    j.take = gpu_exp(__fsub_rn(nextM, j.m));
    j.l = __fmaf_rn(l, j.keep, __fmul_rn(nextL, j.take));
    return j;
}
__device__ __forceinline__ float joined_sum(float sum, float keep, float next, float take) {
    return __fmaf_rn(sum, keep, __fmul_rn(next, take));
}

/// What a block has in shared memory.
struct AttendShared {
    unsigned long long* pages;
    unsigned* queries;
    float* scores;
    float* keyScales;
    float* valueScales;
    float* sums;
    float* m;
    float* l;
    float* keep;
    float* take;
    int sumPitch;

    /// @param addresses of a split: one for each page, or for each token
    __device__ __forceinline__ AttendShared(
            unsigned* base, int addresses, int queryWords, int count, int keyGroups, int valueGroups, int lanes) {
        sumPitch = lanes + 4;
        pages = reinterpret_cast<unsigned long long*>(base);
        queries = base + 2 * addresses;
        scores = reinterpret_cast<float*>(queries + queryWords);
        keyScales = scores + count * SCORE_PITCH;
        valueScales = keyScales + keyGroups * CACHE_SPLIT;
        sums = valueScales + valueGroups * CACHE_SPLIT;
        m = sums + count * sumPitch;
        l = m + 16;
        keep = l + 16;
        take = keep + 16;
    }
};

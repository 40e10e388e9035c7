// Scores of index keys: of a row and a position, from 0, `acc = fma(weight * scale, max(0, dot), acc)` over heads, ascending.
// docs/numerics.md has the order of a dot.
//
// A block of 4 warps has one row and takes 128 positions at a time, a warp 32 of them: 16 heads are the rows of A, as queries
// are in attention. Dots of 16 heads go through shared memory, from where each lane adds up one position's.
//
// INT8 keys meet queries in 16-bit fixed point as on the CPU (FixedPoint.java): z = 256 * high + low, both within +-128, so
// that products with codes and their sums are integers below 2^23, exact in every order, and two parts do.
//
// Limit: the tensor cores. A position of 32 heads of 128 dimensions takes 192 mma of three parts for 32 of them, about 20
// clocks of an SM at 0.6 of its peak (13 in INT8), while its 256 bytes of BF16 take 14 from memory. Prediction for an H200:
// one row of 32k positions 5 µs, 64 rows of them 190 µs (INT8 130 µs).
#include "attend.h"
#include "store.h"

constexpr int INDEX_THREADS = 128;
constexpr int INDEX_WARPS = INDEX_THREADS / 32;
constexpr int INDEX_HEADS = 16;
/// Floats from one head's dots to the next's: runs of 16 bytes that lanes write together do not collide.
constexpr int DOT_PITCH = 32 + 4;

/// Sizes of the operation, and the row's query and weights.
struct IndexRow {
    int heads;
    int dim;
    float scale;
    const float* q;
    const float* weights;

    __device__ __forceinline__ int tiles() const { return (heads + INDEX_HEADS - 1) / INDEX_HEADS; }
    __device__ __forceinline__ int steps() const { return (dim + 15) / 16; }
};

/// What a block has in shared memory.
struct IndexShared {
    unsigned* operands; // [tiles][k steps][operands][32][4]
    float* dots;        // [warps][16][DOT_PITCH]
    float* weights;     // [heads]
    float* units;       // [heads], in fixed point
    float* factors;     // [heads], to get there
};

/// A tile's operands in fixed point.
__device__ __forceinline__ void stage_fixed(const IndexShared& s, const IndexRow& row, int tile) {
    constexpr int OPERAND_COUNT = OPERANDS<INDEX_HEADS, 2>;
    uint4* to = reinterpret_cast<uint4*>(s.operands) + tile * row.steps() * OPERAND_COUNT * 32;
    for (int i = threadIdx.x; i < row.steps() * 32; i += INDEX_THREADS) {
#pragma unroll
        for (int half = 0; half < OPERAND_COUNT; half++) {
            int head = tile * INDEX_HEADS + i % 32 / 4 + 8 * half;
            unsigned high[4], low[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int d = GroupedKeys<CACHE_INT8>::depth(i / 32, i % 4, e / 2, e % 2);
                int z = 0;
                if (head < row.heads && d < row.dim && s.units[head] == s.units[head]) {
                    float rounded = __fadd_rn(__fmul_rn(row.q[head * row.dim + d], s.factors[head]), 12582912.0f);
                    z = min(__float_as_int(rounded) - __float_as_int(12582912.0f), 32767);
                }
                int upper = (z + 128) >> 8;
                high[e] = __float_as_uint((float)upper);
                low[e] = __float_as_uint((float)(z - upper * 256));
            }
            to[(i / 32 * OPERAND_COUNT + half) * 32 + i % 32] = make_uint4(gpu_prmt(high[0], high[1], 0x7632u),
                    gpu_prmt(low[0], low[1], 0x7632u), gpu_prmt(high[2], high[3], 0x7632u), gpu_prmt(low[2], low[3], 0x7632u));
        }
    }
}

/// Puts the row's query into operands, and its weights beside them.
template <int FORMAT> __device__ __forceinline__ void stage_row(const IndexShared& s, const IndexRow& row) {
    for (int h = threadIdx.x; h < row.heads; h += INDEX_THREADS) {
        s.weights[h] = __fmul_rn(row.weights[h], row.scale);
    }
    if (FORMAT == CACHE_INT8) {
        for (int h = threadIdx.x >> 5; h < row.heads; h += INDEX_WARPS) {
            unsigned exponent = largest_of(row.q + h * row.dim, row.dim) & F32_INFINITY;
            exponent = exponent < 28u << 23 ? 28u << 23 : exponent;
            if ((threadIdx.x & 31) == 0) {
                s.factors[h] = __uint_as_float((268u << 23) - exponent);
                s.units[h] = __uint_as_float(exponent == F32_INFINITY ? F32_NAN : exponent - (14u << 23));
            }
        }
        __syncthreads();
    }
    for (int tile = 0; tile < row.tiles(); tile++) {
        if (FORMAT == CACHE_INT8) {
            stage_fixed(s, row, tile);
        } else {
            int left = row.heads - tile * INDEX_HEADS;
            stage_queries<INDEX_HEADS, GroupedKeys<FORMAT>>(s.operands + tile * row.steps() * OPERANDS<INDEX_HEADS> * 128, 0,
                    row.steps(), row.dim, left < INDEX_HEADS ? left : INDEX_HEADS,
                    [&](int i) { return row.q + (tile * INDEX_HEADS + i) * row.dim; });
        }
    }
    __syncthreads();
}

/// The score of the lane's position of 32. All lanes of a warp together.
///
/// @param block that of the lane's position, or 0
/// @param keyScale of the lane's position, in INT8
template <int FORMAT>
__device__ __forceinline__ float score_of(const IndexShared& s, const IndexRow& row, unsigned long long block, float keyScale) {
    using Keys = GroupedKeys<FORMAT>;
    constexpr int QUERY_PARTS = FORMAT == CACHE_INT8 ? 2 : 3;
    constexpr int PER_ROW = 4 * Keys::STEPS / Keys::LOADS;
    float* dots = s.dots + (threadIdx.x >> 5) * INDEX_HEADS * DOT_PITCH;
    float score = 0.0f;
    for (int tile = 0; tile < row.tiles(); tile++) {
        Scores<INDEX_HEADS, QUERY_PARTS> products;
        products.template run<Keys>(block, (row.dim + PER_ROW - 1) / PER_ROW, row.dim, row.steps(),
                s.operands + tile * row.steps() * OPERANDS<INDEX_HEADS, QUERY_PARTS> * 128, 0, nullptr, row.steps());
        products.store(dots, DOT_PITCH, 1.0f);
        __syncwarp();
        for (int i = 0; i < INDEX_HEADS && tile * INDEX_HEADS + i < row.heads; i++) {
            int head = tile * INDEX_HEADS + i;
            float dot = dots[i * DOT_PITCH + (threadIdx.x & 31)];
            if (FORMAT == CACHE_INT8) {
                dot = __fmul_rn(__fmul_rn(dot, s.units[head]), keyScale);
            }
            dot = dot > 0.0f || dot != dot ? dot : 0.0f;
            score = __fmaf_rn(s.weights[head], dot, score);
        }
        __syncwarp();
    }
    return score;
}

template <int FORMAT>
__device__ __forceinline__ void index_scores(const int* counts, const CacheSegment* segments, const int* segmentOf,
        const unsigned long long* pages, long long layerOffset, IndexRow row, int qStride, int weightStride,
        long long scaleOffset, int most, int first, int window, float* scores) {
    GPU_DYN_SHARED(unsigned, shared);
    int index = blockIdx.x;
    if (index >= counts[1] || segmentOf[index] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[index]];
    int visible = segment.start + index - segment.firstRow + 1;
    int end = visible - first < window ? visible : first + window;
    int from = first + INDEX_THREADS * (int)blockIdx.y;
    if (visible <= most || from >= end) {
        return;
    }
    row.q += (long long)index * qStride;
    row.weights += (long long)index * weightStride;
    IndexShared s;
    s.operands = shared;
    s.dots = reinterpret_cast<float*>(shared + row.tiles() * row.steps() * OPERANDS<INDEX_HEADS, FORMAT == CACHE_INT8 ? 2 : 3> * 128);
    s.weights = s.dots + INDEX_WARPS * INDEX_HEADS * DOT_PITCH;
    s.units = s.weights + row.heads;
    s.factors = s.units + row.heads;
    stage_row<FORMAT>(s, row);
    int lane = threadIdx.x & 31;
    for (int at = from + 32 * ((int)threadIdx.x >> 5); at < end; at += INDEX_THREADS * gridDim.y) {
        int page = at / CACHE_TOKENS + (lane >> 4);
        const unsigned char* block = nullptr;
        if (page * CACHE_TOKENS < end) {
            block = cache_page(pages, segment.firstPage + page, layerOffset);
        }
        float keyScale = 0.0f;
        if (FORMAT == CACHE_INT8 && at + lane < end) {
            keyScale = f16_to_f32(*reinterpret_cast<const unsigned short*>(block + scaleOffset + 2 * (lane & 15)));
        }
        float score = score_of<FORMAT>(s, row, reinterpret_cast<unsigned long long>(block), keyScale);
        if (at + lane < end) {
            scores[(long long)index * window + at + lane - first] = score;
        }
    }
}

/// Grid (rows, any), 128 threads. Writes the scores of positions `first` to `first + window` of every row that sees more than
/// `most`, `[row][window]`; `first` and `window` are multiples of 32. Offsets are those of CacheShape.Keys; a query's
/// heads lie one behind the other.
#define INDEX_SCORES(NAME, FORMAT)                                                                                        \
    GPU_KERNEL __launch_bounds__(INDEX_THREADS, ATTEND_BLOCKS_16) NAME(const int* counts, const CacheSegment* segments,   \
            const int* segmentOf, const unsigned long long* pages, long long layerOffset, int heads, int dim, float scale,\
            long long scaleOffset, const float* q, int qStride, const float* weights, int weightStride, int most,         \
            int first, int window, float* scores) {                                                                       \
        index_scores<FORMAT>(counts, segments, segmentOf, pages, layerOffset, {heads, dim, scale, q, weights}, qStride,   \
                weightStride, scaleOffset, most, first, window, scores);                                                  \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

INDEX_SCORES(index_scores_f32, CACHE_F32)
INDEX_SCORES(index_scores_bf16, CACHE_BF16)
INDEX_SCORES(index_scores_int8, CACHE_INT8)

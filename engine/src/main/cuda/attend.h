// Attention over the cache, the part that all formats share. docs/numerics.md has the order of every result.
//
// The positions that a query sees are cut into splits of 256 at multiples of 256. A split gives m, the largest score; l,
// the sum of p = exp(score - m); and sums of p * value. Splits are joined one after another, from the first on, be it in
// the block that forms them all or from memory by attend_combine: the operations are the same, and so are the bits. Rows of
// A do not meet in an mma, so a query's bits do not depend on those it shares a block with.
//
// A block of 4 warps has a tile of up to 8 or 16 queries (rows times heads of a KV head). For scores, a warp takes 32 tokens
// at a time and all dimensions; for sums, 32 dimensions and all tokens of the split. The three BF16 parts of a query or a
// probability are rows of A: first and second part of 8 queries are the two halves of one operand, so that a lane has both
// sums, and the third parts of 16 queries are another: 2 mma for 8 queries, 3 for 16.
//
// Shared memory, in words of 4 bytes, see CudaAttention.sharedBytes:
//   page addresses [16] x 2, or token addresses [256] x 2 | query operands [k steps][tiles][32][4] | scores, then weights [queries][272] |
//   scales of keys [groups][256] | scales of values [groups][256] | sums [queries][lanes + 4] | m, l, keep, take [16] each
#pragma once
#include "attend_tile.h"
#include "tiles.h"

/// Operands of A in a k step: first and second parts of queries 0 to 7, of 8 to 15, third parts of all if there are any.
template <int QUERIES, int QUERY_PARTS = 3> constexpr int OPERANDS = QUERIES / 8 + QUERY_PARTS - 2;

/// Puts a query's values of one lane into its operands: `parts` are [register][part].
template <int QUERIES> __device__ __forceinline__ void place(unsigned (*a)[4], int half, const unsigned (*parts)[3]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        a[half][2 * h] = parts[h][0];
        a[half][2 * h + 1] = parts[h][1];
        a[OPERANDS<QUERIES> - 1][2 * h + half] = parts[h][2];
        if (QUERIES == 8) {
            a[1][2 * h + 1] = 0;
        }
    }
}

/// Writes the operands of k steps `from` to `to`; values behind `width` and queries that are not there are zero.
///
/// @param query gives the first of a query's values for these steps
template <int QUERIES, class Keys, class Query>
__device__ __forceinline__ void stage_queries(unsigned* operands, int from, int to, int width, int count, Query query) {
    for (int i = threadIdx.x; i < (to - from) * 32; i += ATTEND_THREADS) {
        int step = i / 32;
        int g = i % 32 / 4;
        int t = i % 4;
        unsigned a[OPERANDS<QUERIES>][4];
#pragma unroll
        for (int half = 0; half < QUERIES / 8; half++) {
            int q = g + 8 * half;
            const float* x = q < count ? query(q) : nullptr;
            unsigned parts[2][3];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int d0 = Keys::depth(step, t, h, 0);
                int d1 = Keys::depth(step, t, h, 1);
                bf16_parts(x != nullptr && d0 < width ? x[d0] : 0.0f, x != nullptr && d1 < width ? x[d1] : 0.0f, parts[h], 1);
            }
            place<QUERIES>(a, half, parts);
        }
#pragma unroll
        for (int tile = 0; tile < OPERANDS<QUERIES>; tile++) {
            uint4 v = make_uint4(a[tile][0], a[tile][1], a[tile][2], a[tile][3]);
            reinterpret_cast<uint4*>(operands)[((from + step) * OPERANDS<QUERIES> + tile) * 32 + i % 32] = v;
        }
    }
}

/// Accumulators of one column tile of 8, `[operand][register]`, and what they are worth: the small parts first. Two parts are
/// integers, of which the first counts 256.
template <int QUERIES, int QUERY_PARTS = 3> struct Sums {
    static constexpr int COUNT = OPERANDS<QUERIES, QUERY_PARTS>;
    float part[COUNT][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            part[i][0] = part[i][1] = part[i][2] = part[i][3] = 0.0f;
        }
    }
    __device__ __forceinline__ float value(int half, int e) const {
        if (QUERY_PARTS == 2) {
            return __fmaf_rn(256.0f, part[half][e], part[half][2 + e]);
        }
        float small = __fadd_rn(part[half][2 + e], part[COUNT - 1][2 * half + e]);
        return __fadd_rn(part[half][e], small);
    }
    template <int PARTS> __device__ __forceinline__ void add(const unsigned (*a)[4], const unsigned (*b)[2]) {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            gpu_mma_16816_bf16_n<COUNT, 4, 4, 0>(&part[0][0], &a[0][0], b[p]);
        }
    }
};

/// Scores of 32 tokens: of token 8 t + i and 8 t + 4 + i for the lane's queries g and g + 8.
template <int QUERIES, int QUERY_PARTS = 3> struct Scores {
    static constexpr int COUNT = OPERANDS<QUERIES, QUERY_PARTS>;
    Sums<QUERIES, QUERY_PARTS> sums[4];
    float total[4][QUERIES / 8][2];

    __device__ __forceinline__ Scores() {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[i].clear();
#pragma unroll
            for (int half = 0; half < QUERIES / 8; half++) {
                total[i][half][0] = total[i][half][1] = 0.0f;
            }
        }
    }

    /// Goes over `units` units of a tile's dimensions, `width` in all, whose operands of queries begin at k step `step`.
    ///
    /// @param tile the lane's, as the keys have it
    /// @param extent of the tile, as the keys load it
    /// @param every after so many units, and at the end, sums are multiplied by the next group of `scales`, if there are any
    template <class Keys>
    __device__ __forceinline__ void run(const typename Keys::Tile& tile, int extent, int width, int units,
            const unsigned* operands, int step, const float* scales, int every) {
        constexpr int AHEAD = Keys::LOADS * Keys::STEPS == 1 ? 4 : Keys::LOADS <= 2 ? 2 : 1;
        int lane = threadIdx.x & 31;
        int g = lane >> 2;
        int t = lane & 3;
        uint4 next[AHEAD][Keys::LOADS];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            Keys::load(next[u], tile, u < units, extent, u, g, t);
        }
        int left = every;
        for (int unit = 0; unit < units; unit += AHEAD) {
            uint4 now[AHEAD][Keys::LOADS];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
#pragma unroll
                for (int i = 0; i < Keys::LOADS; i++) {
                    now[u][i] = next[u][i];
                }
                Keys::load(next[u], tile, unit + AHEAD + u < units, extent, unit + AHEAD + u, g, t);
            }
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                if (unit + u < units) {
                    if (Keys::RAGGED && 16 * (unit + u + 1) > width) {
                        Keys::keep(now[u], width - 16 * (unit + u) - 4 * t);
                    }
                    multiply<Keys>(now[u], tile, operands, step + (unit + u) * Keys::STEPS);
                    if (--left == 0 || unit + u + 1 == units) {
                        fold(scales);
                        scales = scales == nullptr ? nullptr : scales + CACHE_SPLIT;
                        left = every;
                    }
                }
            }
        }
    }

    template <class Keys>
    __device__ __forceinline__ void multiply(
            const uint4* words, const typename Keys::Tile& keys, const unsigned* operands, int step) {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int s = 0; s < Keys::STEPS; s++) {
            unsigned a[COUNT][4];
#pragma unroll
            for (int tile = 0; tile < COUNT; tile++) {
                const uint4* at = reinterpret_cast<const uint4*>(operands) + ((step + s) * COUNT + tile) * 32;
                uint4 v = at[lane];
                a[tile][0] = v.x;
                a[tile][1] = v.y;
                a[tile][2] = v.z;
                a[tile][3] = v.w;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned b[Keys::PARTS][2];
                Keys::operand(words, keys, s, i, b);
                sums[i].template add<Keys::PARTS>(a, b);
            }
        }
    }

    /// Adds what the sums are worth, times the tokens' scales if there are any, and begins anew.
    __device__ __forceinline__ void fold(const float* scales) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float4 s = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
            if (scales != nullptr) {
                s = *reinterpret_cast<const float4*>(scales + 8 * (threadIdx.x & 3) + 4 * e);
            }
#pragma unroll
            for (int half = 0; half < QUERIES / 8; half++) {
                total[0][half][e] = __fmaf_rn(s.x, sums[0].value(half, e), total[0][half][e]);
                total[1][half][e] = __fmaf_rn(s.y, sums[1].value(half, e), total[1][half][e]);
                total[2][half][e] = __fmaf_rn(s.z, sums[2].value(half, e), total[2][half][e]);
                total[3][half][e] = __fmaf_rn(s.w, sums[3].value(half, e), total[3][half][e]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[i].clear();
        }
    }

    /// Writes the scores, times a factor.
    ///
    /// @param pitch floats from one query's scores to the next's, a multiple of 4
    __device__ __forceinline__ void store(float* scores, int pitch, float factor) const {
        int g = (threadIdx.x & 31) >> 2;
        int t = threadIdx.x & 3;
#pragma unroll
        for (int half = 0; half < QUERIES / 8; half++) {
            float4* at = reinterpret_cast<float4*>(scores + (g + 8 * half) * pitch + 8 * t);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                at[e] = make_float4(__fmul_rn(total[0][half][e], factor), __fmul_rn(total[1][half][e], factor),
                        __fmul_rn(total[2][half][e], factor), __fmul_rn(total[3][half][e], factor));
            }
        }
    }
};

/// The softmax of a split: scores become p, times the scale of the token's value if there is one for all dimensions; a
/// warp has whole queries. The sum is that of p, by lanes of tokens 32 apart, then a butterfly. (m, l) are joined with
/// those of the splits before, or written as a partial result.
template <class Tile>
__device__ __forceinline__ void softmax_split(
        const AttendBatch& b, const AttendShared& s, const Tile& tile, int split, int tokens, const float* scales) {
    int lane = threadIdx.x & 31;
    for (int q = threadIdx.x >> 5; q < tile.count; q += ATTEND_WARPS) {
        float* x = s.scores + q * SCORE_PITCH;
        int visible = tile.visible(q) - split * CACHE_SPLIT;
        float m = __uint_as_float(0xff800000u);
        for (int i = lane; i < tokens; i += 32) {
            m = i < visible ? larger(m, x[i]) : m;
        }
#pragma unroll
        for (int o = 16; o; o >>= 1) {
            m = larger(m, __shfl_xor_sync(GPU_ALL_LANES, m, o));
        }
        float l = 0.0f;
        for (int i = lane; i < tokens; i += 32) {
            float p = i < visible ? gpu_exp(__fsub_rn(x[i], m)) : 0.0f;
            l = __fadd_rn(l, p);
            x[i] = scales != nullptr && i < visible ? __fmul_rn(p, scales[i]) : p;
        }
        l = warp_sum(l);
        if (lane == 0 && visible > 0) {
            if (tile.split >= 0) {
                b.partialStats[tile.record(q) * b.heads + tile.queryHead(q)] = make_float2(m, l);
            } else if (split == 0) {
                s.m[q] = m;
                s.l[q] = l;
            } else {
                Joined j = joined(s.m[q], s.l[q], m, l);
                s.m[q] = j.m;
                s.l[q] = j.l;
                s.keep[q] = j.keep;
                s.take[q] = j.take;
            }
        }
    }
}

/// The operands of weights of 16 tokens: those of the lane's queries and tokens 4 t ... 4 t + 3.
template <int QUERIES>
__device__ __forceinline__ void weights(unsigned (*a)[4], const float* scores, int from, const float* scales) {
    int g = (threadIdx.x & 31) >> 2;
    int at = from + 4 * (threadIdx.x & 3);
#pragma unroll
    for (int half = 0; half < QUERIES / 8; half++) {
        float4 p = *reinterpret_cast<const float4*>(scores + (g + 8 * half) * SCORE_PITCH + at);
        if (scales != nullptr) {
            float4 f = *reinterpret_cast<const float4*>(scales + at);
            p = make_float4(__fmul_rn(p.x, f.x), __fmul_rn(p.y, f.y), __fmul_rn(p.z, f.z), __fmul_rn(p.w, f.w));
        }
        unsigned parts[2][3];
        bf16_parts(p.x, p.y, parts[0], 1);
        bf16_parts(p.z, p.w, parts[1], 1);
        place<QUERIES>(a, half, parts);
    }
}

/// Sums of 32 dimensions over a split: one chain of k steps of 16 tokens, ascending.
///
/// @param valueOffset from a block's begin to its values
/// @param tokens of the split that the tile sees
template <int QUERIES, class V>
__device__ __forceinline__ void sum_slice(Sums<QUERIES>* sums, const AttendShared& s, long long valueOffset, int lanes,
        int slice, int tokens, const float* scales) {
    constexpr int AHEAD = V::LOADS == 1 ? 4 : V::LOADS == 2 ? 2 : 1;
    int lane = threadIdx.x & 31;
    int g = lane >> 2;
    int t = lane & 3;
    int pages = (tokens + CACHE_TOKENS - 1) / CACHE_TOKENS;
    uint4 next[AHEAD][V::LOADS];
    typename V::Tile nextTile[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        if (u < pages) {
            nextTile[u] = V::tile(s.pages, u, valueOffset, lanes, t);
            V::load(next[u], nextTile[u], lanes, slice, g, t);
        }
    }
    for (int page = 0; page < pages; page += AHEAD) {
        uint4 now[AHEAD][V::LOADS];
        typename V::Tile tile[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
#pragma unroll
            for (int i = 0; i < V::LOADS; i++) {
                now[u][i] = next[u][i];
            }
            tile[u] = nextTile[u];
            if (page + AHEAD + u < pages) {
                nextTile[u] = V::tile(s.pages, page + AHEAD + u, valueOffset, lanes, t);
                V::load(next[u], nextTile[u], lanes, slice, g, t);
            }
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (page + u < pages) {
                V::keep(now[u], tokens - CACHE_TOKENS * (page + u) - 4 * t);
                unsigned a[OPERANDS<QUERIES>][4];
                weights<QUERIES>(a, s.scores, CACHE_TOKENS * (page + u), scales);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    unsigned v[V::PARTS][2];
                    V::operand(now[u], tile[u], i, v);
                    sums[i].template add<V::PARTS>(a, v);
                }
            }
        }
    }
}

/// Takes the sums of a slice to the sums of the block, joined with those of the splits before, or to a partial result.
template <int QUERIES, class V, class Tile>
__device__ __forceinline__ void keep_slice(const Sums<QUERIES>* sums, const AttendBatch& b, const AttendShared& s,
        const Tile& tile, int split, int lanes, int slice) {
    int g = (threadIdx.x & 31) >> 2;
    int t = threadIdx.x & 3;
#pragma unroll
    for (int half = 0; half < QUERIES / 8; half++) {
        int q = g + 8 * half;
        if (q >= tile.count || tile.visible(q) <= split * CACHE_SPLIT) {
            continue;
        }
        float* to = s.sums + q * s.sumPitch;
        if (tile.split >= 0) {
            to = b.partialSums + (tile.record(q) * b.heads + tile.queryHead(q)) * lanes;
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int d = 32 * slice + V::run(t, r);
            if (d >= lanes) {
                continue;
            }
            float4 v = make_float4(sums[V::product(r, 0)].value(half, V::column(r, 0)),
                    sums[V::product(r, 1)].value(half, V::column(r, 1)),
                    sums[V::product(r, 2)].value(half, V::column(r, 2)),
                    sums[V::product(r, 3)].value(half, V::column(r, 3)));
            float4* at = reinterpret_cast<float4*>(to + d);
            if (tile.split < 0 && split > 0) {
                float4 old = *at;
                float keep = s.keep[q];
                float take = s.take[q];
                v = make_float4(joined_sum(old.x, keep, v.x, take), joined_sum(old.y, keep, v.y, take),
                        joined_sum(old.z, keep, v.z, take), joined_sum(old.w, keep, v.w, take));
            }
            *at = v;
        }
    }
}

/// Writes the results of a tile whose sums stayed in the block; a warp has whole queries.
///
/// @param rotation the factor of the rotation back, or 0 for none
template <class Tile>
__device__ __forceinline__ void write_tile(
        const AttendBatch& b, const AttendShared& s, const Tile& tile, int dim, float rotation) {
    int lane = threadIdx.x & 31;
    for (int q = threadIdx.x >> 5; q < tile.count; q += ATTEND_WARPS) {
        float* x = s.sums + q * s.sumPitch;
        float inverse = __fdiv_rn(1.0f, s.l[q]);
        for (int d = lane; d < dim; d += 32) {
            x[d] = __fmul_rn(x[d], inverse);
        }
        if (rotation != 0.0f) {
            warp_rotate(x, dim, rotation);
        }
        float* out = b.out + (long long)tile.row(q) * b.outStride + (long long)tile.queryHead(q) * dim;
        for (int d = lane; d < dim; d += 32) {
            out[d] = x[d];
        }
    }
}

/* Attention over INT8 keys and values of one KV head, in integers.
 *
 * Queries, and the weights of a page's tokens, become fixed-point numbers of 16 bits whose unit is a power of two: see
 * FixedPoint in Java. Their products with codes are summed in 32 bits, which is exact and so has no order. One
 * instruction takes two of them for each lane, and codes need no more than widening: less than half of what floats take,
 * which is more than a core has time for while memory delivers the codes.
 */
#include "attention.h"

/* Dimensions of a head at most: the sum of so many products stays below 2^31. */
enum { MOST_DEPTH = 512 };

/* Pages whose scores are computed together: a key's bytes meet all queries, a query's word all pages. */
#if defined(__AVX512F__)
#define PAGES_FOR(queries) ((queries) == MANY_QUERIES ? 2 : 4)
#else
#define PAGES_FOR(queries) ((queries) == MANY_QUERIES ? 1 : 2)
#endif

/* A block is too short for the processor to see a stream in it, and what it asks for by itself lies in part behind the
 * block's end. So lines are asked for twice: FAR pages ahead for the second-level cache, of four pages in turn, and a
 * tile or NEAR pages before their use for the first. */
enum { FAR = 8, NEAR = 2 };
#define SOON(address) __builtin_prefetch(address, 0, 3)
#define LATER(address) __builtin_prefetch(address, 0, 2)

/* Magnitudes, as integers of the same order: NaN is the largest. */
INLINE w16 magnitude(f16 v) { return w_and(w_bits(v), w_all(0x7FFFFFFF)); }

/* For numbers of which the largest has this magnitude: what they are multiplied with, and what undoes it, which is NaN if
 * one of them is not finite. Lane by lane. */
INLINE f16 fix(w16 largest, f16 *unit) {
    w16 exponent = w_max(w_and(largest, w_all(255u << 23)), w_all(28u << 23));
    f16 power = f_bits(exponent);
    *unit = f_fma(power, f_zero(), f_mul(power, f_all(0x1p-14f)));
    return f_bits(w_sub(w_all(268u << 23), exponent));
}

/* Queries in pairs of 16 bits, where w_pairs puts them, `width` words apart; what is beyond the depth is 0. */
INLINE void fix_queries(const float *q, int64_t queries, int64_t depth, int64_t width, int32_t *out, float *units) {
    for (int64_t i = 0; i < queries; i++) {
        const float *from = q + i * depth;
        const int64_t whole = depth / LANES * LANES;
        w16 largest = w_zero();
        for (int64_t d = 0; d < whole; d += LANES) {
            largest = w_max(largest, magnitude(f_load(from + d)));
        }
        if (whole < depth) {
            largest = w_max(largest, magnitude(f_load_n(from + whole, depth - whole)));
        }
        f16 unit, factor = fix(w_all((uint32_t) w_largest(largest)), &unit);
        f_store_n(units + i, unit, 1);
        for (int64_t d = 0; d < depth; d += LANES) {
            f16 x = d < whole ? f_load(from + d) : f_load_n(from + d, depth - d);
            w_store(out + i * width + d, w_pairs(w_round(f_mul(x, factor))));
        }
    }
}

INLINE void score_tile(int queries, int pages, const int64_t *page, int64_t left, int64_t block, int64_t depth,
        int64_t scale_offset, const int32_t *q, int64_t width, const float *units, float *scores, int64_t stride) {
    const char *keys[4], *soon[4], *later[4];
    w16 sum[4][8];
    UNROLL for (int p = 0; p < pages; p++) {
        keys[p] = (const char *) page[p] + block;
        soon[p] = (const char *) page[p + pages < left ? p + pages : p] + block;
        later[p] = (const char *) page[p + FAR < left ? p + FAR : p] + block;
        LATER(later[p] + scale_offset);
        UNROLL for (int i = 0; i < queries; i++) {
            sum[p][i] = w_zero();
        }
    }
    for (int64_t d = 0; d < depth; d += 4) {
        w16 v[4];
        UNROLL for (int p = 0; p < pages; p++) {
            v[p] = w_load(keys[p] + 16 * d);
            KEEP(v[p]);
            SOON(soon[p] + 16 * d);
            LATER(later[p] + 16 * d);
        }
        UNROLL for (int k = 0; k < 2; k++) {
            w16 x[4];
            UNROLL for (int p = 0; p < pages; p++) {
                x[p] = k ? w_bytes_odd(v[p]) : w_bytes_even(v[p]);
            }
            UNROLL for (int i = 0; i < queries; i++) {
                w16 z = w_all((uint32_t) q[i * width + d + k]);
                UNROLL for (int p = 0; p < pages; p++) {
                    sum[p][i] = w_dot(sum[p][i], x[p], z);
                    KEEP(sum[p][i]);
                }
            }
        }
    }
    UNROLL for (int p = 0; p < pages; p++) {
        f16 scale = f_halves(keys[p] + scale_offset);
        UNROLL for (int i = 0; i < queries; i++) {
            f16 part = f_mul(f_from_int(sum[p][i]), f_all(units[i]));
            f_store(scores + i * stride + TOKENS * p, f_mul(part, scale));
        }
    }
}

/* Pages of a tile of queries: as many at a time as registers hold, then one by one. */
#define SCORE_FORM(queries) \
    ONCE void score_##queries(int64_t count, const int64_t *page, int64_t block, int64_t depth, int64_t scale_offset, \
            const int32_t *q, int64_t width, const float *units, float *scores, int64_t stride) { \
        enum { SOME = PAGES_FOR(queries) }; \
        int64_t p = 0; \
        for (; p + SOME <= count; p += SOME) { \
            score_tile(queries, SOME, page + p, count - p, block, depth, scale_offset, q, width, units, \
                    scores + TOKENS * p, stride); \
        } \
        for (; p < count; p++) { \
            score_tile(queries, 1, page + p, count - p, block, depth, scale_offset, q, width, units, \
                    scores + TOKENS * p, stride); \
        } \
    }
SCORE_FORM(1)
SCORE_FORM(2)
SCORE_FORM(4)
#if defined(__AVX512F__)
SCORE_FORM(8)
#endif

/* Loops.scores for CacheShape.Grouped in INT8. */
MILLRACE_EXPORT void ISA(scores_int8)(const int64_t *pages, int64_t count, int64_t block, int64_t depth,
        int64_t scale_offset, const float *q, int64_t q_offset, int64_t queries, float *scores, int64_t s_offset,
        int64_t s_stride) {
    int32_t fixed[8 * MOST_DEPTH];
    float units[8];
    const int64_t width = (depth + LANES - 1) / LANES * LANES;
    q += q_offset;
    scores += s_offset;
    int64_t n;
    for (int64_t i = 0; i < queries; i += n) {
        n = tile_queries(queries - i);
        fix_queries(q + i * depth, n, depth, width, fixed, units);
        float *to = scores + i * s_stride;
#define SCORE(n) score_##n(count, pages, block, depth, scale_offset, fixed, width, units, to, s_stride)
        switch (n) {
            case 1: SCORE(1); break;
            case 2: SCORE(2); break;
#if defined(__AVX512F__)
            case 8: SCORE(8); break;
#endif
            default: SCORE(4);
        }
    }
}

/* Weights of a page's tokens for a tile of queries: pairs `[query][16]`, and their units. */
typedef struct {
    int32_t z[8 * TOKENS] __attribute__((aligned(64)));
    float units[8 + LANES];
} weights;

/* Weights are p times scales. The largest ones of four queries are found together. */
INLINE void fix_weights(int queries, const float *p, int64_t stride, const char *scales, int64_t tokens, weights *out) {
    f16 scale = f_halves(scales);
    UNROLL for (int i = 0; i < queries; i += 4) {
        f16 w[4];
        w16 m[4];
        UNROLL for (int j = 0; j < 4; j++) {
            w[j] = f_mul(f_load(p + (i + j) % queries * stride), scale);
            if (tokens < TOKENS) {
                w[j] = f_first(w[j], tokens);
            }
            m[j] = magnitude(w[j]);
        }
        f16 unit, factor = fix(w_largest_of_four(m[0], m[1], m[2], m[3]), &unit);
        f_store(out->units + i, unit);
        w_store(out->z + i * TOKENS, w_pairs(w_round(f_mul(w[0], f_spread(factor, 0)))));
        if (queries > 1) {
            w_store(out->z + (i + 1) * TOKENS, w_pairs(w_round(f_mul(w[1], f_spread(factor, 1)))));
        }
        if (queries > 2) {
            w_store(out->z + (i + 2) * TOKENS, w_pairs(w_round(f_mul(w[2], f_spread(factor, 2)))));
            w_store(out->z + (i + 3) * TOKENS, w_pairs(w_round(f_mul(w[3], f_spread(factor, 3)))));
        }
    }
}

/* Adds the weighted values of a page to the sums of some queries, `strips` times 16 dimensions.
 *
 * row: bytes from four tokens' words to the next four's
 * later: four pages whose lines are asked for in turn, those of this tile from `line` on */
INLINE void page_tile(int queries, int strips, const char *values, const char *soon, const char *const *later,
        int64_t line, int64_t row, const weights *from, float *acc, int64_t acc_stride) {
    const int32_t *z = from->z;
    /* Else weights are loaded before the tiles of a page and moved from one kind of register to another in each. */
    __asm__("" : "+r"(z));
    w16 sum[8][4];
    UNROLL for (int i = 0; i < queries; i++) {
        UNROLL for (int s = 0; s < strips; s++) {
            sum[i][s] = w_zero();
        }
    }
    ROLLED for (int t = 0; t < TOKENS; t += 4) {
        w16 v[4];
        UNROLL for (int s = 0; s < strips; s++) {
            const int n = t / 4 * strips + s;
            v[s] = w_load(values + t / 4 * row + 64 * s);
            KEEP(v[s]);
            SOON(soon + 64 * n);
            LATER(later[n % 4] + 64 * (line + n / 4));
        }
        UNROLL for (int k = 0; k < 2; k++) {
            w16 x[4];
            UNROLL for (int s = 0; s < strips; s++) {
                x[s] = k ? w_bytes_odd(v[s]) : w_bytes_even(v[s]);
            }
            UNROLL for (int i = 0; i < queries; i++) {
                w16 weight = w_all((uint32_t) z[i * TOKENS + t + k]);
                UNROLL for (int s = 0; s < strips; s++) {
                    sum[i][s] = w_dot(sum[i][s], x[s], weight);
                    KEEP(sum[i][s]);
                }
            }
        }
    }
    UNROLL for (int i = 0; i < queries; i++) {
        f16 unit = f_all(from->units[i]);
        UNROLL for (int s = 0; s < strips; s++) {
            float *to = acc + i * acc_stride + LANES * s;
            f_store(to, f_fma(unit, f_from_int(sum[i][s]), f_load(to)));
        }
    }
}

/* Pages one after another; weights of the next one are made while values of this one are on their way. */
INLINE void sum_pages(int queries, const int64_t *pages, int64_t count, int64_t tokens, int64_t values, int64_t scales,
        const float *p, int64_t stride, float *acc, int64_t lanes) {
    const int most = queries == MANY_QUERIES ? STRIPS / 2 : STRIPS;
    const int64_t row = 4 * lanes;
    weights w[2];
    /* Lines of a cache of their own: an array of Java begins anywhere. */
    float sums[8 * MOST_DEPTH] __attribute__((aligned(64)));
    for (int64_t i = 0; i < queries * lanes; i += LANES) {
        f_store(sums + i, f_load(acc + i));
    }
    for (int64_t j = 0; j < count && j < FAR; j++) {
        LATER((const char *) pages[j] + scales);
    }
    fix_weights(queries, p, stride, (const char *) pages[0] + scales, count == 1 ? tokens : TOKENS, w);
    for (int64_t j = 0; j < count; j++) {
        const int64_t next = j + 1 < count ? j + 1 : j;
        const char *from = (const char *) pages[j] + values;
        const char *soon = (const char *) pages[j + NEAR < count ? j + NEAR : j] + values;
        const char *later[4];
        const int64_t line = j % 4 * (lanes / LANES);
        UNROLL for (int i = 0; i < 4; i++) {
            int64_t page = j / 4 * 4 + FAR + i;
            later[i] = (const char *) pages[page < count ? page : j] + values;
        }
        LATER((const char *) pages[j + FAR < count ? j + FAR : j] + scales);
        if (next > j) {
            fix_weights(queries, p + TOKENS * next, stride, (const char *) pages[next] + scales,
                    next + 1 == count ? tokens : TOKENS, w + next % 2);
        }
        const weights *now = w + j % 2;
        int64_t s = 0;
        for (; s + most <= lanes / LANES; s += most) {
            page_tile(queries, most, from + 64 * s, soon + 256 * s, later, line + s, row, now, sums + LANES * s, lanes);
        }
        for (; s < lanes / LANES; s++) {
            page_tile(queries, 1, from + 64 * s, soon + 256 * s, later, line + s, row, now, sums + LANES * s, lanes);
        }
    }
    for (int64_t i = 0; i < queries * lanes; i += LANES) {
        f_store(acc + i, f_load(sums + i));
    }
}

#define SUM_FORM(queries) \
    ONCE void sum_##queries(const int64_t *pages, int64_t count, int64_t tokens, int64_t values, int64_t scales, \
            const float *p, int64_t stride, float *acc, int64_t lanes) { \
        sum_pages(queries, pages, count, tokens, values, scales, p, stride, acc, lanes); \
    }
SUM_FORM(1)
SUM_FORM(2)
SUM_FORM(4)
#if defined(__AVX512F__)
SUM_FORM(8)
#endif

/* Loops.sums for CacheShape.Grouped in INT8. */
MILLRACE_EXPORT void ISA(sums_int8)(const int64_t *pages, int64_t count, int64_t tokens, int64_t block,
        int64_t lanes, int64_t value_offset, int64_t scale_offset, const float *p, int64_t p_offset, int64_t p_stride,
        int64_t queries, float *acc, int64_t a_offset) {
    p += p_offset;
    acc += a_offset;
    int64_t n;
    for (int64_t i = 0; i < queries; i += n) {
        n = tile_queries(queries - i);
#define SUM(n) sum_##n(pages, count, tokens, block + value_offset, block + scale_offset, p + i * p_stride, \
        p_stride, acc + i * lanes, lanes)
        switch (n) {
            case 1: SUM(1); break;
            case 2: SUM(2); break;
#if defined(__AVX512F__)
            case 8: SUM(8); break;
#endif
            default: SUM(4);
        }
    }
}

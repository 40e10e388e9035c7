/* Attention over keys and values of one KV head: scores of pages, and weighted sums of them; attention_int8.c has those
 * in INT8. */
#include "attention.h"

/* Pages at a time: with few queries each page is one chain of additions for each, and several are needed to keep the
 * multipliers busy; several are also several streams from memory. */
#if defined(__AVX512F__)
#define PAGES_FOR(queries) ((queries) == 8 ? 2 : 4)
#else
#define PAGES_FOR(queries) ((queries) == 4 ? 1 : 2)
#endif

/* Chains over the depths that share a scale, from 0. Words of a depth group are 64 bytes. */
INLINE void chains(int format, int queries, int pages, const char *const *keys, const char *const *ahead,
        int64_t depths, const float *q, int64_t stride, f16 part[4][8]) {
    const int per = PER_WORD(format);
    UNROLL for (int p = 0; p < pages; p++) {
        UNROLL for (int i = 0; i < queries; i++) {
            part[p][i] = f_zero();
        }
    }
    int64_t d = 0;
    for (; d + per <= depths; d += per) {
        w16 v[4];
        UNROLL for (int p = 0; p < pages; p++) {
            v[p] = w_load(keys[p] + d / per * 64);
            KEEP(v[p]);
            __builtin_prefetch(ahead[p] + d / per * 64, 0, 3);
        }
        UNROLL for (int k = 0; k < per; k++) {
            f16 x[4];
            UNROLL for (int p = 0; p < pages; p++) {
                x[p] = number(format, v[p], k, 0);
            }
            UNROLL for (int i = 0; i < queries; i++) {
                f16 s = f_all(q[i * stride + d + k]);
                UNROLL for (int p = 0; p < pages; p++) {
                    part[p][i] = f_fma(x[p], s, part[p][i]);
                }
            }
        }
    }
    const int odd = format == TILE_INT4 ? 0 : per - 1; /* groups of TILE_INT4 are whole words */
    UNROLL for (int k = 0; k < odd; k++) {
        if (d + k < depths) {
            UNROLL for (int p = 0; p < pages; p++) {
                f16 x = number(format, w_load(keys[p] + d / per * 64), k, 0);
                UNROLL for (int i = 0; i < queries; i++) {
                    part[p][i] = f_fma(x, f_all(q[i * stride + d + k]), part[p][i]);
                }
            }
        }
    }
}

/* group: depths that share a scale; scale_offset: bytes from the block to its scales, 0 where there are none. */
INLINE void score_tile(int format, int queries, int pages, const int64_t *page, int64_t left, int64_t block,
        int64_t depth, int64_t group, int64_t scale_offset, const float *q, float *scores, int64_t stride) {
    const char *keys[4], *ahead[4];
    UNROLL for (int p = 0; p < pages; p++) {
        keys[p] = (const char *) page[p] + block;
        ahead[p] = p + pages < left ? (const char *) page[p + pages] + block : keys[p];
    }
    for (int64_t d = 0; d < depth; d += group) {
        f16 part[4][8];
        const char *rows[4], *next[4];
        UNROLL for (int p = 0; p < pages; p++) {
            rows[p] = keys[p] + d / PER_WORD(format) * 64;
            next[p] = ahead[p] + d / PER_WORD(format) * 64;
        }
        chains(format, queries, pages, rows, next, group, q + d, depth, part);
        UNROLL for (int p = 0; p < pages; p++) {
            if (format == TILE_INT4) {
                f16 scale = f_halves(keys[p] + scale_offset + d / group * 2 * TOKENS);
                UNROLL for (int i = 0; i < queries; i++) {
                    float *to = scores + i * stride + TOKENS * p;
                    f_store(to, f_fma(scale, part[p][i], d ? f_load(to) : f_zero()));
                }
            } else {
                UNROLL for (int i = 0; i < queries; i++) {
                    f_store(scores + i * stride + TOKENS * p, part[p][i]);
                }
            }
        }
    }
}

#define SCORE_ARGS int64_t pages, const int64_t *page, int64_t left, int64_t block, int64_t depth, int64_t group, \
    int64_t scale_offset, const float *q, float *scores, int64_t stride
/* One or all pages of a tile. */
#define SCORE_FORM(format, queries) \
    ONCE void score_##format##_##queries(SCORE_ARGS) { \
        if (pages > 1) { \
            score_tile(format, queries, PAGES_FOR(queries), page, left, block, depth, group, scale_offset, q, scores, \
                    stride); \
        } else { \
            score_tile(format, queries, 1, page, left, block, depth, group, scale_offset, q, scores, stride); \
        } \
    }
#define SCORE_FORMS(format) \
    SCORE_FORM(format, 1) SCORE_FORM(format, 2) SCORE_FORM(format, 4) SCORE_FORM(format, 8) \
    ONCE void score_##format(int64_t queries, SCORE_ARGS) { \
        switch (queries) { \
            case 1: score_##format##_1(pages, page, left, block, depth, group, scale_offset, q, scores, stride); break; \
            case 2: score_##format##_2(pages, page, left, block, depth, group, scale_offset, q, scores, stride); break; \
            case 4: score_##format##_4(pages, page, left, block, depth, group, scale_offset, q, scores, stride); break; \
            default: score_##format##_8(pages, page, left, block, depth, group, scale_offset, q, scores, stride); \
        } \
    }
SCORE_FORMS(TILE_F32)
SCORE_FORMS(TILE_BF16)
SCORE_FORMS(TILE_INT4)

/* Loops.scores for CacheShape.Grouped, except in INT8. */
MILLRACE_EXPORT void ISA(scores_grouped)(int64_t format, const int64_t *pages, int64_t count,
        int64_t block, int64_t depth, int64_t group, int64_t scale_offset, const float *q, int64_t q_offset,
        int64_t queries, float *scores, int64_t s_offset, int64_t s_stride) {
    q += q_offset;
    scores += s_offset;
    int64_t n;
    for (int64_t i = 0; i < queries; i += n) {
        n = tile_queries(queries - i);
        int64_t most = PAGES_FOR(n), step;
        for (int64_t p = 0; p < count; p += step) {
            step = count - p >= most ? most : 1;
            const float *from = q + i * depth;
            float *to = scores + i * s_stride + TOKENS * p;
#define SCORE(format) \
    score_##format(n, step, pages + p, count - p, block, depth, group, scale_offset, from, to, s_stride)
            switch (format) {
                case TILE_F32: SCORE(TILE_F32); break;
                case TILE_BF16: SCORE(TILE_BF16); break;
                default: SCORE(TILE_INT4);
            }
        }
    }
}

/* Weights times scales, `[query][group][16]`. */
INLINE void scaled(int64_t queries, int64_t groups, const float *p, int64_t stride, const char *scales, float *w) {
    for (int64_t g = 0; g < groups; g++) {
        f16 scale = f_halves(scales + 2 * TOKENS * g);
        for (int64_t i = 0; i < queries; i++) {
            f_store(w + (i * groups + g) * TOKENS, f_mul(f_load(p + i * stride), scale));
        }
    }
}

/* Groups of scales that one pass takes: 512 dimensions. */
enum { MOST_GROUPS = 16 };

/* Some strips of one page for a tile of queries. */
INLINE void sum_strips(int format, int queries, const char *values, const char *ahead, int64_t lanes, int64_t tokens,
        const float *w, int64_t w_stride, float *acc, int64_t acc_stride, int64_t strips) {
    const int pairs = format == TILE_INT4_PAIRS;
    const int most = queries == 8 ? 2 : STRIPS;
    const int64_t row = pairs ? 2 * lanes : 4 * lanes;
    int64_t s = 0;
    for (; s + most <= strips; s += most) {
        int64_t at = pairs ? 32 * s : 64 * s;
        sum_whole(format, queries, most, values + at, ahead + at, row, tokens, pairs ? w + s / 2 * TOKENS : w, w_stride,
                pairs ? TOKENS : 0, acc + LANES * s, acc_stride);
    }
    for (; s < strips; s += pairs ? 2 : 1) {
        int64_t at = pairs ? 32 * s : 64 * s;
        sum_whole(format, queries, pairs ? 2 : 1, values + at, ahead + at, row, tokens,
                pairs ? w + s / 2 * TOKENS : w, w_stride, 0, acc + LANES * s, acc_stride);
    }
}

#define SUM_ARGS const char *values, const char *ahead, int64_t lanes, int64_t tokens, const float *w, \
    int64_t w_stride, float *acc, int64_t acc_stride, int64_t strips
#define SUM_FORM(format, queries) \
    ONCE void sum_##format##_##queries(SUM_ARGS) { \
        sum_strips(format, queries, values, ahead, lanes, tokens, w, w_stride, acc, acc_stride, strips); \
    }
#define SUM_FORMS(format) \
    SUM_FORM(format, 1) SUM_FORM(format, 2) SUM_FORM(format, 4) SUM_FORM(format, 8) \
    ONCE void sum_##format(int64_t queries, SUM_ARGS) { \
        switch (queries) { \
            case 1: sum_##format##_1(values, ahead, lanes, tokens, w, w_stride, acc, acc_stride, strips); break; \
            case 2: sum_##format##_2(values, ahead, lanes, tokens, w, w_stride, acc, acc_stride, strips); break; \
            case 4: sum_##format##_4(values, ahead, lanes, tokens, w, w_stride, acc, acc_stride, strips); break; \
            default: sum_##format##_8(values, ahead, lanes, tokens, w, w_stride, acc, acc_stride, strips); \
        } \
    }
SUM_FORMS(TILE_F32)
SUM_FORMS(TILE_BF16)
SUM_FORMS(TILE_INT4_PAIRS)

/* Loops.sums for CacheShape.Grouped, except in INT8; groups: scales of a token's value. */
MILLRACE_EXPORT void ISA(sums_grouped)(int64_t format, const int64_t *pages, int64_t count,
        int64_t tokens, int64_t block, int64_t lanes, int64_t groups, int64_t value_offset, int64_t scale_offset,
        const float *p, int64_t p_offset, int64_t p_stride, int64_t queries, float *acc, int64_t a_offset) {
    p += p_offset;
    acc += a_offset;
    float w[8 * MOST_GROUPS * TOKENS];
    int64_t n;
    for (int64_t i = 0; i < queries; i += n) {
        n = tile_queries(queries - i);
        for (int64_t page = 0; page < count; page++) {
            const char *values = (const char *) pages[page] + block + value_offset;
            const char *ahead = page + 1 < count ? (const char *) pages[page + 1] + block + value_offset : values;
            const char *scales = (const char *) pages[page] + block + scale_offset;
            int64_t visible = page == count - 1 ? tokens : TOKENS;
            const float *weights = p + i * p_stride + TOKENS * page;
            float *sums = acc + i * lanes;
            if (format == TILE_F32) {
                sum_TILE_F32(n, values, ahead, lanes, visible, weights, p_stride, sums, lanes, lanes / LANES);
            } else if (format == TILE_BF16) {
                sum_TILE_BF16(n, values, ahead, lanes, visible, weights, p_stride, sums, lanes, lanes / LANES);
            } else {
                for (int64_t g = 0; g < groups; g += MOST_GROUPS) {
                    int64_t some = groups - g < MOST_GROUPS ? groups - g : MOST_GROUPS;
                    scaled(n, some, weights, p_stride, scales + 2 * TOKENS * g, w);
                    sum_TILE_INT4_PAIRS(n, values + 64 * g, ahead + 64 * g, lanes, visible, w, some * TOKENS,
                            sums + 32 * g, lanes, 2 * some);
                }
            }
        }
    }
}

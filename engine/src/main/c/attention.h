/* What the kernels of attention share: tiles of the KV cache to lanes of float, and weighted sums of them.
 *
 * A tile's words are taken apart in registers, right before their numbers are multiplied: a cache in codes is read as
 * codes. See TileFormat for the layouts, CacheShape for where the parts of a block are.
 */
#ifndef MILLRACE_ATTENTION_H
#define MILLRACE_ATTENTION_H

#include "lanes.h"

/* TileFormat, as NativeAttention passes it. */
enum { TILE_F32 = 0, TILE_BF16 = 1, TILE_INT8 = 2, TILE_INT4 = 3, TILE_INT4_PAIRS = 4, TILE_FP8 = 5 };

/* Tokens of a page. */
enum { TOKENS = 16 };

/* A constant wherever the format is. */
#define PER_WORD(format) \
    ((format) == TILE_F32 ? 1 : (format) == TILE_BF16 ? 2 : (format) == TILE_INT4 ? 8 : 4)

/* A signed code of four bits, the lowest of each lane; what stands above it does not matter. */
INLINE f16 f_from_nibble(w16 v) {
#if defined(__AVX512F__)
    const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    return _mm512_permutexvar_ps(v, values);
#else
    return f_from_int(w_sar(w_shl(v, 28), 28));
#endif
}

/* Depth i of 16 words; `half` chooses a lane of the two that share a byte of TILE_INT4_PAIRS. All but v are constant. */
INLINE f16 number(int format, w16 v, int i, int half) {
    switch (format) {
        case TILE_F32:
            return f_bits(v);
        case TILE_BF16:
            return f_bits(i ? w_and(v, w_all(0xFFFF0000u)) : w_shl(v, 16));
        case TILE_INT8:
            return f_from_int(i == 3 ? w_sar(v, 24) : w_sar(w_shl(v, 24 - 8 * (i % 4)), 24));
        case TILE_INT4:
            return f_from_nibble(i ? w_shr(v, 4 * (i % 8)) : v);
        case TILE_INT4_PAIRS:
            return f_from_nibble(w_shr(v, 8 * (i % 4) + 4 * half));
        default:
            /* Exponent and mantissa where float has them; the biases' difference by a product, which is exact. */
            return f_mul(
                    f_bits(w_and(w_sar(w_shl(v, 24 - 8 * (i % 4)), 4), w_all(0x87F00000u))), f_all(0x1p120f));
    }
}

/* Sixteen F16, as they are: subnormal ones, infinities and NaN too. */
INLINE w16 w_from_u16(const void *p) {
#if defined(__AVX512F__)
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
#else
    const char *at = p;
    return (w16) {_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *) at)),
                  _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *) (at + 16)))};
#endif
}
INLINE f16 f_halves(const void *p) {
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
#else
    w16 h = w_from_u16(p);
    f16 magnitude = f_mul(f_bits(w_shl(w_and(h, w_all(0x7FFF)), 13)), f_all(0x1p112f));
    /* What has the largest exponent became 2^16 and more: it gets the largest of float instead. */
    w16 special = w_sar(w_sub(w_all(0x7BFF), w_and(h, w_all(0x7FFF))), 31);
    w16 bits = w_and_or(special, w_all(0x7F800000u), w_bits(magnitude));
    return f_bits(w_and_or(w_shl(h, 16), w_all(0x80000000u), bits));
#endif
}

/* Query and value tiles: rows of queries by strips of 16 dimensions that registers hold. */
#if defined(__AVX512F__)
enum { MANY_QUERIES = 8, STRIPS = 4 };
#else
enum { MANY_QUERIES = 4, STRIPS = 2 };
#endif

/* Queries of the next tile: as many as registers hold, then powers of two. */
INLINE int64_t tile_queries(int64_t left) {
    return left >= MANY_QUERIES ? MANY_QUERIES : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Adds the weighted values of some tokens to the sums of some queries, `strips` times 16 dimensions.
 *
 * values: the first word of the strips; rows of words are `row` bytes apart, strips 64 (of pairs: two of them 64)
 * w: weights of query i from w + i * w_stride + t; of the strips from the third on `w_next` further
 * whole: a constant, whether `tokens` is a multiple of what a word holds
 * ahead: where the next page's numbers are, or `values` again */
INLINE void sum_tile(int format, int queries, int strips, const char *values, const char *ahead, int64_t row,
        int64_t tokens, int whole, const float *w, int64_t w_stride, int64_t w_next, float *acc, int64_t acc_stride) {
    enum { MOST = 8 };
    const int per = PER_WORD(format), pairs = format == TILE_INT4_PAIRS, words = pairs ? strips / 2 : strips;
    f16 a[MOST][4];
    UNROLL for (int i = 0; i < queries; i++) {
        UNROLL for (int s = 0; s < strips; s++) {
            a[i][s] = f_load(acc + i * acc_stride + LANES * s);
        }
    }
    for (int64_t t = 0; t < tokens; t += per) {
        w16 v[4];
        UNROLL for (int s = 0; s < words; s++) {
            v[s] = w_load(values + 64 * s);
            KEEP(v[s]);
            __builtin_prefetch(ahead + 64 * s, 0, 3);
        }
        UNROLL for (int k = 0; k < per; k++) {
            if (whole || k == 0 || t + k < tokens) {
                f16 x[4];
                UNROLL for (int s = 0; s < strips; s++) {
                    x[s] = number(format, v[pairs ? s / 2 : s], k, s % 2);
                }
                UNROLL for (int i = 0; i < queries; i++) {
                    UNROLL for (int s = 0; s < strips; s++) {
                        f16 weight = f_all(w[i * w_stride + (s / 2) * w_next + t + k]);
                        a[i][s] = f_fma(weight, x[s], a[i][s]);
                    }
                }
            }
        }
        values += row;
        ahead += row;
    }
    UNROLL for (int i = 0; i < queries; i++) {
        UNROLL for (int s = 0; s < strips; s++) {
            f_store(acc + i * acc_stride + LANES * s, a[i][s]);
        }
    }
}

/* The same; asks nothing in the loop over a whole page. */
INLINE void sum_whole(int format, int queries, int strips, const char *values, const char *ahead, int64_t row,
        int64_t tokens, const float *w, int64_t w_stride, int64_t w_next, float *acc, int64_t acc_stride) {
    if (tokens == TOKENS) {
        sum_tile(format, queries, strips, values, ahead, row, TOKENS, 1, w, w_stride, w_next, acc, acc_stride);
    } else {
        sum_tile(format, queries, strips, values, ahead, row, tokens, 0, w, w_stride, w_next, acc, acc_stride);
    }
}

/* Four by four floats, rows to columns. */
INLINE void transpose4(const float *from, int64_t from_stride, float *to, int64_t to_stride) {
#if defined(__x86_64__)
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_stride);
    __m128 c = _mm_loadu_ps(from + 2 * from_stride), d = _mm_loadu_ps(from + 3 * from_stride);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_stride, b);
    _mm_storeu_ps(to + 2 * to_stride, c);
    _mm_storeu_ps(to + 3 * to_stride, d);
#else
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            to[j * to_stride + i] = from[i * from_stride + j];
        }
    }
#endif
}

#endif

/* Attention over latents that many heads share: a piece of some tokens is decoded once, to floats that stay in the
 * first-level cache, and met by all queries of the tile. */
#include "attention.h"

/* Dimensions of a piece: those that share a scale, see CacheShape.Latent. */
enum { PIECE = 128 };

/* Queries at most, and how many a register holds. */
enum { MOST_QUERIES = 32 };

/* Pages whose scores are computed together, and whose values are summed. */
enum { SCORE_PAGES = 2, SUM_PAGES = 4 };

#if defined(__AVX512F__)
enum { TOKEN_TILE = 8 };
#else
enum { TOKEN_TILE = 4 };
#endif

/* Decodes lanes of 16 tokens, from a multiple of 16 on, to `[token][PIECE]`. */
INLINE void decode_form(int format, const char *tile, int64_t lanes, int64_t from, int64_t n, float *out) {
    const int per = PER_WORD(format);
    for (int64_t t = 0; t < TOKENS; t += per) {
        const char *row = tile + t / per * lanes * 4;
        for (int64_t s = 0; s < n; s += LANES) {
            w16 v = w_load(row + 4 * (from + s));
            KEEP(v);
            UNROLL for (int k = 0; k < per; k++) {
                f_store(out + (t + k) * PIECE + s, number(format, v, k, 0));
            }
        }
    }
}
ONCE void decode(int64_t format, const char *tile, int64_t lanes, int64_t from, int64_t n, float *out) {
    switch (format) {
        case TILE_F32: decode_form(TILE_F32, tile, lanes, from, n, out); break;
        case TILE_BF16: decode_form(TILE_BF16, tile, lanes, from, n, out); break;
        case TILE_INT8: decode_form(TILE_INT8, tile, lanes, from, n, out); break;
        default: decode_form(TILE_FP8, tile, lanes, from, n, out);
    }
}

/* Chains of tokens by registers of queries, from 0 or from what stands in `out`, `[token][width]`. */
INLINE void latent_tile(int vectors, const float *keys, const float *q, int64_t width, int64_t depths, float *out,
        int fresh) {
    f16 acc[8][2];
    UNROLL for (int t = 0; t < TOKEN_TILE; t++) {
        UNROLL for (int i = 0; i < vectors; i++) {
            acc[t][i] = fresh ? f_zero() : f_load(out + t * width + LANES * i);
        }
    }
    for (int64_t d = 0; d < depths; d++) {
        f16 x[2];
        UNROLL for (int i = 0; i < vectors; i++) {
            x[i] = f_load(q + d * width + LANES * i);
            KEEP(x[i]);
        }
        UNROLL for (int t = 0; t < TOKEN_TILE; t++) {
            f16 key = f_all(keys[t * PIECE + d]);
            UNROLL for (int i = 0; i < vectors; i++) {
                acc[t][i] = f_fma(x[i], key, acc[t][i]);
            }
        }
    }
    UNROLL for (int t = 0; t < TOKEN_TILE; t++) {
        UNROLL for (int i = 0; i < vectors; i++) {
            f_store(out + t * width + LANES * i, acc[t][i]);
        }
    }
}
ONCE void latent_scores(const float *keys, int64_t tokens, const float *q, int64_t width, int64_t depths, float *out,
        int fresh) {
    for (int64_t t = 0; t < tokens; t += TOKEN_TILE) {
#if defined(__AVX512F__)
        if (width == 2 * LANES) {
            latent_tile(2, keys + t * PIECE, q, width, depths, out + t * width, fresh);
        } else {
            latent_tile(1, keys + t * PIECE, q, width, depths, out + t * width, fresh);
        }
#else
        for (int64_t i = 0; i < width; i += LANES) {
            latent_tile(1, keys + t * PIECE, q + i, width, depths, out + t * width + i, fresh);
        }
#endif
    }
}

/* acc = fma(scale of the token, part, acc) */
INLINE void fold(const float *scales, const float *part, float *acc, int64_t width, int fresh) {
    for (int64_t t = 0; t < TOKENS; t++) {
        f16 scale = f_all(scales[t]);
        for (int64_t i = 0; i < width; i += LANES) {
            float *to = acc + t * width + i;
            f_store(to, f_fma(scale, f_load(part + t * width + i), fresh ? f_zero() : f_load(to)));
        }
    }
}

/* `[query][dim]` to `[dim][width]`; lanes without a query are zero. */
ONCE void turn_queries(const float *q, int64_t queries, int64_t dim, float *out, int64_t width) {
    int64_t i = 0;
    for (; i + 4 <= queries; i += 4) {
        int64_t d = 0;
        for (; d + 4 <= dim; d += 4) {
            transpose4(q + i * dim + d, dim, out + d * width + i, width);
        }
        for (; d < dim; d++) {
            for (int64_t j = i; j < i + 4; j++) {
                out[d * width + j] = q[j * dim + d];
            }
        }
    }
    for (; i < width; i++) {
        for (int64_t d = 0; d < dim; d++) {
            out[d * width + i] = i < queries ? q[i * dim + d] : 0;
        }
    }
}

/* `[16 tokens][width]` to rows of scores, `[query][stride]`. */
INLINE void turn_scores(const float *acc, int64_t width, int64_t queries, float *scores, int64_t stride) {
    for (int64_t t = 0; t < TOKENS; t += 4) {
        int64_t i = 0;
        for (; i + 4 <= queries; i += 4) {
            transpose4(acc + t * width + i, width, scores + i * stride + t, stride);
        }
        for (; i < queries; i++) {
            for (int64_t j = t; j < t + 4; j++) {
                scores[i * stride + j] = acc[j * width + i];
            }
        }
    }
}

INLINE int64_t padded(int64_t lanes) { return (lanes + LANES - 1) / LANES * LANES; }

/* Loops.scores for CacheShape.Latent. groups: 0 if numbers have no scale, else scales of a token; plain: whether its one
 * scale is also the rotated part's. scratch: room for [rank + rope][32]. */
MILLRACE_EXPORT void ISA(scores_latent)(int64_t format, int64_t rope_format, const int64_t *pages,
        int64_t count, int64_t block, int64_t rank, int64_t rope, int64_t rope_offset, int64_t scale_offset,
        int64_t groups, int64_t plain, const float *q, int64_t q_offset, int64_t queries, float *scores,
        int64_t s_offset, int64_t s_stride, float *scratch) {
    const int64_t width = padded(queries);
    float keys[SCORE_PAGES * TOKENS * PIECE], part[SCORE_PAGES * TOKENS * MOST_QUERIES];
    float acc[SCORE_PAGES * TOKENS * MOST_QUERIES];
    turn_queries(q + q_offset, queries, rank + rope, scratch, width);
    int64_t some;
    for (int64_t p = 0; p < count; p += some) {
        some = count - p < SCORE_PAGES ? count - p : SCORE_PAGES;
        const int64_t *page = pages + p;
        const int64_t apart = TOKENS * width;
        for (int64_t d = 0; d < rank + rope;) {
            const int latent = d < rank, scaled = latent && groups && !plain;
            int64_t at = latent ? d : d - rank, end = latent ? rank : rope;
            int64_t n = end - at < PIECE ? end - at : PIECE;
            for (int64_t i = 0; i < some; i++) {
                const char *tile = (const char *) page[i] + block + (latent ? 0 : rope_offset);
                decode(latent ? format : rope_format, tile, padded(end), at, padded(n), keys + i * TOKENS * PIECE);
            }
            latent_scores(keys, some * TOKENS, scratch + d * width, width, n, scaled ? part : acc, scaled || d == 0);
            for (int64_t i = 0; scaled && i < some; i++) {
                const float *scales = (const float *) (page[i] + block + scale_offset) + d / PIECE * TOKENS;
                fold(scales, part + i * apart, acc + i * apart, width, d == 0);
            }
            d += n;
        }
        for (int64_t i = 0; i < some; i++) {
            if (plain) {
                fold((const float *) (page[i] + block + scale_offset), acc + i * apart, acc + i * apart, width, 1);
            }
            turn_scores(acc + i * apart, width, queries, scores + s_offset + TOKENS * (p + i), s_stride);
        }
    }
}

/* Decoded values of a piece, `[token][PIECE]`, times weights; strips of 16 dimensions. */
INLINE void sum_pieces(int queries, const float *values, int64_t tokens, const float *w, int64_t w_stride, float *acc,
        int64_t lanes, int64_t strips) {
    const int most = queries == 8 ? 2 : STRIPS;
    int64_t s = 0;
    for (; s + most <= strips; s += most) {
        const char *at = (const char *) (values + LANES * s);
        sum_tile(TILE_F32, queries, most, at, at, 4 * PIECE, tokens, 1, w, w_stride, 0, acc + LANES * s, lanes);
    }
    for (; s < strips; s++) {
        const char *at = (const char *) (values + LANES * s);
        sum_tile(TILE_F32, queries, 1, at, at, 4 * PIECE, tokens, 1, w, w_stride, 0, acc + LANES * s, lanes);
    }
}
ONCE void latent_sums(int64_t queries, const float *values, int64_t tokens, const float *w, int64_t w_stride,
        float *acc, int64_t lanes, int64_t strips) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 8 <= queries; i += 8) {
        sum_pieces(8, values, tokens, w + i * w_stride, w_stride, acc + i * lanes, lanes, strips);
    }
#endif
    for (; i + 4 <= queries; i += 4) {
        sum_pieces(4, values, tokens, w + i * w_stride, w_stride, acc + i * lanes, lanes, strips);
    }
    for (; i < queries; i++) {
        sum_pieces(1, values, tokens, w + i * w_stride, w_stride, acc + i * lanes, lanes, strips);
    }
}

/* Loops.sums for CacheShape.Latent. */
MILLRACE_EXPORT void ISA(sums_latent)(int64_t format, const int64_t *pages, int64_t count,
        int64_t tokens, int64_t block, int64_t rank, int64_t scale_offset, int64_t groups, int64_t plain,
        const float *p, int64_t p_offset, int64_t p_stride, int64_t queries, float *acc, int64_t a_offset) {
    const int64_t lanes = padded(rank);
    float values[SUM_PAGES * TOKENS * PIECE], scaled[MOST_QUERIES * SUM_PAGES * TOKENS];
    p += p_offset;
    acc += a_offset;
    int64_t some;
    for (int64_t at = 0; at < count; at += some) {
        some = count - at < SUM_PAGES ? count - at : SUM_PAGES;
        const int64_t *page = pages + at;
        int64_t visible = TOKENS * some - (at + some == count ? TOKENS - tokens : 0);
        for (int64_t d = 0; d < lanes; d += PIECE) {
            int64_t n = lanes - d < PIECE ? lanes - d : PIECE;
            const float *w = p + TOKENS * at;
            int64_t w_stride = p_stride;
            for (int64_t i = 0; i < some; i++) {
                decode(format, (const char *) page[i] + block, lanes, d, n, values + i * TOKENS * PIECE);
            }
            if (groups) {
                for (int64_t i = 0; i < some; i++) {
                    const float *scales = (const float *) (page[i] + block + scale_offset);
                    f16 scale = f_load(plain ? scales : scales + d / PIECE * TOKENS);
                    for (int64_t j = 0; j < queries; j++) {
                        f_store(scaled + (j * SUM_PAGES + i) * TOKENS,
                                f_mul(f_load(w + j * p_stride + TOKENS * i), scale));
                    }
                }
                w = scaled;
                w_stride = SUM_PAGES * TOKENS;
            }
            latent_sums(queries, values, visible, w, w_stride, acc + d, lanes, n / LANES);
        }
    }
}

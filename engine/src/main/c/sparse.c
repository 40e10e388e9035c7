/* What sparse attention adds: scores of an index's heads to one score for each token, and single tokens of a cache of latents
 * to blocks of their own. */
#include "attention.h"

/* Tokens that registers hold, by 16. */
enum { TOKEN_STRIPS = 4 };

/* `strips` times 16 tokens. */
INLINE void weigh_tile(int strips, const float *dots, int64_t stride, int64_t heads, const float *w, float *out) {
    f16 acc[TOKEN_STRIPS];
    UNROLL for (int s = 0; s < strips; s++) {
        acc[s] = f_zero();
    }
    for (int64_t h = 0; h < heads; h++) {
        f16 weight = f_all(w[h]);
        UNROLL for (int s = 0; s < strips; s++) {
            /* The second of both: NaN stays, and so does -0, which changes nothing but the sign of a zero. */
            acc[s] = f_fma(weight, f_max(f_zero(), f_load(dots + h * stride + LANES * s)), acc[s]);
        }
    }
    UNROLL for (int s = 0; s < strips; s++) {
        f_store(out + LANES * s, f_add(acc[s], f_zero()));
    }
}

/* Loops.weigh. */
MILLRACE_EXPORT void ISA(weigh)(const float *dots, int64_t d_offset, int64_t d_stride, int64_t heads, int64_t n,
        const float *weights, int64_t w_offset, float *out, int64_t o_offset) {
    dots += d_offset;
    weights += w_offset;
    out += o_offset;
    int64_t t = 0;
    for (; t + TOKEN_STRIPS * LANES <= n; t += TOKEN_STRIPS * LANES) {
        weigh_tile(TOKEN_STRIPS, dots + t, d_stride, heads, weights, out + t);
    }
    for (; t + LANES <= n; t += LANES) {
        weigh_tile(1, dots + t, d_stride, heads, weights, out + t);
    }
    if (t < n) {
        f16 acc = f_zero();
        for (int64_t h = 0; h < heads; h++) {
            f16 dot = f_load_n(dots + h * d_stride + t, n - t);
            acc = f_fma(f_all(weights[h]), f_max(f_zero(), dot), acc);
        }
        f_store_n(out + t, f_add(acc, f_zero()), n - t);
    }
}

/* Where the words of a token's numbers begin, and how far to the right the lowest of its bits stand in them. */
typedef struct {
    const char *words;
    uint32_t shift;
} token;

INLINE token token_at(int per, int64_t page, int64_t tile, int32_t position, int64_t lanes) {
    int64_t slot = position % TOKENS;
    return (token) {(const char *) page + tile + slot / per * lanes * 4,
                    (uint32_t) (slot % per * (32 / per))};
}

/* The words of `per` tokens into one row of words. */
INLINE void merge_row(int per, const token *from, const token *ahead, char *to, int64_t lanes) {
    const w16 mask = w_all(per == 2 ? 0xFFFFu : 0xFFu);
    for (int64_t l = 0; l < 4 * lanes; l += 64) {
        w16 word = w_load(from[0].words + l);
        KEEP(word);
        __builtin_prefetch(ahead[0].words + l, 0, 3);
        if (per > 1) {
            word = w_and(w_shr_all(word, from[0].shift), mask);
            UNROLL for (int k = 1; k < per; k++) {
                w16 v = w_load(from[k].words + l);
                KEEP(v);
                __builtin_prefetch(ahead[k].words + l, 0, 3);
                v = w_and(w_shr_all(v, from[k].shift), mask);
                word = w_or(word, w_shl_all(v, (uint32_t) (k * (32 / per))));
            }
        }
        w_store(to + l, word);
    }
}

/* One tile of all tokens; beyond the last token it is taken again. */
INLINE void gather_tile(int per, const int64_t *pages, int64_t tile, const int32_t *positions, int64_t count, int64_t lanes,
        char *to, int64_t block_bytes) {
    token row[2][4];
    UNROLL for (int k = 0; k < per; k++) {
        int64_t j = k < count ? k : count - 1;
        row[0][k] = token_at(per, pages[j], tile, positions[j], lanes);
    }
    for (int64_t i = 0; i < count; i += per) {
        token *now = row[i / per % 2], *next = row[1 - i / per % 2];
        UNROLL for (int k = 0; k < per; k++) {
            int64_t j = i + per + k < count ? i + per + k : count - 1;
            next[k] = token_at(per, pages[j], tile, positions[j], lanes);
        }
        merge_row(per, now, next, to + i / TOKENS * block_bytes + i % TOKENS / per * lanes * 4, lanes);
    }
}

ONCE void gather_form(int64_t format, const int64_t *pages, int64_t tile, const int32_t *positions, int64_t count,
        int64_t lanes, char *to, int64_t block_bytes) {
    switch (format) {
        case TILE_F32: gather_tile(1, pages, tile, positions, count, lanes, to, block_bytes); break;
        case TILE_BF16: gather_tile(2, pages, tile, positions, count, lanes, to, block_bytes); break;
        default: gather_tile(4, pages, tile, positions, count, lanes, to, block_bytes);
    }
}

/* Loops.gather, with the page of each token. Token by token of the scales. */
MILLRACE_EXPORT void ISA(gather_latent)(int64_t format, int64_t rope_format, const int64_t *pages, int64_t block,
        int64_t lanes, int64_t rope_lanes, int64_t rope_offset, int64_t scale_offset, int64_t groups, int64_t block_bytes,
        const int32_t *positions, int64_t first, int64_t count, int64_t to) {
    char *out = (char *) to;
    positions += first;
    if (count <= 0) {
        return;
    }
    gather_form(format, pages, block, positions, count, lanes, out, block_bytes);
    gather_form(rope_format, pages, block + rope_offset, positions, count, rope_lanes, out + rope_offset, block_bytes);
    for (int64_t i = 0; groups && i < count; i++) {
        const float *from = (const float *) (pages[i] + block + scale_offset);
        float *scales = (float *) (out + i / TOKENS * block_bytes + scale_offset);
        for (int64_t g = 0; g < groups; g++) {
            scales[g * TOKENS + i % TOKENS] = from[g * TOKENS + positions[i] % TOKENS];
        }
    }
}

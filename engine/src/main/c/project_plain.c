/* Matrix products with F32 and BF16 weights. */
#include "tiles.h"

ONCE void f32_4x1(const float *const *w, int64_t cols, const float *x, float *out) {
    f32_tile(4, 1, w, cols, x, 0, out, 1, NOTHING_AHEAD);
}

ONCE void f32_1(const float *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    f32_rows(1, w, cols, x, stride, rows, out, 1, NOTHING_AHEAD);
}

ONCE void f32_many(const float *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    f32_rows(DENSE_PANELS, w, cols, x, stride, rows, out, 1, NOTHING_AHEAD);
}

/* out[out_offset + r * TILE + 16 p + l] = sum over k of w[p][k][l] * x[x_offset + r * x_stride + k]; panels is 1 to 4. */
MILLRACE_EXPORT void ISA(project_f32)(const float *w0, const float *w1, const float *w2, const float *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    const float *const w[] = {w0, w1, w2, w3};
    x += x_offset;
    out += out_offset;
    if (panels == 4 && rows == 1) {
        f32_4x1(w, cols, x, out);
        return;
    }
    for (int64_t p = 0; p < panels;) {
        if (panels - p >= DENSE_PANELS) {
            f32_many(w + p, cols, x, x_stride, rows, out + p * LANES);
            p += DENSE_PANELS;
        } else {
            f32_1(w + p, cols, x, x_stride, rows, out + p * LANES);
            p++;
        }
    }
}

/* A panel of BF16: 64 bytes hold two depths of 16 lanes, the even depth in the low halves. */
INLINE f16 even_depth(w16 v) { return f_bits(w_shl(v, 16)); }
INLINE f16 odd_depth(w16 v) { return f_bits(w_and(v, w_all(0xFFFF0000u))); }

/* How far ahead the lines of stored weights are asked for: measured; half or twice as much costs a tenth with eight rows. */
enum { BF16_AHEAD = 2048 };

INLINE void bf16_tile(int panels, int rows, const char *const *w, int64_t cols, const float *x, int64_t stride,
        float *out) {
    f16 acc[4][DENSE_ROWS];
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            acc[p][r] = f_zero();
        }
    }
    int64_t k = 0;
    for (; k + 2 <= cols; k += 2) {
        w16 v[4];
        UNROLL for (int p = 0; p < panels; p++) {
            v[p] = w_load(w[p] + 32 * k);
            __builtin_prefetch(w[p] + 32 * k + BF16_AHEAD, 0, 3);
            KEEP(v[p]);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            f16 s = f_all(x[r * stride + k]);
            UNROLL for (int p = 0; p < panels; p++) {
                acc[p][r] = f_fma(even_depth(v[p]), s, acc[p][r]);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            f16 s = f_all(x[r * stride + k + 1]);
            UNROLL for (int p = 0; p < panels; p++) {
                acc[p][r] = f_fma(odd_depth(v[p]), s, acc[p][r]);
            }
        }
    }
    if (k < cols) {
        /* The odd depth of the last word does not exist and must not be multiplied. */
        UNROLL for (int p = 0; p < panels; p++) {
            f16 v = even_depth(w_load(w[p] + 32 * k));
            UNROLL for (int r = 0; r < rows; r++) {
                acc[p][r] = f_fma(v, f_all(x[r * stride + k]), acc[p][r]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            f_store(out + r * TILE + p * LANES, acc[p][r]);
        }
    }
}

/* Many rows: weights are decoded once per chunk of depths, and all rows pass by. */
INLINE void bf16_dense(int panels, const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows,
        float *out) {
    float decoded[DENSE_PANELS][CHUNK * LANES] __attribute__((aligned(64)));
    const float *f[DENSE_PANELS];
    for (int p = 0; p < panels; p++) {
        f[p] = decoded[p];
    }
    for (int64_t from = 0; from < cols; from += CHUNK) {
        int64_t depths = cols - from < CHUNK ? cols - from : CHUNK;
        for (int p = 0; p < panels; p++) {
            const char *v = w[p] + 32 * from;
            for (int64_t k = 0; k < depths; k += 2) {
                w16 word = w_load(v + 32 * k);
                f_store(decoded[p] + LANES * k, even_depth(word));
                f_store(decoded[p] + LANES * k + LANES, odd_depth(word));
            }
        }
        lookahead next = {w[0] + 32 * (from + CHUNK), panels > 1 ? w[1] - w[0] : 0, 32};
        f32_rows(panels, f, depths, x + from, stride, rows, out, from == 0, next);
    }
}

/* The forms that are compiled; 4 x 1 reads weights for one row, the commonest and the one that memory bounds. */
#define BF16_TILE(panels, rows) \
    ONCE void bf16_##panels##x##rows(const char *const *w, int64_t cols, const float *x, int64_t stride, float *out) { \
        bf16_tile(panels, rows, w, cols, x, stride, out); \
    }

BF16_TILE(1, 1)
BF16_TILE(4, 1)
#if defined(__AVX512F__)
BF16_TILE(4, 2)
BF16_TILE(4, 3)
BF16_TILE(4, 4)
BF16_TILE(2, 8)
#endif

ONCE void bf16_dense_1(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    bf16_dense(1, w, cols, x, stride, rows, out);
}

ONCE void bf16_dense_many(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    bf16_dense(DENSE_PANELS, w, cols, x, stride, rows, out);
}

/* Four panels by few rows, if there is a form for them; returns whether there was. */
INLINE int bf16_four(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    switch (rows) {
        case 1: bf16_4x1(w, cols, x, stride, out); return 1;
#if defined(__AVX512F__)
        case 2: bf16_4x2(w, cols, x, stride, out); return 1;
        case 3: bf16_4x3(w, cols, x, stride, out); return 1;
        case 4: bf16_4x4(w, cols, x, stride, out); return 1;
        case 8:
            bf16_2x8(w, cols, x, stride, out);
            bf16_2x8(w + 2, cols, x, stride, out + 2 * LANES);
            return 1;
#endif
        default: return 0;
    }
}

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_bf16)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    const char *const w[] = {w0, w1, w2, w3};
    x += x_offset;
    out += out_offset;
    if (panels == 4 && bf16_four(w, cols, x, x_stride, rows, out)) {
        return;
    }
    for (int64_t p = 0; p < panels;) {
        if (rows == 1) {
            bf16_1x1(w + p, cols, x, x_stride, out + p * LANES);
            p++;
        } else if (panels - p >= DENSE_PANELS) {
            bf16_dense_many(w + p, cols, x, x_stride, rows, out + p * LANES);
            p += DENSE_PANELS;
        } else {
            bf16_dense_1(w + p, cols, x, x_stride, rows, out + p * LANES);
            p++;
        }
    }
}

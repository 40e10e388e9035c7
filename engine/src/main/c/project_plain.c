/* Matrix products with F32 and BF16 weights. */
#include "tiles.h"

INLINE void f32_direct(int panels, const float *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows,
        float *out) {
    if (rows == 1) {
        f32_tile(panels, 1, w, cols, x, stride, out, 1, 0);
        return;
    }
    for (int p = 0; p < panels; p += DENSE_PANELS) {
        if (panels - p >= DENSE_PANELS) {
            f32_rows(DENSE_PANELS, w + p, cols, x, stride, rows, out + p * LANES, 1, 0);
        } else {
            f32_rows(1, w + p, cols, x, stride, rows, out + p * LANES, 1, 0);
        }
    }
}

/* out[r * TILE + 16 p + l] = sum over k of w[p][k][l] * x[x_offset + r * x_stride + k]; panels is 1 to 4. */
MILLRACE_EXPORT void ISA(project_f32)(const float *w0, const float *w1, const float *w2, const float *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out) {
    const float *const w[] = {w0, w1, w2, w3};
    x += x_offset;
    switch (panels) {
        case 1: f32_direct(1, w, cols, x, x_stride, rows, out); break;
        case 2: f32_direct(2, w, cols, x, x_stride, rows, out); break;
        case 3: f32_direct(3, w, cols, x, x_stride, rows, out); break;
        default: f32_direct(4, w, cols, x, x_stride, rows, out); break;
    }
}

/* A panel of BF16: 64 bytes hold two depths of 16 lanes, the even depth in the low halves. */
INLINE f16 even_depth(w16 v) { return f_bits(w_shl(v, 16)); }
INLINE f16 odd_depth(w16 v) { return f_bits(w_and(v, w_all(0xFFFF0000u))); }

INLINE void bf16_tile(int panels, int rows, const char *const *w, int64_t cols, const float *x, int64_t stride,
        float *out) {
    f16 acc[4][4];
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
        f32_rows(panels, f, depths, x + from, stride, rows, out, from == 0, 0);
    }
}

INLINE void bf16_rows(int panels, const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows,
        float *out) {
    if (rows > DIRECT_ROWS) {
        for (int p = 0; p < panels; p += DENSE_PANELS) {
            if (panels - p >= DENSE_PANELS) {
                bf16_dense(DENSE_PANELS, w + p, cols, x, stride, rows, out + p * LANES);
            } else {
                bf16_dense(1, w + p, cols, x, stride, rows, out + p * LANES);
            }
        }
        return;
    }
    switch (rows) {
        case 1: bf16_tile(panels, 1, w, cols, x, stride, out); break;
        case 2: bf16_tile(panels, 2, w, cols, x, stride, out); break;
        case 3: bf16_tile(panels, 3, w, cols, x, stride, out); break;
        default: bf16_tile(panels, 4, w, cols, x, stride, out); break;
    }
}

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_bf16)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out) {
    const char *const w[] = {w0, w1, w2, w3};
    x += x_offset;
    switch (panels) {
        case 1: bf16_rows(1, w, cols, x, x_stride, rows, out); break;
        case 2: bf16_rows(2, w, cols, x, x_stride, rows, out); break;
        case 3: bf16_rows(3, w, cols, x, x_stride, rows, out); break;
        default: bf16_rows(4, w, cols, x, x_stride, rows, out); break;
    }
}

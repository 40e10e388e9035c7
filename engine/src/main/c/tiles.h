/* Register tiles of matrix products: a few panels of weights by a few rows of input.
 *
 * Each output is one chain of fmas over ascending depth, so tiles differ in speed alone. Several panels at a time,
 * because a core fetches more from memory when it reads several streams; several rows, because a weight that has been
 * loaded should be used often.
 */
#ifndef MILLRACE_TILES_H
#define MILLRACE_TILES_H

#include "lanes.h"

/* Panels and rows of the tile that multiplies decoded weights, and of those that read stored ones. What a tile holds
 * is bounded by the registers: 32 of AVX-512, 16 half as wide of AVX2. */
#if defined(__AVX512F__)
enum { DENSE_PANELS = 2, DENSE_ROWS = 8, DIRECT_ROWS = 4 };
#else
enum { DENSE_PANELS = 1, DENSE_ROWS = 6, DIRECT_ROWS = 1 };
#endif

/* Depths that are decoded at a time: two panels of them and eight rows of input stay in the first-level cache. */
enum { CHUNK = 128 };

/* Multiplies F32 panels of a number of depths; goes on from what stands in `out` unless `fresh`. Each step of depth
 * also asks for the cache line `ahead + 64 k`, if there is an `ahead`. */
INLINE void f32_tile(int panels, int rows, const float *const *w, int64_t depths, const float *x, int64_t stride,
        float *out, int fresh, const char *ahead) {
    f16 acc[DENSE_PANELS > 4 ? DENSE_PANELS : 4][DENSE_ROWS];
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            acc[p][r] = fresh ? f_zero() : f_load(out + r * TILE + p * LANES);
        }
    }
    for (int64_t k = 0; k < depths; k++) {
        if (ahead) {
            __builtin_prefetch(ahead + 64 * k, 0, 3);
        }
        f16 v[4];
        UNROLL for (int p = 0; p < panels; p++) {
            v[p] = f_load(w[p] + LANES * k);
            KEEP(v[p]);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            f16 s = f_all(x[r * stride + k]);
            UNROLL for (int p = 0; p < panels; p++) {
                acc[p][r] = f_fma(v[p], s, acc[p][r]);
            }
        }
    }
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            f_store(out + r * TILE + p * LANES, acc[p][r]);
        }
    }
}

INLINE void f32_rows(int panels, const float *const *w, int64_t depths, const float *x, int64_t stride, int64_t rows,
        float *out, int fresh, const char *ahead) {
    int64_t r = 0;
    for (; r + DENSE_ROWS <= rows; r += DENSE_ROWS) {
        f32_tile(panels, DENSE_ROWS, w, depths, x + r * stride, stride, out + r * TILE, fresh, ahead);
        ahead = 0;
    }
    for (; r + 4 <= rows; r += 4) {
        f32_tile(panels, 4, w, depths, x + r * stride, stride, out + r * TILE, fresh, ahead);
        ahead = 0;
    }
    for (; r + 2 <= rows; r += 2) {
        f32_tile(panels, 2, w, depths, x + r * stride, stride, out + r * TILE, fresh, ahead);
        ahead = 0;
    }
    if (r < rows) {
        f32_tile(panels, 1, w, depths, x + r * stride, stride, out + r * TILE, fresh, ahead);
    }
}

#endif

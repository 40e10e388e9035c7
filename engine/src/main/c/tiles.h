/* Register tiles of matrix products: a few panels of weights by a few rows of input.
 *
 * Each output is one chain of fmas over ascending depth, so tiles differ in speed alone. Several panels at a time,
 * because a core fetches more from memory when it reads several streams; several rows, because a weight that has been
 * loaded should be used often.
 */
#ifndef MILLRACE_TILES_H
#define MILLRACE_TILES_H

#include "lanes.h"

/* Panels and rows of the tile that multiplies decoded weights: what the registers hold, 32 of AVX-512, 16 half as wide of
 * AVX2. Tiles of few rows that decode weights as they go are each kernel's own. */
#if defined(__AVX512F__)
enum { DENSE_PANELS = 2, DENSE_ROWS = 8 };
#else
enum { DENSE_PANELS = 1, DENSE_ROWS = 6 };
#endif

/* Depths that are decoded at a time: two panels of them and their input stay in the first-level cache. */
enum { CHUNK = 64 };

/* Memory that will be needed next. The processor itself looks ahead only within a page and along few streams; asking
 * for lines while there is something to multiply is what keeps memory busy with more than one row of input. */
typedef struct {
    const char *at; /* null: nothing is asked for */
    int64_t apart; /* bytes from one panel to the next; two panels are asked for in turn */
    int64_t step; /* bytes of a panel for each depth */
} lookahead;

#define NOTHING_AHEAD ((lookahead) {0, 0, 0})

/* Multiplies F32 panels of a number of depths; goes on from what stands in `out` unless `fresh`. */
INLINE void f32_tile(int panels, int rows, const float *const *w, int64_t depths, const float *x, int64_t stride,
        float *out, int fresh, lookahead next) {
    f16 acc[4][DENSE_ROWS];
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            acc[p][r] = fresh ? f_zero() : f_load(out + r * TILE + p * LANES);
        }
    }
    for (int64_t k = 0; k < depths; k++) {
        if (next.at) {
            __builtin_prefetch(next.at + (k & 1) * next.apart + (k & ~1) * next.step, 0, 3);
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

/* Tiles of so many rows. They are made as even as may be, since one of a row or two waits for its own sums. */
INLINE int64_t tiles_of(int64_t rows) { return (rows + DENSE_ROWS - 1) / DENSE_ROWS; }

/* Any number of rows; the first tile asks for what is ahead. */
INLINE void f32_rows(int panels, const float *const *w, int64_t depths, const float *x, int64_t stride, int64_t rows,
        float *out, int fresh, lookahead next) {
#define F32(n) case n: f32_tile(panels, n, w, depths, x + r * stride, stride, out + r * TILE, fresh, next); break
    for (int64_t r = 0, tiles = tiles_of(rows); tiles > 0; tiles--) {
        int64_t n = (rows - r + tiles - 1) / tiles;
        switch (n) {
            F32(1);
            F32(2);
            F32(3);
            F32(4);
            F32(5);
            F32(6);
#if defined(__AVX512F__)
            F32(7);
            F32(8);
#endif
            default: __builtin_unreachable();
        }
        r += n;
        next.at = 0;
    }
#undef F32
}

#endif

/* Matrix products with weights in groups: codes, and a scale for each group of depths.
 *
 * A source that includes this has defined the layout of its panels:
 *   GROUP                depths that share a scale; a divisor of 128
 *   BLOCK_GROUPS         groups of a block: 64 bytes of scales, then the lines of its groups one after another
 *   LINE_DEPTHS          depths of a line: 64 bytes, a 32-bit word for each lane
 *   scale(block, g)      the scales of group g of a block
 *   line_words           what is held of a line in registers
 *   words(line)          loads it, and of its neighbour NEAR bytes
 *   rare(v)              whether a line needs the longer form of weight
 *   weight(v, i, rare)   the values of depth i of a line; i and rare are constants
 *
 * An output is a chain of fmas over its groups, `acc = fma(scale, part, acc)`, and a part is such a chain from zero
 * over the depths of a group. Depths that a row does not have are not multiplied, since their input may be anything.
 */
#ifndef MILLRACE_GROUPED_H
#define MILLRACE_GROUPED_H

#include "tiles.h"

enum {
    /* Depths that are decoded at a time. */
    PIECE = 128,
    LINE_BYTES = 64,
    GROUP_LINES = GROUP / LINE_DEPTHS,
    BLOCK_BYTES = 64 + BLOCK_GROUPS * GROUP_LINES * LINE_BYTES,
    PIECE_GROUPS = PIECE / GROUP
};

/* How far ahead lines are asked for when there is little to multiply. Panels are short, so what counts as much is that
 * memory is busy from the first line to the last: a tile asks for so many bytes of its panels at once, and at its end
 * for as many of the panels that its thread takes next. Of two threads each takes four panels and leaves four to the
 * other. Where that guess is wrong, so many bytes are read for nothing. */
enum { GROUPED_AHEAD = 2048, TAKEN_PANELS = 4, NEXT_PANELS = 2 * TAKEN_PANELS };

INLINE const char *block_of(const char *panel, int64_t group) { return panel + group / BLOCK_GROUPS * BLOCK_BYTES; }

INLINE const char *lines_of(const char *panel, int64_t group) {
    return block_of(panel, group) + 64 + group % BLOCK_GROUPS * (GROUP_LINES * LINE_BYTES);
}

INLINE f16 scale_of(const char *panel, int64_t group) {
    return scale(block_of(panel, group), group % BLOCK_GROUPS);
}

/* The words of a line; of the last one of a panel from a copy, since behind it there may be no memory. */
INLINE line_words words_of(const char *line, int last) {
    if (NEAR == 0 || __builtin_expect(!last, 1)) {
        return words(line);
    }
    char copy[LINE_BYTES + NEAR];
    w_store(copy, w_load(line));
    return words(copy);
}

/* part[p][r] goes on by the products of a line. */
INLINE void multiply_line(int panels, int rows, const line_words *v, int long_form, const float *x, int64_t stride,
        f16 (*part)[DENSE_ROWS]) {
    /* Every fourth row's address is kept from being seen through, or there would be one for each row and depth. */
    const float *four[] = {x, x + 4 * stride};
    __asm__("" : "+r"(four[0]));
    if (rows > 4) {
        __asm__("" : "+r"(four[1]));
    }
    UNROLL for (int i = 0; i < LINE_DEPTHS; i++) {
        f16 w[4];
        UNROLL for (int p = 0; p < panels; p++) {
            w[p] = weight(v[p], i, long_form);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            f16 s = f_all(four[r / 4][r % 4 * stride + i]);
            UNROLL for (int p = 0; p < panels; p++) {
                part[p][r] = f_fma(w[p], s, part[p][r]);
            }
        }
    }
}

/* Adds parts times scales to the results so far, or to zero. */
INLINE void add_parts(int panels, int rows, const f16 *scales, f16 (*part)[DENSE_ROWS], float *out, int first) {
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            float *o = out + r * TILE + p * LANES;
            f_store(o, f_fma(scales[p], part[p][r], first ? f_zero() : f_load(o)));
        }
    }
}

INLINE void zero_parts(int panels, int rows, f16 (*part)[DENSE_ROWS]) {
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            part[p][r] = f_zero();
        }
    }
}

/* A group of fewer depths than the others, the last of a row. */
INLINE void short_group(int panels, int rows, const char *const *w, int64_t group, int64_t depths, const float *x,
        int64_t stride, float *out) {
    for (int p = 0; p < panels; p++) {
        f16 part[1][DENSE_ROWS];
        zero_parts(1, rows, part);
        const char *line = lines_of(w[p], group);
        float values[LINE_DEPTHS * LANES];
        for (int64_t k = 0; k < depths; k++) {
            if (k % LINE_DEPTHS == 0) {
                line_words v = words_of(line + k / LINE_DEPTHS * LINE_BYTES, 1);
                UNROLL for (int i = 0; i < LINE_DEPTHS; i++) {
                    f_store(values + i * LANES, weight(v, i, 1));
                }
            }
            f16 one = f_load(values + k % LINE_DEPTHS * LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                part[0][r] = f_fma(one, f_all(x[r * stride + k]), part[0][r]);
            }
        }
        f16 scales = scale_of(w[p], group);
        add_parts(1, rows, &scales, part, out + p * LANES, 0);
    }
}

/* Few rows: weights go from memory through registers into the products. */
INLINE void grouped_tile(int panels, int rows, const char *const *w, int64_t cols, const float *x, int64_t stride,
        float *out) {
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int p = 0; p < panels; p++) {
            f_store(out + r * TILE + p * LANES, f_zero());
        }
    }
    for (int64_t b = 0; b < GROUPED_AHEAD; b += LINE_BYTES) {
        UNROLL for (int p = 0; p < panels; p++) {
            __builtin_prefetch(w[p] + b, 0, 3);
        }
    }
    int64_t groups = cols / GROUP;
    int64_t ahead = GROUPED_AHEAD;
    int64_t last = groups - (GROUPED_AHEAD * BLOCK_GROUPS + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (int64_t g = 0; g < groups; g++) {
        f16 part[4][DENSE_ROWS];
        zero_parts(panels, rows, part);
        if (panels == TAKEN_PANELS && g == last) {
            ahead += (NEXT_PANELS - 1) * (w[1] - w[0]);
        }
        if (g % BLOCK_GROUPS == 0) {
            UNROLL for (int p = 0; p < panels; p++) {
                __builtin_prefetch(block_of(w[p], g) + ahead, 0, 3);
            }
        }
        for (int64_t l = 0; l < GROUP_LINES; l++) {
            line_words v[4];
            int special = 0;
            UNROLL for (int p = 0; p < panels; p++) {
                const char *line = lines_of(w[p], g) + l * LINE_BYTES;
                __builtin_prefetch(line + ahead, 0, 3);
                v[p] = words_of(line, g + 1 == groups && l + 1 == GROUP_LINES);
                special |= rare(v[p]);
            }
            const float *at = x + g * GROUP + l * LINE_DEPTHS;
            if (__builtin_expect(special, 0)) {
                multiply_line(panels, rows, v, 1, at, stride, part);
            } else {
                multiply_line(panels, rows, v, 0, at, stride, part);
            }
        }
        f16 scales[4];
        UNROLL for (int p = 0; p < panels; p++) {
            scales[p] = scale_of(w[p], g);
        }
        /* Results stay in memory: the registers are for the parts. */
        __asm__("" : : : "memory");
        add_parts(panels, rows, scales, part, out, 0);
    }
    if (cols % GROUP) {
        short_group(panels, rows, w, groups, cols % GROUP, x + groups * GROUP, stride, out);
    }
}

/* Multiplies decoded groups. */
INLINE void decoded_tile(int panels, int rows, float (*const w)[PIECE * LANES],
        float (*const scales)[PIECE_GROUPS * LANES], int64_t depths, const float *x, int64_t stride, float *out,
        int first, lookahead next) {
    for (int64_t from = 0, g = 0; from < depths; from += GROUP, g++) {
        f16 part[DENSE_PANELS][DENSE_ROWS];
        zero_parts(panels, rows, part);
        int64_t to = from + GROUP < depths ? from + GROUP : depths;
        for (int64_t k = from; k < to; k++) {
            if (next.at) {
                __builtin_prefetch(next.at + (k & 1) * next.apart + (k & ~1) * next.step, 0, 3);
            }
            f16 v[DENSE_PANELS];
            UNROLL for (int p = 0; p < panels; p++) {
                v[p] = f_load(w[p] + LANES * k);
                KEEP(v[p]);
            }
            UNROLL for (int r = 0; r < rows; r++) {
                f16 s = f_all(x[r * stride + k]);
                UNROLL for (int p = 0; p < panels; p++) {
                    part[p][r] = f_fma(v[p], s, part[p][r]);
                }
            }
        }
        f16 by[DENSE_PANELS];
        UNROLL for (int p = 0; p < panels; p++) {
            by[p] = f_load(scales[p] + LANES * g);
        }
        add_parts(panels, rows, by, part, out, first && g == 0);
    }
}

/* The groups from `group` on that hold so many depths, a piece at most; `last` if the panel ends with them. */
ONCE void decode_piece(const char *panel, int64_t group, int64_t depths, int last, float *values, float *scales) {
    for (int64_t k = 0; k < depths; k += GROUP, group++) {
        const char *line = lines_of(panel, group);
        f_store(scales + k / GROUP * LANES, scale_of(panel, group));
        int64_t lines = (depths - k < GROUP ? depths - k + LINE_DEPTHS - 1 : GROUP) / LINE_DEPTHS;
        for (int64_t l = 0; l < lines; l++, line += LINE_BYTES, values += LINE_DEPTHS * LANES) {
            line_words v = words_of(line, last && k + GROUP >= depths && l + 1 == lines);
            if (__builtin_expect(rare(v), 0)) {
                UNROLL for (int i = 0; i < LINE_DEPTHS; i++) {
                    f_store(values + i * LANES, weight(v, i, 1));
                }
            } else {
                UNROLL for (int i = 0; i < LINE_DEPTHS; i++) {
                    f_store(values + i * LANES, weight(v, i, 0));
                }
            }
        }
    }
}

/* Many rows: weights are decoded once per piece, and all rows pass by. */
INLINE void grouped_dense(int panels, const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows,
        float *out) {
    float values[DENSE_PANELS][PIECE * LANES] __attribute__((aligned(64)));
    float scales[DENSE_PANELS][PIECE_GROUPS * LANES] __attribute__((aligned(64)));
    for (int64_t from = 0; from < cols; from += PIECE) {
        int64_t depths = cols - from < PIECE ? cols - from : PIECE;
        for (int p = 0; p < panels; p++) {
            decode_piece(w[p], from / GROUP, depths, from + PIECE >= cols, values[p], scales[p]);
        }
        lookahead next = {block_of(w[0], (from + PIECE) / GROUP), panels > 1 ? w[1] - w[0] : 0,
                          LINE_BYTES / LINE_DEPTHS};
#define DECODED(n) case n: \
            decoded_tile(panels, n, values, scales, depths, x + from + r * stride, stride, out + r * TILE, from == 0, next); \
            break
        for (int64_t r = 0, tiles = tiles_of(rows); tiles > 0; tiles--) {
            int64_t n = (rows - r + tiles - 1) / tiles;
            switch (n) {
                DECODED(1);
                DECODED(2);
                DECODED(3);
                DECODED(4);
                DECODED(5);
                DECODED(6);
#if defined(__AVX512F__)
                DECODED(7);
                DECODED(8);
#endif
                default: __builtin_unreachable();
            }
            r += n;
            next.at = 0;
        }
#undef DECODED
    }
}

/* The forms that are compiled; 4 x 1 reads weights for one row, the commonest and the one that memory bounds. */
#define GROUPED_TILE(panels, rows) \
    ONCE void tile_##panels##x##rows(const char *const *w, int64_t cols, const float *x, int64_t stride, float *out) { \
        grouped_tile(panels, rows, w, cols, x, stride, out); \
    }

GROUPED_TILE(1, 1)
GROUPED_TILE(4, 1)
#if defined(__AVX512F__)
GROUPED_TILE(4, 2)
GROUPED_TILE(4, 3)
GROUPED_TILE(4, 4)
GROUPED_TILE(2, 5)
GROUPED_TILE(2, 6)
GROUPED_TILE(2, 7)
GROUPED_TILE(2, 8)
#endif

ONCE void dense_1(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    grouped_dense(1, w, cols, x, stride, rows, out);
}

ONCE void dense_many(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    grouped_dense(DENSE_PANELS, w, cols, x, stride, rows, out);
}

/* Four panels by few rows, if there is a form for them; returns whether there was. */
INLINE int grouped_four(const char *const *w, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    switch (rows) {
        case 1: tile_4x1(w, cols, x, stride, out); return 1;
#if defined(__AVX512F__)
        case 2: tile_4x2(w, cols, x, stride, out); return 1;
        case 3: tile_4x3(w, cols, x, stride, out); return 1;
        case 4: tile_4x4(w, cols, x, stride, out); return 1;
#define TWICE(rows) case rows: \
            tile_2x##rows(w, cols, x, stride, out); \
            tile_2x##rows(w + 2, cols, x, stride, out + 2 * LANES); \
            return 1
        TWICE(5);
        TWICE(6);
        TWICE(7);
        TWICE(8);
#undef TWICE
#endif
        default: return 0;
    }
}

/* What project_f32 is, for weights in groups. */
INLINE void project_grouped(const char *const *w, int64_t panels, int64_t cols, const float *x, int64_t stride,
        int64_t rows, float *out) {
    if (panels == 4 && grouped_four(w, cols, x, stride, rows, out)) {
        return;
    }
    for (int64_t p = 0; p < panels;) {
        if (rows == 1) {
            tile_1x1(w + p, cols, x, stride, out + p * LANES);
            p++;
        } else if (panels - p >= DENSE_PANELS) {
            dense_many(w + p, cols, x, stride, rows, out + p * LANES);
            p += DENSE_PANELS;
        } else {
            dense_1(w + p, cols, x, stride, rows, out + p * LANES);
            p++;
        }
    }
}

#endif

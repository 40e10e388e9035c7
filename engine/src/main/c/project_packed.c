/* Matrix products with PACKED weights: BF16 without loss in about 12 bits.
 *
 * A panel is a table of 16 exponents (as `exponent << 23`), a flag per block of 8 depths, the blocks, and the escapes.
 * A block is 64 bytes of codes, 4 bits a depth, and 128 bytes of sign and mantissa, stored so that a rotation by whole
 * bytes brings them to where a float has them. In a flagged block code 15 stands for "the next escape byte is the
 * exponent", in order of depth, then lane. docs/formats.md has the layout byte by byte.
 */
#include "tiles.h"

enum { BLOCK_DEPTHS = 8, BLOCK_BYTES = 192, TABLE_BYTES = 64 };

/* How far ahead a block's lines are asked for, by tiles of four panels and of two: measured, and flat within a factor of 2. */
enum { PACKED_AHEAD = 1536, PAIR_AHEAD = 3072 };

/* What the end of a panel asks for instead: the start of the panel that a thread takes next where two share the work,
 * less the distance that lies within the panel. Panels hardly differ in size, and a guess that misses costs nothing. */
enum { NEXT_PANELS = 7 };

/* Where a panel is read: its parts, and the next escape. */
typedef struct {
    const char *table;
    const uint64_t *flags;
    const char *blocks;
    const uint8_t *escapes;
} cursor;

INLINE cursor cursor_of(const char *panel, int64_t cols) {
    int64_t blocks = (cols + BLOCK_DEPTHS - 1) / BLOCK_DEPTHS;
    int64_t flag_bytes = (blocks + 511) / 512 * 64;
    cursor c = {panel, (const uint64_t *) (const void *) (panel + TABLE_BYTES), panel + TABLE_BYTES + flag_bytes,
                (const uint8_t *) panel + TABLE_BYTES + flag_bytes + blocks * BLOCK_BYTES};
    return c;
}

INLINE int flagged(const cursor *c, int64_t block) { return (int) (c->flags[block >> 6] >> (block & 63) & 1); }

/* Replaces the exponents of lanes whose code is 15 by the next escapes. */
INLINE w16 escaped(w16 exponents, w16 codes, const uint8_t **escapes) {
#if defined(__AVX512F__)
    __m512i low = _mm512_set1_epi32(15);
    __mmask16 lanes = _mm512_cmpeq_epi32_mask(_mm512_and_si512(codes, low), low);
    __m512i next = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *) *escapes)), 23);
    *escapes += __builtin_popcount(lanes);
    return _mm512_mask_expand_epi32(exponents, lanes, next);
#else
    uint32_t code[LANES], exponent[LANES];
    __builtin_memcpy(code, &codes, sizeof code);
    __builtin_memcpy(exponent, &exponents, sizeof exponent);
    for (int l = 0; l < LANES; l++) {
        if ((code[l] & 15) == 15) {
            exponent[l] = (uint32_t) *(*escapes)++ << 23;
        }
    }
    return w_load(exponent);
#endif
}

/* The weight of a depth of a block from words whose low four bits are codes, words with sign and mantissa where a float
 * has them, and the exponents; `escapes` is null in a block without. */
#define WEIGHT(code, mantissa, table, escapes) ({ \
        w16 index = code; \
        w16 exponent = t_look(table, index); \
        if (escapes) { \
            exponent = escaped(exponent, index, escapes); \
        } \
        f_bits(w_and_or(mantissa, w_all(0x807F0000u), exponent)); })

/* A line of a block as if all of it stood some bytes further on; what comes from elsewhere is not looked at. */
INLINE w16 moved(const char *line, int bytes) {
    w16 v = w_load(line + bytes);
    KEEP(v);
    return v;
}

/* Weights of half a block. Loads from other addresses do for nothing what shifts and rotations do by whole bytes, since
 * of codes only the lowest bits count, and of mantissas the two highest bytes: it leaves arithmetic to multiplications. */
INLINE void decode_half(const cursor *c, int64_t block, int half, const uint8_t **escapes, f16 *w) {
    const char *p = c->blocks + block * BLOCK_BYTES, *m = p + 64 + 64 * half;
    table16 table = t_load(c->table);
    w16 codes = moved(p, 2 * half), next = moved(p, 2 * half + 1), mantissas = moved(m, 0);
    w[0] = WEIGHT(codes, mantissas, table, escapes);
    w[1] = WEIGHT(w_shr(codes, 4), moved(m, -1), table, escapes);
    w[2] = WEIGHT(next, moved(m, -2), table, escapes);
    w[3] = WEIGHT(w_shr(next, 4), w_rol8(mantissas, 3), table, escapes);
}

INLINE void decode_block(const cursor *c, int64_t block, const uint8_t **escapes, f16 *w) {
    decode_half(c, block, 0, escapes, w);
    decode_half(c, block, 1, escapes, w + BLOCK_DEPTHS / 2);
}

/* Decodes a block to F32, escapes or not. */
INLINE void store_block(cursor *c, int64_t block, float *out) {
    f16 w[BLOCK_DEPTHS];
    if (flagged(c, block)) {
        decode_block(c, block, &c->escapes, w);
    } else {
        decode_block(c, block, 0, w);
    }
    UNROLL for (int i = 0; i < BLOCK_DEPTHS; i++) {
        f_store(out + i * LANES, w[i]);
    }
}

INLINE void prefetch_block(const char *block, int64_t ahead) {
    __builtin_prefetch(block + ahead, 0, 3);
    __builtin_prefetch(block + ahead + 64, 0, 3);
    __builtin_prefetch(block + ahead + 128, 0, 3);
}

/* Of a panel its first lines, which no block before it asks for. */
INLINE void prefetch_start(int panels, const cursor *c) {
    for (int64_t at = 0; at < PACKED_AHEAD; at += 64) {
        UNROLL for (int p = 0; p < panels; p++) {
            __builtin_prefetch(c[p].blocks + at, 0, 3);
        }
    }
}

/* The depths of a last block that is not whole. */
INLINE void packed_rest(int panels, int rows, cursor *c, int64_t cols, const float *x, int64_t stride,
        f16 (*acc)[DENSE_ROWS]) {
    int64_t whole = cols / BLOCK_DEPTHS;
    float rest[BLOCK_DEPTHS * LANES];
    UNROLL for (int p = 0; p < panels; p++) {
        store_block(&c[p], whole, rest);
        for (int64_t k = whole * BLOCK_DEPTHS; k < cols; k++) {
            f16 w = f_load(rest + (k - whole * BLOCK_DEPTHS) * LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                acc[p][r] = f_fma(w, f_all(x[r * stride + k]), acc[p][r]);
            }
        }
    }
}

/* Up to four rows. Panel by panel, so that a block that is flagged costs its own panel alone; the processor overlaps them. */
INLINE void packed_tile(int panels, int rows, cursor *c, int64_t cols, const float *x, int64_t stride, float *out) {
    f16 acc[4][DENSE_ROWS];
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            acc[p][r] = f_zero();
        }
    }
    int64_t whole = cols / BLOCK_DEPTHS;
    int alone = rows == 1 && panels > 1;
    if (alone) {
        prefetch_start(panels, c);
    }
    int64_t elsewhere = 0;
    for (int64_t b = 0; b < whole; b++) {
        if (alone && b == whole - PACKED_AHEAD / BLOCK_BYTES) {
            elsewhere = NEXT_PANELS * (c[1].blocks - c[0].blocks);
        }
        UNROLL for (int p = 0; p < panels; p++) {
            f16 w[BLOCK_DEPTHS];
            prefetch_block(c[p].blocks + b * BLOCK_BYTES + elsewhere, PACKED_AHEAD);
            if (__builtin_expect(flagged(&c[p], b), 0)) {
                decode_block(&c[p], b, &c[p].escapes, w);
            } else {
                decode_block(&c[p], b, 0, w);
            }
            UNROLL for (int i = 0; i < BLOCK_DEPTHS; i++) {
                UNROLL for (int r = 0; r < rows; r++) {
                    acc[p][r] = f_fma(w[i], f_all(x[r * stride + b * BLOCK_DEPTHS + i]), acc[p][r]);
                }
            }
        }
    }
    if (cols % BLOCK_DEPTHS) {
        packed_rest(panels, rows, c, cols, x, stride, acc);
    }
    UNROLL for (int p = 0; p < panels; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            f_store(out + r * TILE + p * LANES, acc[p][r]);
        }
    }
}

#if defined(__AVX512F__)
/* Five to eight rows by two panels: weights of half a block stay in registers, and a number of the input meets both panels.
 * Goes over the whole blocks from `from` to `to`, from `out` on unless `from` is 0. What is decoded is left in `decoded`; if
 * that is null, `to` is the end, and depths beyond whole blocks are multiplied too. */
INLINE void packed_pair(int rows, cursor *c, int64_t from, int64_t to, int64_t cols, const float *x, int64_t stride,
        float *out, float *const *decoded) {
    f16 acc[2][DENSE_ROWS];
    UNROLL for (int p = 0; p < 2; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            acc[p][r] = from ? f_load(out + r * TILE + p * LANES) : f_zero();
        }
    }
    for (int64_t b = from; b < to; b++) {
        if (!decoded) {
            UNROLL for (int p = 0; p < 2; p++) {
                prefetch_block(c[p].blocks + b * BLOCK_BYTES, PAIR_AHEAD);
            }
        }
        ROLLED for (int half = 0; half < 2; half++) {
            f16 w[2][BLOCK_DEPTHS / 2];
            UNROLL for (int p = 0; p < 2; p++) {
                if (__builtin_expect(flagged(&c[p], b), 0)) {
                    decode_half(&c[p], b, half, &c[p].escapes, w[p]);
                } else {
                    decode_half(&c[p], b, half, 0, w[p]);
                }
            }
            int64_t k = b * BLOCK_DEPTHS + half * (BLOCK_DEPTHS / 2);
            UNROLL for (int i = 0; i < BLOCK_DEPTHS / 2; i++) {
                UNROLL for (int r = 0; r < rows; r++) {
                    f16 s = f_all(x[r * stride + k + i]);
                    UNROLL for (int p = 0; p < 2; p++) {
                        acc[p][r] = f_fma(w[p][i], s, acc[p][r]);
                    }
                }
                if (decoded) {
                    UNROLL for (int p = 0; p < 2; p++) {
                        f_store(decoded[p] + (k - from * BLOCK_DEPTHS + i) * LANES, w[p][i]);
                    }
                }
            }
        }
    }
    if (!decoded && cols % BLOCK_DEPTHS) {
        packed_rest(2, rows, c, cols, x, stride, acc);
    }
    UNROLL for (int p = 0; p < 2; p++) {
        UNROLL for (int r = 0; r < rows; r++) {
            f_store(out + r * TILE + p * LANES, acc[p][r]);
        }
    }
}
#endif

/* Many rows: weights are decoded once per chunk of depths, and all rows pass by. */
INLINE void packed_dense(int panels, cursor *c, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    float decoded[DENSE_PANELS][CHUNK * LANES] __attribute__((aligned(64)));
    const float *f[DENSE_PANELS];
    float *d[DENSE_PANELS];
    for (int p = 0; p < panels; p++) {
        f[p] = d[p] = decoded[p];
    }
    int64_t from = 0;
#if defined(__AVX512F__)
    int64_t tiles = tiles_of(rows), n = (rows + tiles - 1) / tiles;
    int64_t whole = cols / BLOCK_DEPTHS * BLOCK_DEPTHS;
    if (panels == 2 && n > 4) {
        for (; from < whole; from += CHUNK) {
            int64_t depths = whole - from < CHUNK ? whole - from : CHUNK;
            int64_t at = from / BLOCK_DEPTHS, to = (from + depths) / BLOCK_DEPTHS;
            switch (n) {
                case 5: packed_pair(5, c, at, to, cols, x, stride, out, d); break;
                case 6: packed_pair(6, c, at, to, cols, x, stride, out, d); break;
                case 7: packed_pair(7, c, at, to, cols, x, stride, out, d); break;
                case 8: packed_pair(8, c, at, to, cols, x, stride, out, d); break;
                default: __builtin_unreachable();
            }
            lookahead next = {c[0].blocks + to * BLOCK_BYTES, panels > 1 ? c[1].blocks - c[0].blocks : 0,
                              BLOCK_BYTES / BLOCK_DEPTHS};
            f32_rows(panels, f, depths, x + n * stride + from, stride, rows - n, out + n * TILE, from == 0, next);
        }
        from = whole;
    }
#endif
    for (; from < cols; from += CHUNK) {
        int64_t depths = cols - from < CHUNK ? cols - from : CHUNK;
        int64_t to = (from + depths + BLOCK_DEPTHS - 1) / BLOCK_DEPTHS;
        for (int p = 0; p < panels; p++) {
            for (int64_t b = from / BLOCK_DEPTHS; b < to; b++) {
                store_block(&c[p], b, d[p] + (b * BLOCK_DEPTHS - from) * LANES);
            }
        }
        lookahead next = {c[0].blocks + to * BLOCK_BYTES, panels > 1 ? c[1].blocks - c[0].blocks : 0,
                          BLOCK_BYTES / BLOCK_DEPTHS};
        f32_rows(panels, f, depths, x + from, stride, rows, out, from == 0, next);
    }
}

/* The forms that are compiled; 4 x 1 reads weights for one row, the commonest and the one that memory bounds. */
#define PACKED_TILE(panels, rows) \
    ONCE void packed_##panels##x##rows(cursor *c, int64_t cols, const float *x, int64_t stride, float *out) { \
        packed_tile(panels, rows, c, cols, x, stride, out); \
    }
#define PACKED_PAIR(rows) \
    ONCE void packed_2x##rows(cursor *c, int64_t cols, const float *x, int64_t stride, float *out) { \
        packed_pair(rows, c, 0, cols / BLOCK_DEPTHS, cols, x, stride, out, 0); \
    }

PACKED_TILE(1, 1)
PACKED_TILE(4, 1)
#if defined(__AVX512F__)
PACKED_TILE(4, 2)
PACKED_TILE(4, 3)
PACKED_TILE(4, 4)
PACKED_PAIR(5)
PACKED_PAIR(6)
PACKED_PAIR(7)
PACKED_PAIR(8)
#endif

ONCE void packed_dense_1(cursor *c, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    packed_dense(1, c, cols, x, stride, rows, out);
}

ONCE void packed_dense_many(cursor *c, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
    packed_dense(DENSE_PANELS, c, cols, x, stride, rows, out);
}

/* Four panels by few rows, if there is a form for them; returns whether there was. */
INLINE int packed_four(cursor *c, int64_t cols, const float *x, int64_t stride, int64_t rows, float *out) {
#define FOUR(n) case n: packed_4x##n(c, cols, x, stride, out); return 1
#define TWICE(n) case n: \
        packed_2x##n(c, cols, x, stride, out); \
        packed_2x##n(c + 2, cols, x, stride, out + 2 * LANES); \
        return 1
    switch (rows) {
        FOUR(1);
#if defined(__AVX512F__)
        FOUR(2);
        FOUR(3);
        FOUR(4);
        TWICE(5);
        TWICE(6);
        TWICE(7);
        TWICE(8);
#endif
        default: return 0;
    }
#undef TWICE
#undef FOUR
}

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_packed)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    cursor c[] = {cursor_of(w0, cols), cursor_of(w1, cols), cursor_of(w2, cols), cursor_of(w3, cols)};
    x += x_offset;
    out += out_offset;
    if (panels == 4 && packed_four(c, cols, x, x_stride, rows, out)) {
        return;
    }
    for (int64_t p = 0; p < panels;) {
        if (rows == 1) {
            packed_1x1(c + p, cols, x, x_stride, out + p * LANES);
            p++;
        } else if (panels - p >= DENSE_PANELS) {
            packed_dense_many(c + p, cols, x, x_stride, rows, out + p * LANES);
            p += DENSE_PANELS;
        } else {
            packed_dense_1(c + p, cols, x, x_stride, rows, out + p * LANES);
            p++;
        }
    }
}

/* Matrix products with INT4 weights: codes of 4 bits and a BF16 scale for each 32 depths.
 * docs/formats.md has the layout byte by byte.
 */
#include "lanes.h"

enum { GROUP = 32, BLOCK_GROUPS = 2, LINE_DEPTHS = 8 };

INLINE f16 scale(const char *block, int64_t g) { return f_load_bf16(block + g * 2 * LANES); }

enum { NEAR = 3 };

/* A line four times, each time a byte further on: a shift by whole bytes for nothing, where only the low bits count. */
typedef struct { w16 by[4]; } line_words;
INLINE line_words words(const char *line) {
    line_words v;
    UNROLL for (int i = 0; i < 4; i++) {
        v.by[i] = w_load(line + i);
        KEEP(v.by[i]);
    }
    return v;
}

INLINE int rare(line_words v) { return (void) v, 0; }

/* A word has its depths at the bits 0, 8, 16, 24, 4, 12, 20, 28. */
#if defined(__AVX512F__)

/* A look-up takes the low four bits of a lane as they are. */
static const float VALUES[LANES] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

#define CODE(v, bit) f_bits(t_look(t_load(VALUES), (bit) ? w_shr(v, bit) : v))
#define HIGH_CODE(v, bit) CODE(v, bit)

#else

/* As in project_int8.c: the float is 2^e + (code + 8). */
#define CODE(v, bit) \
    f_sub(f_bits(w_and_or(v, w_all(0xFu << (bit)), w_all((uint32_t) (150 - (bit)) << 23))), \
            f_all((float) (1 << (23 - (bit))) + 8))
#define HIGH_CODE(v, bit) CODE(w_shr(v, 16), (bit) - 16)

#endif

INLINE f16 weight(line_words v, int i, int long_form) {
    (void) long_form;
    return CODE(v.by[i & 3], i & 4);
}

#include "grouped.h"

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_int4)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    const char *const w[] = {w0, w1, w2, w3};
    project_grouped(w, panels, cols, x + x_offset, x_stride, rows, out + out_offset);
}

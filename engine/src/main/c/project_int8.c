/* Matrix products with INT8 weights: codes of 8 bits and a BF16 scale for each 32 depths.
 * docs/formats.md has the layout byte by byte.
 */
#include "lanes.h"

enum { GROUP = 32, BLOCK_GROUPS = 2, LINE_DEPTHS = 4 };

INLINE f16 scale(const char *block, int64_t g) { return f_load_bf16(block + g * 2 * LANES); }

enum { NEAR = 0 };

typedef w16 line_words;

INLINE line_words words(const char *line) {
    w16 v = w_load(line);
    KEEP(v);
    return v;
}

INLINE int rare(line_words v) { return (void) v, 0; }

/* Bits of a mantissa are a number without conversion: with the exponent that makes the lowest bit of the code a one,
 * the float is 2^e + (code + 128) exactly, and the difference to 2^e + 128 is exact as well. */
#define UNIT(bit) ((uint32_t) (150 - (bit)) << 23)
#define OFFSET(bit) ((float) (1 << (23 - (bit))) + 128)

/* The codes at the bits 8 to 15. What is subtracted stays in memory: the larger tiles have no register for it. */
INLINE f16 second(w16 v) {
    static const float offset[LANES] __attribute__((aligned(64))) = {
        OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8),
        OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8), OFFSET(8)};
    const float *p = offset;
    __asm__ volatile("" : "+r"(p));
    return f_sub(f_bits(w_and_xor(v, w_all(0xFF00), w_all(UNIT(8) | 0x8000))), f_load(p));
}

INLINE f16 lowest(w16 v) { return f_sub(f_bits(w_and_xor(v, w_all(0xFF), w_all(UNIT(0) | 0x80))), f_all(OFFSET(0))); }

INLINE f16 weight(line_words v, int i, int long_form) {
    (void) long_form;
    switch (i) {
        case 0: return lowest(v);
        case 1: return second(v);
        case 2: return lowest(w_shr(v, 16));
        default: return f_from_int(w_sar(v, 24));
    }
}

#include "grouped.h"

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_int8)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    const char *const w[] = {w0, w1, w2, w3};
    project_grouped(w, panels, cols, x + x_offset, x_stride, rows, out + out_offset);
}

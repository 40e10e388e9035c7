/* Matrix products with FP8 weights: e4m3fn codes and an F32 scale for each 128 depths. docs/formats.md has the layout
 * byte by byte.
 */
#include "lanes.h"

enum { GROUP = 128, BLOCK_GROUPS = 1, LINE_DEPTHS = 4 };

INLINE f16 scale(const char *block, int64_t g) { return (void) g, f_load((const float *) (const void *) block); }

enum { NEAR = 0 };

/* A line four times, each time with another of a lane's octets as the highest: loads do for nothing what shifts would. In
 * front of the first line of a panel are its scales. */
typedef struct { w16 highest[4]; } line_words;

INLINE line_words words(const char *line) {
    line_words v;
    UNROLL for (int i = 0; i < 4; i++) {
        v.highest[i] = w_load(line - 3 + i);
        KEEP(v.highest[i]);
    }
    return v;
}

/* Whether one of the codes has exponent 0: is zero, or denormal. */
INLINE int rare(line_words v) { return w_any_octet_without(v.highest[3], w_all(0x78787878u)); }

/* Sign and the other seven bits in the place that F32 has for them, of the octet that is the highest of `v`. */
#define PLACED(v) w_and(w_sar(v, 4), w_all(0x87F00000u))

INLINE f16 weight(line_words v, int i, int long_form) {
    w16 placed = PLACED(v.highest[i]);
    if (!long_form) {
        return f_mul(f_bits(placed), f_all(0x1p120f));
    }
    /* A denormal operand would cost a hundred cycles. With a bit more of exponent there is none: the float is the value
     * by 2^-8 if the code's exponent is not 0. If it is, a one has come before the point, and 2 f - 2^-14 is without;
     * which is the smaller of the two just then. */
    f16 f = f_bits(w_and_or(placed, w_all(0x07F00000u), w_all(112u << 23)));
    f16 less = f_sub(f_add(f, f), f_all(0x1p-14f));
    return f_bits(w_and_or(placed, w_all(0x80000000u), w_bits(f_mul(f_min(f, less), f_all(256)))));
}

#include "grouped.h"

/* As project_f32. */
MILLRACE_EXPORT void ISA(project_fp8)(const char *w0, const char *w1, const char *w2, const char *w3,
        int64_t panels, int64_t cols, const float *x, int64_t x_offset, int64_t x_stride, int64_t rows, float *out,
        int64_t out_offset) {
    const char *const w[] = {w0, w1, w2, w3};
    project_grouped(w, panels, cols, x + x_offset, x_stride, rows, out + out_offset);
}

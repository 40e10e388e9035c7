/* Sums of squares, SwiGLU and the exponentials of a softmax. */
#include "lanes.h"

/* Constants of ExpMath; written as there, so that both round to the same floats. */
#define EXP_MIN -104.0f
#define EXP_MAX 89.0f
#define EXP_INV_LN2 1.44269504f
#define EXP_ROUND 12582912.0f
#define EXP_ROUND_BITS 0x4B400000u
#define EXP_LN2_HIGH 0.693359375f
#define EXP_LN2_LOW -2.12194440e-4f
#define EXP_C0 1.9875691500e-4f
#define EXP_C1 1.3981999507e-3f
#define EXP_C2 8.3334519073e-3f
#define EXP_C3 4.1665795894e-2f
#define EXP_C4 1.6666665459e-1f
#define EXP_C5 5.0000001201e-1f

/* ExpMath.exp, operation by operation. A NaN must come through the clamp: it is the second operand of both. */
INLINE f16 f_exp(f16 value) {
    f16 x = f_max(f_all(EXP_MIN), f_min(f_all(EXP_MAX), value));
    f16 rounded = f_fma(x, f_all(EXP_INV_LN2), f_all(EXP_ROUND));
    f16 less = f_sub(f_all(EXP_ROUND), rounded);
    f16 r = f_fma(less, f_all(EXP_LN2_HIGH), x);
    r = f_fma(less, f_all(EXP_LN2_LOW), r);
    f16 p = f_fma(f_all(EXP_C0), r, f_all(EXP_C1));
    p = f_fma(p, r, f_all(EXP_C2));
    p = f_fma(p, r, f_all(EXP_C3));
    p = f_fma(p, r, f_all(EXP_C4));
    p = f_fma(p, r, f_all(EXP_C5));
    p = f_add(f_fma(p, f_mul(r, r), r), f_all(1.0f));
#if defined(__AVX512F__)
    /* p times a power of two, rounded once where the result is subnormal, as below. */
    return _mm512_scalef_ps(p, f_sub(rounded, f_all(EXP_ROUND)));
#else
    w16 n = w_sub(w_bits(rounded), w_all(EXP_ROUND_BITS));
    w16 half = w_sar(n, 1);
    f16 low = f_bits(w_shl(w_add(half, w_all(127)), 23));
    f16 high = f_bits(w_shl(w_add(w_sub(n, half), w_all(127)), 23));
    return f_mul(f_mul(p, low), high);
#endif
}

MILLRACE_EXPORT float ISA(sum_of_squares)(const float *x, int64_t offset, int64_t n) {
    x += offset;
    f16 sum = f_zero();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f16 v = f_load(x + i);
        sum = f_fma(v, v, sum);
    }
    if (i < n) {
        f16 v = f_load_n(x + i, n - i);
        sum = f_fma(v, v, sum);
    }
    return f_tree(sum);
}

INLINE f16 swiglu_of(f16 g, f16 up) {
    /* -0 - g is the negation of g, of a zero too. */
    f16 e = f_exp(f_sub(f_all(-0.0f), g));
    return f_mul(f_div(g, f_add(f_all(1.0f), e)), up);
}

MILLRACE_EXPORT void ISA(swiglu)(float *gate, int64_t gate_offset, const float *up, int64_t up_offset, int64_t n) {
    gate += gate_offset;
    up += up_offset;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f_store(gate + i, swiglu_of(f_load(gate + i), f_load(up + i)));
    }
    if (i < n) {
        f_store_n(gate + i, swiglu_of(f_load_n(gate + i, n - i), f_load_n(up + i, n - i)), n - i);
    }
}

/* Multiplies by scale in place; returns the maximum, NaN if there is one. */
INLINE float scale_all(float *x, int64_t n, float scale) {
    enum { CHAINS = 4 };
    const float infinity = __builtin_inff();
    f16 factor = f_all(scale);
    f16 max[CHAINS], odd[CHAINS];
    UNROLL for (int c = 0; c < CHAINS; c++) {
        max[c] = f_all(-infinity);
        odd[c] = f_zero();
    }
    int64_t i = 0;
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES) {
        UNROLL for (int c = 0; c < CHAINS; c++) {
            f16 v = f_mul(f_load(x + i + LANES * c), factor);
            f_store(x + i + LANES * c, v);
            /* From an infinity on, or a NaN, this is NaN. */
            odd[c] = f_fma(v, f_zero(), odd[c]);
            max[c] = f_max(v, max[c]);
        }
    }
    int nan = 0;
    UNROLL for (int c = 1; c < CHAINS; c++) {
        odd[0] = f_add(odd[0], odd[c]);
        max[0] = f_max(max[c], max[0]);
    }
    if (f_any_nan(odd[0])) {
        for (int64_t j = 0; j < i; j += LANES) {
            nan |= f_any_nan(f_load(x + j));
        }
    }
    float m[LANES];
    f_store(m, max[0]);
    float result = m[0];
    for (int l = 1; l < LANES; l++) {
        result = m[l] > result ? m[l] : result;
    }
    for (; i < n; i++) {
        x[i] *= scale;
        nan |= x[i] != x[i];
        result = x[i] > result ? x[i] : result;
    }
    return nan ? __builtin_nanf("") : result;
}

MILLRACE_EXPORT float ISA(softmax)(float *scores, int64_t offset, int64_t n, float scale) {
    float *x = scores + offset;
    f16 max = f_all(scale_all(x, n, scale));
    f16 sum = f_zero();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f16 e = f_exp(f_sub(f_load(x + i), max));
        f_store(x + i, e);
        sum = f_add(sum, e);
    }
    if (i < n) {
        f16 e = f_first(f_exp(f_sub(f_load_n(x + i, n - i), max)), n - i);
        f_store_n(x + i, e, n - i);
        sum = f_add(sum, e);
    }
    return f_tree(sum);
}

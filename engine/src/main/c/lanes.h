/* Sixteen lanes of float or of 32-bit words, whatever registers they take: one on AVX-512, two on AVX2.
 *
 * Kernels are written in these, so that a further instruction set is a further section of this file: NEON would be four
 * registers (vfmaq_f32, vqtbl4q_u8 for the table, vbslq for the blend).
 */
#ifndef MILLRACE_LANES_H
#define MILLRACE_LANES_H

#include "millrace.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)

typedef __m512 f16;
typedef __m512i w16;

/* Pins a loaded vector to a register. Left alone, the compiler folds a load into each of its uses, and each use of a
 * line that is not in the cache then waits for it anew. */
#define KEEP(v) __asm__("" : "+v"(v))

INLINE f16 f_zero(void) { return _mm512_setzero_ps(); }
INLINE f16 f_all(float x) { return _mm512_set1_ps(x); }
INLINE f16 f_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void f_store(float *p, f16 v) { _mm512_storeu_ps(p, v); }
/* The first n lanes, 0 < n < 16; the others are zero and their memory is not touched. */
INLINE f16 f_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps((__mmask16) ((1u << n) - 1), p); }
INLINE void f_store_n(float *p, f16 v, int64_t n) { _mm512_mask_storeu_ps(p, (__mmask16) ((1u << n) - 1), v); }
INLINE f16 f_first(f16 v, int64_t n) { return _mm512_maskz_mov_ps((__mmask16) ((1u << n) - 1), v); }
INLINE f16 f_fma(f16 a, f16 b, f16 c) { return _mm512_fmadd_ps(a, b, c); }
INLINE f16 f_add(f16 a, f16 b) { return _mm512_add_ps(a, b); }
INLINE f16 f_sub(f16 a, f16 b) { return _mm512_sub_ps(a, b); }
INLINE f16 f_mul(f16 a, f16 b) { return _mm512_mul_ps(a, b); }
INLINE f16 f_div(f16 a, f16 b) { return _mm512_div_ps(a, b); }
/* b if either is NaN. */
INLINE f16 f_min(f16 a, f16 b) { return _mm512_min_ps(a, b); }
INLINE f16 f_max(f16 a, f16 b) { return _mm512_max_ps(a, b); }
/* Whether any lane is NaN. */
INLINE int f_any_nan(f16 v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0; }

INLINE w16 w_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE w16 w_all(uint32_t x) { return _mm512_set1_epi32((int) x); }
INLINE w16 w_add(w16 a, w16 b) { return _mm512_add_epi32(a, b); }
INLINE w16 w_sub(w16 a, w16 b) { return _mm512_sub_epi32(a, b); }
INLINE w16 w_and(w16 a, w16 b) { return _mm512_and_si512(a, b); }
INLINE w16 w_or(w16 a, w16 b) { return _mm512_or_si512(a, b); }
#define w_shl(v, n) _mm512_slli_epi32(v, n)
#define w_shr(v, n) _mm512_srli_epi32(v, n)
#define w_sar(v, n) _mm512_srai_epi32(v, n)
/* The same by a number that is no constant. */
INLINE w16 w_shl_all(w16 v, uint32_t n) { return _mm512_sll_epi32(v, _mm_cvtsi32_si128((int) n)); }
INLINE w16 w_shr_all(w16 v, uint32_t n) { return _mm512_srl_epi32(v, _mm_cvtsi32_si128((int) n)); }
#define w_rol8(v, bytes) ((bytes) ? _mm512_rol_epi32(v, 8 * (bytes)) : (v))
/* (a & b) | c */
INLINE w16 w_and_or(w16 a, w16 b, w16 c) { return _mm512_ternarylogic_epi32(a, b, c, 0xEA); }
/* (a & b) ^ c */
INLINE w16 w_and_xor(w16 a, w16 b, w16 c) { return _mm512_ternarylogic_epi32(a, b, c, 0x6A); }
/* Whether a byte has none of the bits of the mask. */
INLINE int w_any_octet_without(w16 v, w16 mask) { return _mm512_testn_epi8_mask(v, mask) != 0; }
INLINE f16 f_bits(w16 v) { return _mm512_castsi512_ps(v); }
INLINE w16 w_bits(f16 v) { return _mm512_castps_si512(v); }
INLINE f16 f_from_int(w16 v) { return _mm512_cvtepi32_ps(v); }
INLINE w16 w_zero(void) { return _mm512_setzero_si512(); }
INLINE void w_store(void *p, w16 v) { _mm512_storeu_si512(p, v); }
INLINE w16 w_max(w16 a, w16 b) { return _mm512_max_epi32(a, b); }
/* The largest lane, as a signed number. */
INLINE int32_t w_largest(w16 v) { return _mm512_reduce_max_epi32(v); }
/* Lane 4 j + i: the largest lane of the i-th of four. */
INLINE w16 w_largest_of_four(w16 a, w16 b, w16 c, w16 d) {
    a = w_max(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    c = w_max(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    a = w_max(_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c));
    a = w_max(a, _mm512_shuffle_i32x4(a, a, _MM_PERM_BADC));
    return w_max(a, _mm512_shuffle_i32x4(a, a, _MM_PERM_CDAB));
}
/* Lane i of each four in all four of them. */
#define f_spread(v, i) _mm512_permute_ps(v, 0x55 * (i))
/* To the nearest integer, ties to even; 0x80000000 for what is none. */
INLINE w16 w_round(f16 v) { return _mm512_cvtps_epi32(v); }
/* Bytes as signed words of 16 bits: 0 and 2 of each lane, 1 and 3. */
INLINE w16 w_bytes_even(w16 v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
INLINE w16 w_bytes_odd(w16 v) { return _mm512_srai_epi16(v, 8); }
/* Of each four lanes, 0 and 2 as the halves of lane 0, 1 and 3 as those of lane 1, within -32768 and 32767. Lanes 2 and
 * 3 are undefined. */
INLINE w16 w_pairs(w16 v) {
    w16 ordered = _mm512_shuffle_epi32(v, _MM_PERM_DBCA);
    return _mm512_packs_epi32(ordered, ordered);
}
/* acc + the products of both halves, signed and exact. */
INLINE w16 w_dot(w16 acc, w16 a, w16 b) {
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(acc, a, b);
#else
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}
/* 16 numbers in BF16. */
INLINE f16 f_load_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

/* A table of 16 words; an index is the low four bits of a lane. */
typedef __m512i table16;
INLINE table16 t_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE w16 t_look(table16 t, w16 index) { return _mm512_permutexvar_epi32(index, t); }

#elif defined(__AVX2__)

typedef struct { __m256 a, b; } f16;
typedef struct { __m256i a, b; } w16;

#define KEEP(v) __asm__("" : "+x"((v).a), "+x"((v).b))

INLINE f16 f_zero(void) { return (f16) {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE f16 f_all(float x) { __m256 v = _mm256_set1_ps(x); return (f16) {v, v}; }
INLINE f16 f_load(const float *p) { return (f16) {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void f_store(float *p, f16 v) { _mm256_storeu_ps(p, v.a); _mm256_storeu_ps(p + 8, v.b); }
INLINE __m256i first_n(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE f16 f_load_n(const float *p, int64_t n) {
    return (f16) {_mm256_maskload_ps(p, first_n(n)), _mm256_maskload_ps(p + 8, first_n(n - 8))};
}
INLINE void f_store_n(float *p, f16 v, int64_t n) {
    _mm256_maskstore_ps(p, first_n(n), v.a);
    _mm256_maskstore_ps(p + 8, first_n(n - 8), v.b);
}
INLINE f16 f_first(f16 v, int64_t n) {
    return (f16) {_mm256_and_ps(v.a, _mm256_castsi256_ps(first_n(n))),
                  _mm256_and_ps(v.b, _mm256_castsi256_ps(first_n(n - 8)))};
}
INLINE f16 f_fma(f16 x, f16 y, f16 z) { return (f16) {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE f16 f_add(f16 x, f16 y) { return (f16) {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE f16 f_sub(f16 x, f16 y) { return (f16) {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE f16 f_mul(f16 x, f16 y) { return (f16) {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE f16 f_div(f16 x, f16 y) { return (f16) {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE f16 f_min(f16 x, f16 y) { return (f16) {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE f16 f_max(f16 x, f16 y) { return (f16) {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE int f_any_nan(f16 v) {
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(v.a, v.a, _CMP_UNORD_Q), _mm256_cmp_ps(v.b, v.b, _CMP_UNORD_Q)));
}

INLINE w16 w_load(const void *p) {
    return (w16) {_mm256_loadu_si256(p), _mm256_loadu_si256((const void *) ((const char *) p + 32))};
}
INLINE w16 w_all(uint32_t x) { __m256i v = _mm256_set1_epi32((int) x); return (w16) {v, v}; }
INLINE w16 w_add(w16 x, w16 y) { return (w16) {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INLINE w16 w_sub(w16 x, w16 y) { return (w16) {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
INLINE w16 w_and(w16 x, w16 y) { return (w16) {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INLINE w16 w_or(w16 x, w16 y) { return (w16) {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
#define w_shl(v, n) ((w16) {_mm256_slli_epi32((v).a, n), _mm256_slli_epi32((v).b, n)})
#define w_shr(v, n) ((w16) {_mm256_srli_epi32((v).a, n), _mm256_srli_epi32((v).b, n)})
#define w_sar(v, n) ((w16) {_mm256_srai_epi32((v).a, n), _mm256_srai_epi32((v).b, n)})
INLINE w16 w_shl_all(w16 v, uint32_t n) {
    __m128i by = _mm_cvtsi32_si128((int) n);
    return (w16) {_mm256_sll_epi32(v.a, by), _mm256_sll_epi32(v.b, by)};
}
INLINE w16 w_shr_all(w16 v, uint32_t n) {
    __m128i by = _mm_cvtsi32_si128((int) n);
    return (w16) {_mm256_srl_epi32(v.a, by), _mm256_srl_epi32(v.b, by)};
}
INLINE __m256i rol8(__m256i v, int bytes) {
    return _mm256_or_si256(_mm256_slli_epi32(v, 8 * bytes), _mm256_srli_epi32(v, 32 - 8 * bytes));
}
#define w_rol8(v, bytes) ((bytes) ? (w16) {rol8((v).a, bytes), rol8((v).b, bytes)} : (v))
INLINE w16 w_and_or(w16 x, w16 y, w16 z) {
    return (w16) {_mm256_or_si256(_mm256_and_si256(x.a, y.a), z.a), _mm256_or_si256(_mm256_and_si256(x.b, y.b), z.b)};
}
INLINE w16 w_and_xor(w16 x, w16 y, w16 z) {
    return (w16) {_mm256_xor_si256(_mm256_and_si256(x.a, y.a), z.a), _mm256_xor_si256(_mm256_and_si256(x.b, y.b), z.b)};
}
INLINE int w_any_octet_without(w16 v, w16 mask) {
    __m256i zero = _mm256_setzero_si256();
    __m256i none = _mm256_or_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v.a, mask.a), zero),
            _mm256_cmpeq_epi8(_mm256_and_si256(v.b, mask.b), zero));
    return !_mm256_testz_si256(none, none);
}
INLINE f16 f_bits(w16 v) { return (f16) {_mm256_castsi256_ps(v.a), _mm256_castsi256_ps(v.b)}; }
INLINE w16 w_bits(f16 v) { return (w16) {_mm256_castps_si256(v.a), _mm256_castps_si256(v.b)}; }
INLINE f16 f_from_int(w16 v) { return (f16) {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
INLINE w16 w_zero(void) { return (w16) {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
INLINE void w_store(void *p, w16 v) {
    _mm256_storeu_si256(p, v.a);
    _mm256_storeu_si256((void *) ((char *) p + 32), v.b);
}
INLINE w16 w_max(w16 x, w16 y) { return (w16) {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
INLINE int32_t w_largest(w16 v) {
    __m256i m = _mm256_max_epi32(v.a, v.b);
    __m128i n = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    n = _mm_max_epi32(n, _mm_shuffle_epi32(n, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(n, _mm_shuffle_epi32(n, 0xB1)));
}
INLINE w16 w_largest_of_four(w16 a, w16 b, w16 c, w16 d) {
    __m256i m = _mm256_broadcastsi128_si256(_mm_setr_epi32(w_largest(a), w_largest(b), w_largest(c), w_largest(d)));
    return (w16) {m, m};
}
#define f_spread(v, i) ((f16) {_mm256_permute_ps((v).a, 0x55 * (i)), _mm256_permute_ps((v).b, 0x55 * (i))})
INLINE w16 w_round(f16 v) { return (w16) {_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b)}; }
INLINE w16 w_bytes_even(w16 v) {
    return (w16) {_mm256_srai_epi16(_mm256_slli_epi16(v.a, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(v.b, 8), 8)};
}
INLINE w16 w_bytes_odd(w16 v) { return (w16) {_mm256_srai_epi16(v.a, 8), _mm256_srai_epi16(v.b, 8)}; }
INLINE __m256i pairs8(__m256i v) {
    __m256i ordered = _mm256_shuffle_epi32(v, 0xD8);
    return _mm256_packs_epi32(ordered, ordered);
}
INLINE w16 w_pairs(w16 v) { return (w16) {pairs8(v.a), pairs8(v.b)}; }
INLINE w16 w_dot(w16 acc, w16 x, w16 y) {
    return (w16) {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)),
                  _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b))};
}
INLINE __m256 load_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
INLINE f16 f_load_bf16(const void *p) { return (f16) {load_bf16(p), load_bf16((const char *) p + 16)}; }

/* Two tables of eight words; bit 3 of an index, moved to the sign, chooses between them. */
typedef struct { __m256i low, high; } table16;
INLINE table16 t_load(const void *p) {
    return (table16) {_mm256_loadu_si256(p), _mm256_loadu_si256((const void *) ((const char *) p + 32))};
}
INLINE __m256i t_look8(table16 t, __m256i index) {
    __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t.low, index));
    __m256 high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(t.high, index));
    return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28))));
}
INLINE w16 t_look(table16 t, w16 index) { return (w16) {t_look8(t, index.a), t_look8(t, index.b)}; }

#else
#error "no section of lanes.h for this instruction set"
#endif

/* The sum of 16 lanes in the order of Loops.tree: l + 8 to l, then 4, 2, 1. */
INLINE float f_tree(f16 v) {
    float x[LANES];
    f_store(x, v);
    for (int half = LANES / 2; half >= 1; half /= 2) {
        for (int l = 0; l < half; l++) {
            x[l] += x[l + half];
        }
    }
    return x[0];
}

#endif

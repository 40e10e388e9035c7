// What the lanes of a warp compute together.
#include "device.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#define CUDASIM_AVX2 1
#else
#define CUDASIM_AVX2 0
#endif

namespace cudasim {

namespace {

/// What a lane gets that shuffles from a lane outside of the group: undefined on a device.
constexpr uint64_t UNDEFINED = 0xfff7dead'7fc0deadull;

template <class F> void fold(Warp* warp, uint32_t group, F f) {
    unsigned first = static_cast<unsigned>(__builtin_ctz(group));
    uint32_t sum = static_cast<uint32_t>(warp->value[first]);
    for (uint32_t m = group & (group - 1); m; m &= m - 1) {
        sum = f(sum, static_cast<uint32_t>(warp->value[__builtin_ctz(m)]));
    }
    for (uint32_t m = group; m; m &= m - 1) {
        warp->result[__builtin_ctz(m)] = sum;
    }
}

void shuffle(Warp* warp, uint32_t group) {
    if (group == 0xffffffffu) {
        for (unsigned lane = 0; lane < WARP; lane++) {
            warp->result[lane] = warp->value[warp->source[lane] & 31];
        }
        return;
    }
    for (uint32_t m = group; m; m &= m - 1) {
        unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        unsigned from = static_cast<unsigned>(warp->source[lane]) & 31;
        warp->result[lane] = group >> from & 1 ? warp->value[from] : UNDEFINED;
    }
}

void ballot(Warp* warp, uint32_t group) {
    uint32_t votes = 0;
    for (uint32_t m = group; m; m &= m - 1) {
        votes |= static_cast<uint32_t>(warp->value[__builtin_ctz(m)]) << __builtin_ctz(m);
    }
    for (uint32_t m = group; m; m &= m - 1) {
        warp->result[__builtin_ctz(m)] = votes;
    }
}

void match(Warp* warp, uint32_t group) {
    for (uint32_t m = group; m; m &= m - 1) {
        uint32_t alike = 0;
        for (uint32_t n = group; n; n &= n - 1) {
            alike |= static_cast<uint32_t>(warp->value[__builtin_ctz(n)] == warp->value[__builtin_ctz(m)]) << __builtin_ctz(n);
        }
        warp->result[__builtin_ctz(m)] = alike;
    }
}

// Fragments of m16n8k16: lane 4g + t holds of A rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9; of B the same
// "columns" as k and n = g; of D rows g and g + 8, columns 2t, 2t + 1. So what 32 lanes hold of one register is a tile
// of 8 x 8 in row order, and of B in column order.

float widen(Op op, uint32_t word, unsigned half) {
    uint32_t bits = half ? word >> 16 : word & 0xffff;
    if (op == MMA_BF16) {
        return fromBits<float>(bits << 16);
    }
    return static_cast<float>(fromBits<_Float16>(bits));
}

/// One output as a tensor core may compute it: eight products at a time, all cut to the scale of the largest.
float truncatedSum(float sum, const float* a, const float* b) {
    for (unsigned k = 0; k < 16; k += 8) {
        double terms[9] = {sum};
        double largest = fabs(static_cast<double>(sum));
        bool finite = isfinite(sum);
        for (unsigned i = 0; i < 8; i++) {
            terms[i + 1] = static_cast<double>(a[k + i]) * b[k + i];
            largest = fmax(largest, fabs(terms[i + 1]));
            finite &= isfinite(terms[i + 1]);
        }
        if (!finite) {
            for (unsigned i = 0; i < 8; i++) {
                sum += a[k + i] * b[k + i];
            }
            continue;
        }
        int exponent;
        frexp(largest, &exponent);
        double total = 0;
        for (double term : terms) {
            total += trunc(ldexp(term, 25 - exponent));
        }
        double scaled = ldexp(total, exponent - 25);
        float rounded = static_cast<float>(scaled);
        sum = fabs(static_cast<double>(rounded)) > fabs(scaled) ? nextafterf(rounded, 0.0f) : rounded;
    }
    return sum;
}

/// Any processor, and sums that are cut: `(d + a₀·b₀) + a₁·b₁ + ...` in fmas, k ascending.
void multiplyPlain(Op op, const uint32_t (*a)[WARP], const uint32_t (*b)[WARP], float (*d)[WARP][2], bool truncate) {
    float left[16][16], right[8][16];
    for (unsigned lane = 0; lane < WARP; lane++) {
        for (unsigned r = 0; r < 4; r++) {
            for (unsigned half = 0; half < 2; half++) {
                left[lane / 4 + (r & 1) * 8][(lane % 4) * 2 + half + (r >> 1) * 8] = widen(op, a[r][lane], half);
                right[lane / 4][(lane % 4) * 2 + half + (r >> 1) * 8] = widen(op, b[r >> 1][lane], half);
            }
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        for (unsigned column = 0; column < 8; column++) {
            float* out = &d[row / 8][row % 8 * 4 + column / 2][column % 2];
            float sum = *out;
            if (truncate) {
                sum = truncatedSum(sum, left[row], right[column]);
            } else {
                for (unsigned k = 0; k < 16; k++) {
                    sum = __builtin_fmaf(left[row][k], right[column][k], sum);
                }
            }
            *out = sum;
        }
    }
}

#if CUDASIM_AVX2

template <Op OP> __m256 widen8(const uint32_t* words) {
    __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
    if constexpr (OP == MMA_F16) {
        return _mm256_cvtph_ps(halves);
    } else {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
}

/// Eight words, which are the k-pair of eight columns, as two rows of B.
template <Op OP> void widenPair(__m256i words, __m256* rows) {
    if constexpr (OP == MMA_F16) {
        __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
        __m256i high = _mm256_srli_epi32(words, 16);
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        rows[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
        rows[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1));
    } else {
        rows[0] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
        rows[1] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    }
}

template <Op OP> void widenLeft(const uint32_t (*a)[WARP], float (*left)[16]) {
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned g = 0; g < 8; g++) {
            _mm256_store_ps(&left[g + (r & 1) * 8][(r >> 1) * 8], widen8<OP>(&a[r][g * 4]));
        }
    }
}

template <Op OP> void widenRight(const uint32_t (*b)[WARP], __m256* right) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (unsigned r = 0; r < 2; r++) {
        const __m256i* words = reinterpret_cast<const __m256i*>(b[r]);
        __m256i w0 = _mm256_load_si256(words), w1 = _mm256_load_si256(words + 1);
        __m256i w2 = _mm256_load_si256(words + 2), w3 = _mm256_load_si256(words + 3);
        __m256i l0 = _mm256_unpacklo_epi32(w0, w1), l1 = _mm256_unpacklo_epi32(w2, w3);
        __m256i h0 = _mm256_unpackhi_epi32(w0, w1), h1 = _mm256_unpackhi_epi32(w2, w3);
        // Columns 0, 2, 4, 6, 1, 3, 5, 7 of the pairs t = 0 to 3.
        const __m256i pairs[4] = {_mm256_unpacklo_epi64(l0, l1), _mm256_unpackhi_epi64(l0, l1), _mm256_unpacklo_epi64(h0, h1),
                                  _mm256_unpackhi_epi64(h0, h1)};
        for (unsigned t = 0; t < 4; t++) {
            widenPair<OP>(_mm256_permutevar8x32_epi32(pairs[t], order), right + r * 8 + t * 2);
        }
    }
}

void accumulate(const float (*left)[16], const __m256* right, float (*d)[WARP][2]) {
    for (unsigned half = 0; half < 2; half++) {
        __m256 sum[8];
        for (unsigned g = 0; g < 8; g++) {
            sum[g] = _mm256_load_ps(&d[half][g * 4][0]);
        }
        for (unsigned k = 0; k < 16; k++) {
            __m256 row = right[k];
            for (unsigned g = 0; g < 8; g++) {
                sum[g] = _mm256_fmadd_ps(_mm256_broadcast_ss(&left[half * 8 + g][k]), row, sum[g]);
            }
        }
        for (unsigned g = 0; g < 8; g++) {
            _mm256_store_ps(&d[half][g * 4][0], sum[g]);
        }
    }
}

template <Op OP> void multiplyAll(Warp* warp) {
    alignas(32) float left[16][16];
    __m256 right[16];
    auto shape = warp->shape[0];
    for (unsigned i = 0; i < shape.count; i++) {
        if (i == 0 || shape.strideA) {
            widenLeft<OP>(warp->a[i], left);
        }
        if (i == 0 || shape.strideB) {
            widenRight<OP>(warp->b[i], right);
        }
        accumulate(left, right, warp->d[shape.strideD ? i : 0]);
    }
}

#endif

} // namespace

void multiply(Warp* warp, Op op) {
    auto shape = warp->shape[0];
#if CUDASIM_AVX2
    if (!options.truncate) {
        if (op == MMA_BF16) {
            multiplyAll<MMA_BF16>(warp);
        } else {
            multiplyAll<MMA_F16>(warp);
        }
        return;
    }
#endif
    for (unsigned i = 0; i < shape.count; i++) {
        multiplyPlain(op, warp->a[shape.strideA ? i : 0], warp->b[shape.strideB ? i : 0], warp->d[shape.strideD ? i : 0], options.truncate);
    }
}

void complete(Warp* warp, uint32_t group) {
    Op op = keyOp(warp->key[__builtin_ctz(group)]);
    switch (op) {
        case SHUFFLE: shuffle(warp, group); break;
        case BALLOT: ballot(warp, group); break;
        case MATCH: match(warp, group); break;
        case ADD: fold(warp, group, [](uint32_t a, uint32_t b) { return a + b; }); break;
        case MIN_U: fold(warp, group, [](uint32_t a, uint32_t b) { return a < b ? a : b; }); break;
        case MAX_U: fold(warp, group, [](uint32_t a, uint32_t b) { return a > b ? a : b; }); break;
        case MIN_I: fold(warp, group, [](uint32_t a, uint32_t b) { return static_cast<int>(a) < static_cast<int>(b) ? a : b; }); break;
        case MAX_I: fold(warp, group, [](uint32_t a, uint32_t b) { return static_cast<int>(a) > static_cast<int>(b) ? a : b; }); break;
        case AND: fold(warp, group, [](uint32_t a, uint32_t b) { return a & b; }); break;
        case OR: fold(warp, group, [](uint32_t a, uint32_t b) { return a | b; }); break;
        case XOR: fold(warp, group, [](uint32_t a, uint32_t b) { return a ^ b; }); break;
        case MMA_BF16:
        case MMA_F16: multiply(warp, op); break;
        case NONE:
        case SYNCWARP: break;
    }
}

} // namespace cudasim

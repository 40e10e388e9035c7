// Scales and codes of the KV cache, with the bits of millrace.engine.kernel.cpu.CacheWriter.
#pragma once
#include "cache.h"

constexpr unsigned F16_NAN = 0x7e00u;
constexpr unsigned F32_NAN = 0x7fc00000u;
constexpr unsigned F32_INFINITY = 0x7f800000u;

/// The largest of a warp's magnitudes, as the bits of an F32: a NaN is larger than infinity, and that than all numbers.
__device__ __forceinline__ unsigned warp_largest(unsigned magnitude) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        unsigned other = __shfl_xor_sync(GPU_ALL_LANES, magnitude, o);
        magnitude = other > magnitude ? other : magnitude;
    }
    return magnitude;
}

/// The largest magnitude of n values, in all lanes.
__device__ __forceinline__ unsigned largest_of(const float* x, int n) {
    unsigned largest = 0;
    for (int i = threadIdx.x & 31; i < n; i += 32) {
        unsigned magnitude = __float_as_uint(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return warp_largest(largest);
}

/// The F16 that is not nearer to 0, as bits; NaN for what is not finite or has none.
__device__ __forceinline__ unsigned half_away_from_zero(float scale) {
    unsigned bits = __float_as_uint(scale);
    unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude >= F32_INFINITY) {
        return F16_NAN;
    }
    unsigned half;
    if (magnitude < 113u << 23) { // below 2^-14 steps are 2^-24
        half = (unsigned)__float2int_rn(ceilf(__fmul_rn(__uint_as_float(magnitude), 16777216.0f)));
    } else {
        half = ((magnitude - (112u << 23)) >> 13) + ((magnitude & 0x1fffu) != 0);
    }
    return half >= 0x7c00u ? F16_NAN : (bits >> 16 & 0x8000u) | half;
}

/// `amax / 127`.
__device__ __forceinline__ float int8_scale(unsigned amax) { return __fdiv_rn(__uint_as_float(amax), 127.0f); }

/// The least power of two from 2^-120 on with amax <= 448 times it; 0 for 0, and what is not finite as it is.
__device__ __forceinline__ float fp8_scale(unsigned amax) {
    if (amax == 0 || amax >= F32_INFINITY) {
        return __uint_as_float(amax);
    }
    // 448 = 1.75 * 2^8: one more where the mantissa is beyond 1.75.
    int exponent = (int)(amax >> 23) - 8 + ((amax & 0x7fffffu) > 0x600000u);
    return __uint_as_float((unsigned)(exponent < 7 ? 7 : exponent) << 23);
}

/// A scale as it is kept in F32.
__device__ __forceinline__ float kept(float scale) {
    return (__float_as_uint(scale) & 0x7fffffffu) < F32_INFINITY ? scale : __uint_as_float(F32_NAN);
}

/// A value in steps of a scale, half to even, within least to most; 0 under a scale of 0 or NaN.
__device__ __forceinline__ int code_of(float value, float scale, int least, int most) {
    float steps = rintf(__fdiv_rn(value, scale));
    if (scale == 0.0f || steps != steps) {
        return 0;
    }
    return (int)(steps < (float)least ? (float)least : steps > (float)most ? (float)most : steps);
}
__device__ __forceinline__ unsigned int8_of(float value, float scale) {
    return (unsigned)code_of(value, scale, -127, 127) & 0xffu;
}
__device__ __forceinline__ unsigned int4_of(float value, float scale) {
    return (unsigned)code_of(value, scale, -8, 7) & 0xfu;
}
__device__ __forceinline__ unsigned fp8_of(float value, float scale) {
    return scale == 0.0f || scale != scale ? 0u : f32_to_e4m3(__fdiv_rn(value, scale));
}

/// The row of a tile that holds a token where depth = token: F32, BF16 (16 bits of it), or codes (8 bits).
template <int FORMAT> __device__ __forceinline__ unsigned char* token_row(unsigned char* tile, int lanes, int slot) {
    if (FORMAT == CACHE_F32) {
        return tile + 4ll * slot * lanes;
    }
    if (FORMAT == CACHE_BF16) {
        return tile + 4ll * (slot >> 1) * lanes + 2 * (slot & 1);
    }
    return tile + 4ll * (slot >> 2) * lanes + (slot & 3);
}

/// Writes n values into the row, by `count` threads of which this is `thread`. A token has bytes of its own: what other
/// tokens have in the same words stays, whoever writes them.
template <int FORMAT>
__device__ __forceinline__ void write_as_depth(unsigned char* row, const float* x, int n, float scale, int thread, int count) {
    for (int d = thread; d < n; d += count) {
        unsigned char* at = row + 4ll * d;
        if (FORMAT == CACHE_F32) {
            *reinterpret_cast<float*>(at) = x[d];
        } else if (FORMAT == CACHE_BF16) {
            *reinterpret_cast<unsigned short*>(at) = f32_to_bf16(x[d]);
        } else {
            *at = (unsigned char)(FORMAT == CACHE_FP8 ? fp8_of(x[d], scale) : int8_of(x[d], scale));
        }
    }
}

/// Writes a key into a tile of 16 lanes = tokens by one warp. Bytes of a word that belong to no dimension stay as they are.
///
/// @param scales F16 of 16 tokens, in INT8
template <int FORMAT>
__device__ __forceinline__ void write_key(unsigned char* keys, unsigned char* scales, int slot, const float* x, int n) {
    int lane = threadIdx.x & 31;
    unsigned char* column = keys + 4 * slot;
    if (FORMAT == CACHE_F32) {
        for (int d = lane; d < n; d += 32) {
            *reinterpret_cast<float*>(column + 64ll * d) = x[d];
        }
    } else if (FORMAT == CACHE_BF16) {
        for (int w = lane; w < n / 2; w += 32) {
            *reinterpret_cast<unsigned*>(column + 64ll * w) = pack_bf16(x[2 * w], x[2 * w + 1]);
        }
        if (n % 2 != 0 && lane == 0) {
            *reinterpret_cast<unsigned short*>(column + 64ll * (n / 2)) = f32_to_bf16(x[n - 1]);
        }
    } else {
        unsigned half = half_away_from_zero(int8_scale(largest_of(x, n)));
        if (lane == 0) {
            *reinterpret_cast<unsigned short*>(scales + 2 * slot) = (unsigned short)half;
        }
        float scale = f16_to_f32((unsigned short)half);
        for (int w = lane; w < n / 4; w += 32) {
            unsigned word = 0;
            for (int i = 0; i < 4; i++) {
                word |= int8_of(x[4 * w + i], scale) << 8 * i;
            }
            *reinterpret_cast<unsigned*>(column + 64ll * w) = word;
        }
        if (lane < n % 4) {
            column[64ll * (n / 4) + lane] = (unsigned char)int8_of(x[n / 4 * 4 + lane], scale);
        }
    }
}

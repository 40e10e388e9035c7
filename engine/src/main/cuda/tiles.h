// Words of the KV cache as B operands of mma.m16n8k16, without a detour through shared memory.
//
// A warp works on 32 tokens at a time. For scores, lane (g, t) = (lane / 4, lane % 4) holds of B the column of tokens
// 4 g ... 4 g + 3, one for each of four products, and four dimensions of each k step: what a load of 16 bytes brings. For
// sums of values a k step is the 16 tokens of a page; the lane holds tokens 4 t ... 4 t + 3 and four dimensions. In an mma
// the order of k is free as long as A has the same; `depth` says which dimension stands where.
//
// Codes become BF16 exactly: integers of up to 8 bits, or e4m3. An F32 becomes three BF16, each the next 8 bits of it.
#pragma once
#include "cache.h"

#if GPU_EMULATED
__device__ __forceinline__ unsigned short bf16_fma(unsigned a, unsigned b, unsigned c) {
    return f32_to_bf16(__fmaf_rn(bf16_to_f32((unsigned short)a), bf16_to_f32((unsigned short)b), bf16_to_f32((unsigned short)c)));
}
#endif

/// a * b + c of two BF16 at once. Used where the result is exact.
__device__ __forceinline__ unsigned bf16x2_fma(unsigned a, unsigned b, unsigned c) {
#if GPU_EMULATED
    return (unsigned)bf16_fma(a >> 16, b >> 16, c >> 16) << 16 | bf16_fma(a, b, c);
#else
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#endif
}

constexpr unsigned BF16X2_ONE = 0x3f803f80u;
constexpr unsigned BF16X2_MINUS_136 = 0xc308c308u;
constexpr unsigned BF16X2_2_120 = 0x7b807b80u;
constexpr unsigned BF16X2_MINUS_0 = 0x80008000u;
/// The upper byte of BF16 from 128 on, where the lower byte counts in ones.
constexpr unsigned BYTES_43 = 0x43434343u;

/// What is left of an F32 after its first 8 bits; the difference is exact.
__device__ __forceinline__ float rest_of(float x) { return __fsub_rn(x, __uint_as_float(__float_as_uint(x) & 0xffff0000u)); }

/// Two F32 as three words of two BF16 whose sum they are, exactly where they are not smaller than 2^-100.
__device__ __forceinline__ void bf16_parts(float x, float y, unsigned* parts, int stride) {
    parts[0] = gpu_prmt(__float_as_uint(x), __float_as_uint(y), 0x7632u);
    x = rest_of(x);
    y = rest_of(y);
    parts[stride] = gpu_prmt(__float_as_uint(x), __float_as_uint(y), 0x7632u);
    x = rest_of(x);
    y = rest_of(y);
    parts[2 * stride] = gpu_prmt(__float_as_uint(x), __float_as_uint(y), 0x7632u);
}

/// Two signed bytes, in the low bytes of the halves of a word below 0x43: 128 + the low 7 bits, less 128 or 256.
__device__ __forceinline__ unsigned int8_pair(unsigned x) {
    return bf16x2_fma(x & 0xff7fff7fu, BF16X2_ONE, (x & 0xff80ff80u) ^ 0x80008000u);
}
__device__ __forceinline__ void int8_quad(unsigned word, unsigned* b) {
    b[0] = int8_pair(gpu_prmt(word, BYTES_43, 0x4140u));
    b[1] = int8_pair(gpu_prmt(word, BYTES_43, 0x4342u));
}
/// Four bytes of signed code + 8.
__device__ __forceinline__ void int4_quad(unsigned bytes, unsigned* b) {
    b[0] = bf16x2_fma(gpu_prmt(bytes, BYTES_43, 0x4140u), BF16X2_ONE, BF16X2_MINUS_136);
    b[1] = bf16x2_fma(gpu_prmt(bytes, BYTES_43, 0x4342u), BF16X2_ONE, BF16X2_MINUS_136);
}
/// Two e4m3 in the upper bytes of the halves: exponent and mantissa to where BF16 has them, then the biases' difference.
__device__ __forceinline__ unsigned fp8_pair(unsigned x) {
    return bf16x2_fma((x & 0x80008000u) | (x >> 4 & 0x07f007f0u), BF16X2_2_120, BF16X2_MINUS_0);
}
__device__ __forceinline__ void fp8_quad(unsigned word, unsigned* b) {
    b[0] = fp8_pair(gpu_prmt(word, 0u, 0x1404u));
    b[1] = fp8_pair(gpu_prmt(word, 0u, 0x3424u));
}

__device__ __forceinline__ unsigned part_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

__device__ __forceinline__ uint4 load16(unsigned long long at, bool there) {
    return there ? gpu_ld_stream16(reinterpret_cast<const void*>(at)) : make_uint4(0, 0, 0, 0);
}

/// Keys of a grouped block: tiles of 16 lanes = tokens. A unit of the loop over dimensions is what LOADS loads bring:
/// STEPS k steps. PARTS operands stand for a value.
template <int FORMAT> struct GroupedKeys {
    static constexpr int LOADS = FORMAT == CACHE_F32 ? 4 : FORMAT == CACHE_BF16 ? 2 : 1;
    static constexpr int STEPS = FORMAT == CACHE_INT4 ? 2 : 1;
    static constexpr int PARTS = FORMAT == CACHE_F32 ? 3 : 1;

    /// The dimension of element e of register h of a lane in k step `step`.
    static __device__ __forceinline__ int depth(int step, int t, int h, int e) {
        return FORMAT == CACHE_INT4 ? step / 2 * 32 + 8 * t + 4 * h + 2 * e + step % 2 : 16 * step + 4 * t + 2 * h + e;
    }

    /// Its address, or 0: then all is zero.
    using Tile = unsigned long long;

    /// @param there whether to load at all
    /// @param rows of words in the tile; what is asked for behind them is zero
    static __device__ __forceinline__ void load(uint4* w, Tile tile, bool there, int rows, int unit, int g, int t) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int row = (4 * unit + t) * LOADS + i;
            w[i] = load16(tile + 64 * row + 16 * (g & 3), there && tile != 0 && row < rows);
        }
    }

    /// Takes away what is no dimension: all but the first `numbers` of the lane's four. Codes need not; nor F32, whose
    /// words are whole dimensions.
    static constexpr bool RAGGED = FORMAT == CACHE_BF16;
    static __device__ __forceinline__ void keep(uint4* w, int numbers) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            unsigned mask = numbers == 2 * i + 1 ? 0xffffu : 0xffffffffu;
            w[i] = make_uint4(w[i].x & mask, w[i].y & mask, w[i].z & mask, w[i].w & mask);
        }
    }

    /// The operands of token 4 g + i in k step `step` of a unit.
    static __device__ __forceinline__ void operand(const uint4* w, const Tile&, int step, int i, unsigned (*b)[2]) {
        if (FORMAT == CACHE_F32) {
            bf16_parts(__uint_as_float(part_of(w[0], i)), __uint_as_float(part_of(w[1], i)), &b[0][0], 2);
            bf16_parts(__uint_as_float(part_of(w[2], i)), __uint_as_float(part_of(w[3], i)), &b[0][1], 2);
        } else if (FORMAT == CACHE_BF16) {
            b[0][0] = part_of(w[0], i);
            b[0][1] = part_of(w[1], i);
        } else if (FORMAT == CACHE_INT8) {
            int8_quad(part_of(w[0], i), b[0]);
        } else {
            unsigned nibbles = part_of(w[0], i) ^ 0x88888888u;
            int4_quad((step == 0 ? nibbles : nibbles >> 4) & 0x0f0f0f0fu, b[0]);
        }
    }
};

/// Latents and rotated keys as keys: tiles of depth 16 = tokens, so that loads bring 4 tokens of 4 dimensions, which are
/// exchanged in registers.
template <int FORMAT> struct LatentKeys {
    static constexpr int LOADS = FORMAT == CACHE_F32 ? 4 : FORMAT == CACHE_BF16 ? 2 : 1;
    static constexpr int STEPS = 1;
    static constexpr int PARTS = FORMAT == CACHE_F32 ? 3 : 1;

    static __device__ __forceinline__ int depth(int step, int t, int h, int e) { return 16 * step + 4 * t + 2 * h + e; }

    /// Its address, or 0: then all is zero.
    using Tile = unsigned long long;

    /// @param there whether to load at all
    /// @param lanes of the tile
    static __device__ __forceinline__ void load(uint4* w, Tile tile, bool there, int lanes, int unit, int g, int t) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int row = (g & 3) * LOADS + i;
            w[i] = load16(tile + 4 * (row * lanes + 16 * unit + 4 * t), there && tile != 0);
        }
    }

    /// Takes away what is no dimension: all but the first `numbers` of the lane's four. Codes need not.
    static constexpr bool RAGGED = FORMAT == CACHE_BF16 || FORMAT == CACHE_F32;
    static __device__ __forceinline__ void keep(uint4* w, int numbers) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            w[i].x = numbers > 0 ? w[i].x : 0u;
            w[i].y = numbers > 1 ? w[i].y : 0u;
            w[i].z = numbers > 2 ? w[i].z : 0u;
            w[i].w = numbers > 3 ? w[i].w : 0u;
        }
    }

    static __device__ __forceinline__ void operand(const uint4* w, const Tile&, int, int i, unsigned (*b)[2]) {
        if (FORMAT == CACHE_F32) {
            const uint4& v = w[i];
            bf16_parts(__uint_as_float(v.x), __uint_as_float(v.y), &b[0][0], 2);
            bf16_parts(__uint_as_float(v.z), __uint_as_float(v.w), &b[0][1], 2);
        } else if (FORMAT == CACHE_BF16) {
            const uint4& v = w[i / 2 % LOADS];
            b[0][0] = gpu_prmt(v.x, v.y, i % 2 ? 0x7632u : 0x5410u);
            b[0][1] = gpu_prmt(v.z, v.w, i % 2 ? 0x7632u : 0x5410u);
        } else {
            // Bytes i of four words.
            unsigned pairs = i < 2 ? 0x5140u : 0x7362u;
            unsigned word = gpu_prmt(gpu_prmt(w[0].x, w[0].y, pairs), gpu_prmt(w[0].z, w[0].w, pairs), i % 2 ? 0x7632u : 0x5410u);
            if (FORMAT == CACHE_INT8) {
                int8_quad(word, b[0]);
            } else {
                fp8_quad(word, b[0]);
            }
        }
    }
};

/// Values: tiles of depth 16 = tokens. INT4 has two dimensions to a byte, see TileFormat.INT4_PAIRS.
template <int FORMAT> struct Values {
    static constexpr int LOADS = FORMAT == CACHE_F32 ? 4 : FORMAT == CACHE_BF16 ? 2 : 1;
    static constexpr int PARTS = FORMAT == CACHE_F32 ? 3 : 1;

    /// Its address.
    using Tile = unsigned long long;

    /// The tile of a step of a split.
    ///
    /// @param offset from a block's begin to its values
    static __device__ __forceinline__ Tile tile(const unsigned long long* pages, int page, long long offset, int lanes, int t) {
        (void)lanes;
        (void)t;
        return pages[page] + offset;
    }

    /// Loads 32 dimensions, of which a lane has four.
    static __device__ __forceinline__ void load(uint4* w, Tile tile, int lanes, int slice, int g, int t) {
        if (FORMAT == CACHE_INT4) {
            uint2 v = gpu_ld_stream8(reinterpret_cast<const void*>(tile + 4 * (t * (lanes / 2) + 16 * slice + 2 * g)));
            w[0] = make_uint4(v.x, v.y, 0, 0);
        } else {
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                int lane = 32 * slice + 4 * g;
                w[i] = load16(tile + 4 * ((t * LOADS + i) * lanes + lane), lane < lanes);
            }
        }
    }

    /// Takes away what is not a number of this sequence: all but the first `tokens` of the lane's four. Codes need not.
    static __device__ __forceinline__ void keep(uint4* w, int tokens) {
        if (FORMAT == CACHE_F32 || FORMAT == CACHE_BF16) {
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                int left = tokens - 4 / LOADS * i;
                unsigned mask = left <= 0 ? 0u : FORMAT == CACHE_BF16 && left == 1 ? 0xffffu : 0xffffffffu;
                w[i].x &= mask;
                w[i].y &= mask;
                w[i].z &= mask;
                w[i].w &= mask;
            }
        }
    }

    /// The operands of the lane's dimension i.
    static __device__ __forceinline__ void operand(const uint4* w, const Tile&, int i, unsigned (*b)[2]) {
        if (FORMAT == CACHE_F32) {
            bf16_parts(__uint_as_float(part_of(w[0], i)), __uint_as_float(part_of(w[1], i)), &b[0][0], 2);
            bf16_parts(__uint_as_float(part_of(w[2], i)), __uint_as_float(part_of(w[3], i)), &b[0][1], 2);
        } else if (FORMAT == CACHE_BF16) {
            b[0][0] = part_of(w[0], i);
            b[0][1] = part_of(w[1], i);
        } else if (FORMAT == CACHE_INT8) {
            int8_quad(part_of(w[0], i), b[0]);
        } else if (FORMAT == CACHE_FP8) {
            fp8_quad(part_of(w[0], i), b[0]);
        } else {
            unsigned word = part_of(w[0], i % 2) ^ 0x88888888u;
            int4_quad((i < 2 ? word : word >> 4) & 0x0f0f0f0fu, b[0]);
        }
    }

    /// Of the results of a slice a lane has two runs of 4 dimensions; here run r begins.
    static __device__ __forceinline__ int run(int t, int r) { return FORMAT == CACHE_INT4 ? 16 * r + 4 * t : 8 * t + 4 * r; }
    /// Which operand i, and which of its two columns, has element j of run r.
    static __device__ __forceinline__ int product(int r, int j) { return FORMAT == CACHE_INT4 ? 2 * r + (j & 1) : j; }
    static __device__ __forceinline__ int column(int r, int j) { return FORMAT == CACHE_INT4 ? j >> 1 : r; }
};

/// Four chosen tokens of any pages: where each one's row of words is, 0 for no token, and its place in these words in byte i
/// of `places`.
struct ChosenTile {
    unsigned long long rows[4];
    unsigned places;

    __device__ __forceinline__ unsigned place(int i) const { return places >> 8 * i & 3u; }
};

/// @param tokens four of them: the address of a token's block, plus its slot; or 0
/// @param offset from a block's begin to the tile
template <int FORMAT>
__device__ __forceinline__ ChosenTile chosen_tile(const unsigned long long* tokens, long long offset, int lanes) {
    constexpr unsigned PER_WORD = FORMAT == CACHE_F32 ? 1 : FORMAT == CACHE_BF16 ? 2 : 4;
    ChosenTile tile;
    tile.places = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned slot = (unsigned)tokens[i] % CACHE_TOKENS;
        unsigned long long row = (tokens[i] - slot) + offset + 4 * (slot / PER_WORD * (unsigned)lanes);
        tile.rows[i] = tokens[i] == 0 ? 0 : row;
        tile.places |= slot % PER_WORD << 8 * i;
    }
    return tile;
}

/// [LatentKeys] where every token has an address of its own, so that a load brings four dimensions of one token: the same
/// operands in the same lanes.
template <int FORMAT> struct ChosenKeys {
    static constexpr int LOADS = 4;
    static constexpr int STEPS = 1;
    static constexpr int PARTS = LatentKeys<FORMAT>::PARTS;
    using Tile = ChosenTile;

    static __device__ __forceinline__ int depth(int step, int t, int h, int e) { return LatentKeys<FORMAT>::depth(step, t, h, e); }

    static __device__ __forceinline__ void load(uint4* w, const Tile& tile, bool there, int, int unit, int, int t) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            w[i] = load16(tile.rows[i] + 4 * (16 * unit + 4 * t), there && tile.rows[i] != 0);
        }
    }

    static constexpr bool RAGGED = LatentKeys<FORMAT>::RAGGED;
    static __device__ __forceinline__ void keep(uint4* w, int numbers) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            w[i].x = numbers > 0 ? w[i].x : 0u;
            w[i].y = numbers > 1 ? w[i].y : 0u;
            w[i].z = numbers > 2 ? w[i].z : 0u;
            w[i].w = numbers > 3 ? w[i].w : 0u;
        }
    }

    static __device__ __forceinline__ void operand(const uint4* w, const Tile& tile, int step, int i, unsigned (*b)[2]) {
        const uint4& v = w[i];
        if (FORMAT == CACHE_F32) {
            LatentKeys<FORMAT>::operand(w, 0, step, i, b);
        } else if (FORMAT == CACHE_BF16) {
            unsigned halves = 0x5410u + 0x2222u * tile.place(i);
            b[0][0] = gpu_prmt(v.x, v.y, halves);
            b[0][1] = gpu_prmt(v.z, v.w, halves);
        } else {
            unsigned bytes = 0x40u + 0x11u * tile.place(i);
            unsigned word = gpu_prmt(gpu_prmt(v.x, v.y, bytes), gpu_prmt(v.z, v.w, bytes), 0x5410u);
            if (FORMAT == CACHE_INT8) {
                int8_quad(word, b[0]);
            } else {
                fp8_quad(word, b[0]);
            }
        }
    }
};

/// [Values] of chosen tokens, as [ChosenKeys].
template <int FORMAT> struct ChosenValues {
    static constexpr int LOADS = 4;
    static constexpr int PARTS = Values<FORMAT>::PARTS;
    using Tile = ChosenTile;

    static __device__ __forceinline__ Tile tile(const unsigned long long* tokens, int page, long long offset, int lanes, int t) {
        return chosen_tile<FORMAT>(tokens + CACHE_TOKENS * page + 4 * t, offset, lanes);
    }

    static __device__ __forceinline__ void load(uint4* w, const Tile& tile, int lanes, int slice, int g, int) {
        int lane = 32 * slice + 4 * g;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            w[i] = load16(tile.rows[i] + 4 * lane, tile.rows[i] != 0 && lane < lanes);
        }
    }

    /// Tokens that are not there were loaded as zeros.
    static __device__ __forceinline__ void keep(uint4*, int) {}

    static __device__ __forceinline__ void operand(const uint4* w, const Tile& tile, int i, unsigned (*b)[2]) {
        if (FORMAT == CACHE_F32) {
            Values<FORMAT>::operand(w, 0, i, b);
        } else if (FORMAT == CACHE_BF16) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                unsigned halves = 0x5410u + 0x22u * tile.place(2 * h) + 0x2200u * tile.place(2 * h + 1);
                b[0][h] = gpu_prmt(part_of(w[2 * h], i), part_of(w[2 * h + 1], i), halves);
            }
        } else {
            unsigned low = gpu_prmt(part_of(w[0], i), part_of(w[1], i), 0x40u + tile.place(0) + 0x10u * tile.place(1));
            unsigned high = gpu_prmt(part_of(w[2], i), part_of(w[3], i), 0x40u + tile.place(2) + 0x10u * tile.place(3));
            unsigned word = gpu_prmt(low, high, 0x5410u);
            if (FORMAT == CACHE_INT8) {
                int8_quad(word, b[0]);
            } else {
                fp8_quad(word, b[0]);
            }
        }
    }

    static __device__ __forceinline__ int run(int t, int r) { return Values<FORMAT>::run(t, r); }
    static __device__ __forceinline__ int product(int r, int j) { return Values<FORMAT>::product(r, j); }
    static __device__ __forceinline__ int column(int r, int j) { return Values<FORMAT>::column(r, j); }
};

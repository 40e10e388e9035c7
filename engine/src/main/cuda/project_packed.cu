// Products of BF16 weights kept in 12 bits without loss, in the form of Exp3sPanel in Java: what a lane needs for a unit of
// 64 columns lies in three runs of 16 bytes, 1536 bytes for a panel. A panel that has too many escapes holds its numbers as
// they are, 2048 bytes a unit, in the same order. The sums are those of BF16 panels, bit for bit.
//
// A number is sign and the upper seven bits of the exponent, the *head*, and the last bit of the exponent and the mantissa,
// the *tail*, a byte. Three bits name one of seven heads; with the sign they are a nibble. What has another head escapes.
#include "project.h"

struct Exp3s : InOrder {
    static constexpr int PARTS = 1;
    static constexpr bool GROUPED = false;
    static constexpr int DEPTH = 2;
    static constexpr int HEADER_BYTES = 64;
    static constexpr int UNIT_BYTES = 1536;
    static constexpr int RAW_UNIT_BYTES = 2048;
    struct Unit {
        uint4 run[4];
    };
    /// The next escape of the slice, fetched ahead: where, as unit · 1024 + step · 256 + lane · 8 + number, and what.
    struct State {
        uint2 escape;
        const uint2* following;
    };

    const unsigned char* panel;
    unsigned heads0, heads1;
    bool raw;

    __device__ __forceinline__ Exp3s(const Product&, unsigned long long weights, int number) {
        const unsigned char* all = reinterpret_cast<const unsigned char*>(weights);
        unsigned long long offset = reinterpret_cast<const unsigned long long*>(all)[number];
        panel = all + (offset & ~1ull);
        raw = (offset & 1) != 0; // so that the first unit need not wait for the header
        uint2 heads = *reinterpret_cast<const uint2*>(panel);
        heads0 = heads.x;
        heads1 = heads.y;
    }
    __device__ __forceinline__ void begin(State& state, int slice) const {
        // Raw panels have one list, which is empty.
        const unsigned* header = reinterpret_cast<const unsigned*>(panel);
        state.following = reinterpret_cast<const uint2*>(panel + header[3]) + header[4 + slice];
        state.escape = *state.following++;
    }
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        long long unitAt = HEADER_BYTES + (long long)number * (raw ? RAW_UNIT_BYTES : UNIT_BYTES);
        const unsigned char* from = panel + unitAt + (threadIdx.x & 31) * 16;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            unit.run[i] = gpu_ld_stream16(from + i * 512);
        }
        if (raw) {
            unit.run[3] = gpu_ld_stream16(from + 3 * 512);
        }
    }
    __device__ __forceinline__ void operands(const Unit& unit, State& state, int number, int step, unsigned* a) const {
        if (raw) {
            uint4 v = unit.run[step];
            a[0] = v.x;
            a[1] = v.y;
            a[2] = v.z;
            a[3] = v.w;
            return;
        }
        uint4 tails = unit.run[step >> 1];
        uint4 nibbles = unit.run[2];
        unsigned codes = step == 0 ? nibbles.x : step == 1 ? nibbles.y : step == 2 ? nibbles.z : nibbles.w;
        decode(codes, step & 1 ? tails.z : tails.x, step & 1 ? tails.w : tails.y, a);
        unsigned end = (unsigned)(number * UNIT_STEPS + step + 1) * 256;
        while (state.escape.x < end) { // the same for all lanes
            unsigned at = state.escape.x & 255;
            if (at >> 3 == (threadIdx.x & 31)) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    unsigned mask = (at >> 1 & 3) != (unsigned)i ? 0u : at & 1 ? 0xffff0000u : 0x0000ffffu;
                    a[i] = (a[i] & ~mask) | ((state.escape.y << 16 | state.escape.y) & mask);
                }
            }
            state.escape = *state.following++;
        }
    }
    /// Eight numbers of eight nibbles and eight tails: 15 operations.
    __device__ __forceinline__ void decode(unsigned codes, unsigned tails0, unsigned tails1, unsigned* a) const {
        unsigned index = codes & 0x77777777u;
        unsigned upper0 = gpu_prmt(heads0, heads1, index);
        unsigned upper1 = gpu_prmt(heads0, heads1, index >> 16);
        // A selector with bit 3 set replicates a sign: 0xff, else 0x80.
        unsigned sign0 = gpu_prmt(0x80808080u, 0x80808080u, codes) << 1;
        unsigned sign1 = gpu_prmt(0x80808080u, 0x80808080u, codes >> 16) << 1;
        upper0 |= sign0 & 0x80808080u;
        upper1 |= sign1 & 0x80808080u;
        a[0] = gpu_prmt(tails0, upper0, 0x5140);
        a[1] = gpu_prmt(tails0, upper0, 0x7362);
        a[2] = gpu_prmt(tails1, upper1, 0x5140);
        a[3] = gpu_prmt(tails1, upper1, 0x7362);
    }
    static __device__ __forceinline__ void scales(const Unit&, int, float&, float&) {}
};

PROJECT_KERNELS(project_packed, Exp3s, 2, 1)

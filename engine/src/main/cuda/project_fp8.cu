// Products of FP8 weights in the panels of Fp8Panel in Java: blocks of 128 columns, 2112 bytes each: 64 of scales, F32 for 16
// rows; then words [columns / 4][row] of four e4m3 codes. NaN codes do not occur.
#include "project.h"

struct Fp8 {
    static constexpr int PARTS = 1;
    static constexpr bool GROUPED = true;
    static constexpr int DEPTH = 3;
    static constexpr int BLOCK_BYTES = 2112;
    static constexpr bool SWAP = true; // bytes 0 and 2 make the first operand of a row, 1 and 3 the second
    struct State {};
    struct Unit {
        uint2 codes[UNIT_STEPS]; // columns 4 t to 4 t + 3 of rows 2 g and 2 g + 1
        uint2 scales;            // of both rows
    };

    const unsigned char* panel;

    static __device__ __forceinline__ void place(int quad, int& step, int& t) { InOrder::place(quad, step, t); }
    __device__ __forceinline__ Fp8(const Product& p, unsigned long long weights, int number)
        : panel(reinterpret_cast<const unsigned char*>(weights) + number * p.panelBytes) {}
    __device__ __forceinline__ void begin(State&, int) const {}
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        int lane = threadIdx.x & 31;
        const unsigned char* block = panel + (long long)(number / 2) * BLOCK_BYTES;
        const unsigned char* codes = block + 64 + number % 2 * 1024 + lane % 4 * 64 + lane / 4 * 8;
#pragma unroll
        for (int i = 0; i < UNIT_STEPS; i++) {
            unit.codes[i] = gpu_ld_stream8(codes + i * 256);
        }
        unit.scales = gpu_ld_stream8(block + lane / 4 * 8);
    }
    static __device__ __forceinline__ void operands(const Unit& unit, State&, int, int step, unsigned* a) {
        codes(unit.codes[step].x, a[0], a[2]);
        codes(unit.codes[step].y, a[1], a[3]);
    }
    /// Four codes as BF16: sign, exponent and mantissa to where BF16 has them, and the difference of the biases by a product
    /// with 2^120, which is exact also for the smallest codes.
    static __device__ __forceinline__ void codes(unsigned word, unsigned& even, unsigned& odd) {
        unsigned e = (word << 4 & 0x07f007f0u) | (word << 8 & 0x80008000u);
        unsigned o = (word >> 4 & 0x07f007f0u) | (word & 0x80008000u);
        even = gpu_bf16x2_fma(e, 0x7b807b80u, 0x80008000u);
        odd = gpu_bf16x2_fma(o, 0x7b807b80u, 0x80008000u);
    }
    static __device__ __forceinline__ void scales(const Unit& unit, int, float& row0, float& row1) {
        row0 = __uint_as_float(unit.scales.x);
        row1 = __uint_as_float(unit.scales.y);
    }
};

PROJECT_KERNELS(project_fp8, Fp8, 3, 2)

// Products of INT8 weights in the panels of Int8Panel in Java: blocks of 64 columns, 1088 bytes each: 64 of scales, BF16 for
// 16 rows and two groups of 32 columns; then words [columns / 4][row] of four codes.
#include "project.h"

struct Int8 {
    static constexpr int PARTS = 1;
    static constexpr bool GROUPED = true;
    static constexpr bool SWAP = true;
    static constexpr int DEPTH = 3;
    static constexpr int BLOCK_BYTES = 1088;
    struct State {};
    struct Unit {
        uint2 codes[UNIT_STEPS]; // columns 4 t to 4 t + 3 of rows 2 g and 2 g + 1
        unsigned scales[2];      // of both rows
    };

    const unsigned char* panel;

    static __device__ __forceinline__ void place(int quad, int& step, int& t) { InOrder::place(quad, step, t); }
    __device__ __forceinline__ Int8(const Product& p, unsigned long long weights, int number)
        : panel(reinterpret_cast<const unsigned char*>(weights) + number * p.panelBytes) {}
    __device__ __forceinline__ void begin(State&, int) const {}
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        int lane = threadIdx.x & 31;
        const unsigned char* block = panel + (long long)number * BLOCK_BYTES;
        const unsigned char* codes = block + 64 + lane % 4 * 64 + lane / 4 * 8;
#pragma unroll
        for (int i = 0; i < UNIT_STEPS; i++) {
            unit.codes[i] = gpu_ld_stream8(codes + i * 256);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unit.scales[i] = gpu_ld_stream4(block + i * 32 + lane / 4 * 4);
        }
    }
    static __device__ __forceinline__ void operands(const Unit& unit, State&, int, int step, unsigned* a) {
        codes(unit.codes[step].x, a[0], a[2]);
        codes(unit.codes[step].y, a[1], a[3]);
    }
    /// Four codes as BF16: 128 plus the lower seven bits, less 128, and less 128 more where the eighth is set. Bytes 0 and 2
    /// make the first operand of a row, 1 and 3 the second.
    static __device__ __forceinline__ void codes(unsigned word, unsigned& even, unsigned& odd) {
        even = pair(word);
        odd = pair(word >> 8);
    }
    static __device__ __forceinline__ unsigned pair(unsigned word) {
        return gpu_bf16x2_fma((word & 0x007f007fu) | 0x43004300u, 0x3f803f80u, (word & 0x00800080u) | 0xc300c300u);
    }
    static __device__ __forceinline__ void scales(const Unit& unit, int half, float& row0, float& row1) {
        row0 = bf_lo(unit.scales[half]);
        row1 = bf_hi(unit.scales[half]);
    }
};

PROJECT_KERNELS(project_int8, Int8, 3, 2)

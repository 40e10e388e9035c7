// Products of INT4 weights in the panels of Int4Panel in Java: blocks of 64 columns, 576 bytes each: 64 of scales, BF16 for
// 16 rows and two groups of 32 columns; then words [columns / 8][row]: byte i holds the code of column i of eight in its low
// half and that of column 4 + i in its high half, both plus 8.
#include "project.h"

struct Int4 {
    static constexpr int PARTS = 1;
    static constexpr bool GROUPED = true;
    static constexpr int DEPTH = 4;
    static constexpr int BLOCK_BYTES = 576;
    static constexpr bool SWAP = false;
    struct State {};
    struct Unit {
        uint2 codes[2];     // of a group: columns 8 t to 8 t + 7 of rows 2 g and 2 g + 1
        unsigned scales[2]; // of both rows
    };

    const unsigned char* panel;

    /// The first four columns of a word belong to one step, the other four to the next.
    static __device__ __forceinline__ void place(int quad, int& step, int& t) {
        step = quad >> 3 << 1 | (quad & 1);
        t = quad >> 1 & 3;
    }
    __device__ __forceinline__ Int4(const Product& p, unsigned long long weights, int number)
        : panel(reinterpret_cast<const unsigned char*>(weights) + number * p.panelBytes) {}
    __device__ __forceinline__ void begin(State&, int) const {}
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        int lane = threadIdx.x & 31;
        const unsigned char* block = panel + (long long)number * BLOCK_BYTES;
        const unsigned char* codes = block + 64 + lane % 4 * 64 + lane / 4 * 8;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            unit.codes[i] = gpu_ld_stream8(codes + i * 256);
            unit.scales[i] = gpu_ld_stream4(block + i * 32 + lane / 4 * 4);
        }
    }
    static __device__ __forceinline__ void operands(const Unit& unit, State&, int, int step, unsigned* a) {
        uint2 words = unit.codes[step >> 1];
        codes(step & 1 ? words.x >> 4 : words.x, a[0], a[2]);
        codes(step & 1 ? words.y >> 4 : words.y, a[1], a[3]);
    }
    /// The low halves of four bytes as BF16: 128 plus a half, less 136.
    static __device__ __forceinline__ void codes(unsigned word, unsigned& first, unsigned& second) {
        unsigned nibbles = word & 0x0f0f0f0fu;
        first = gpu_bf16x2_fma(gpu_prmt(nibbles, 0x43u, 0x4140), 0x3f803f80u, 0xc308c308u);
        second = gpu_bf16x2_fma(gpu_prmt(nibbles, 0x43u, 0x4342), 0x3f803f80u, 0xc308c308u);
    }
    static __device__ __forceinline__ void scales(const Unit& unit, int half, float& row0, float& row1) {
        row0 = bf_lo(unit.scales[half]);
        row1 = bf_hi(unit.scales[half]);
    }
};

PROJECT_KERNELS(project_int4, Int4, 3, 2)

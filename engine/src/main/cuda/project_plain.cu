// Products of BF16 and F32 weights, in the panels of Bf16Panel and F32Panel in Java.
#include "project.h"

/// BF16 panels: word [k / 2][row] holds columns k and k + 1. A lane takes rows 2 g and 2 g + 1 of columns 4 t to 4 t + 3 of
/// each step by two loads of 8 bytes.
struct Bf16 : InOrder {
    static constexpr int PARTS = 1;
    static constexpr bool GROUPED = false;
    static constexpr int DEPTH = 2;
    struct State {};
    struct Unit {
        uint2 pair[2 * UNIT_STEPS];
    };

    const unsigned char* panel;
    int words; // of a row

    __device__ __forceinline__ Bf16(const Product& p, unsigned long long weights, int number)
        : panel(reinterpret_cast<const unsigned char*>(weights) + number * p.panelBytes), words((p.cols + 1) / 2) {}
    __device__ __forceinline__ void begin(State&, int) const {}
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        int lane = threadIdx.x & 31;
        int first = number * (UNIT / 2) + lane % 4 * 2;
        const unsigned char* from = panel + (long long)first * 64 + lane / 4 * 8;
        bool whole = (number + 1) * (UNIT / 2) <= words;
#pragma unroll
        for (int i = 0; i < 2 * UNIT_STEPS; i++) {
            int word = i / 2 * 8 + i % 2; // from the first one
            unit.pair[i] = whole || first + word < words ? gpu_ld_stream8(from + word * 64) : make_uint2(0, 0);
        }
    }
    static __device__ __forceinline__ void operands(const Unit& unit, State&, int, int step, unsigned* a) {
        a[0] = unit.pair[2 * step].x;
        a[1] = unit.pair[2 * step].y;
        a[2] = unit.pair[2 * step + 1].x;
        a[3] = unit.pair[2 * step + 1].y;
    }
    static __device__ __forceinline__ void scales(const Unit&, int, float&, float&) {}
};

/// F32 panels: word [k][row]. A weight becomes three BF16 like an activation, so that each of the nine products is exact.
struct F32 : InOrder {
    static constexpr int PARTS = 3;
    static constexpr bool GROUPED = false;
    static constexpr int DEPTH = 1;
    struct State {};
    struct Unit {
        uint2 pair[4 * UNIT_STEPS];
    };

    const unsigned char* panel;
    int cols;

    __device__ __forceinline__ F32(const Product& p, unsigned long long weights, int number)
        : panel(reinterpret_cast<const unsigned char*>(weights) + number * p.panelBytes), cols(p.cols) {}
    __device__ __forceinline__ void begin(State&, int) const {}
    __device__ __forceinline__ void load(Unit& unit, int number) const {
        int lane = threadIdx.x & 31;
        int first = number * UNIT + lane % 4 * 4;
        const unsigned char* from = panel + (long long)first * 64 + lane / 4 * 8;
        bool whole = (number + 1) * UNIT <= cols;
#pragma unroll
        for (int i = 0; i < 4 * UNIT_STEPS; i++) {
            int word = i / 4 * 16 + i % 4;
            unit.pair[i] = whole || first + word < cols ? gpu_ld_stream8(from + word * 64) : make_uint2(0, 0);
        }
    }
    static __device__ __forceinline__ void operands(const Unit& unit, State&, int, int step, unsigned* a) {
        const uint2* w = unit.pair + 4 * step;
        split(w[0].x, w[1].x, a);
        split(w[0].y, w[1].y, a + 1);
        split(w[2].x, w[3].x, a + 2);
        split(w[2].y, w[3].y, a + 3);
    }
    static __device__ __forceinline__ void split(unsigned first, unsigned second, unsigned* a) {
        Activations<F32, 1, UNIT>::split(__uint_as_float(first), __uint_as_float(second), a[0], a[4], a[8]);
    }
    static __device__ __forceinline__ void scales(const Unit&, int, float&, float&) {}
};

PROJECT_KERNELS(project_bf16, Bf16, 3, 2)
PROJECT_KERNELS(project_f32, F32, 2, 1)

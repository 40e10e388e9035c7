// What kernels rely on, one kernel for each: EmulatorTest compares with Java.
#include "port.h"

/// Per lane, eleven results of what warps do together.
GPU_KERNEL conformance_warp(const unsigned* in, unsigned* out) {
    unsigned lane = threadIdx.x % 32, v = in[threadIdx.x], *o = out + threadIdx.x * 11;
    o[0] = __shfl_sync(GPU_ALL_LANES, v, 5);
    o[1] = __shfl_sync(GPU_ALL_LANES, v, (int)lane + 1, 8);
    o[2] = __shfl_up_sync(GPU_ALL_LANES, v, 3);
    o[3] = __shfl_down_sync(GPU_ALL_LANES, v, 2, 16);
    o[4] = __shfl_xor_sync(GPU_ALL_LANES, v, 9);
    o[5] = __ballot_sync(GPU_ALL_LANES, v & 1);
    o[6] = __reduce_add_sync(GPU_ALL_LANES, v);
    o[7] = (unsigned)__reduce_min_sync(GPU_ALL_LANES, (int)v);
    o[8] = __reduce_max_sync(GPU_ALL_LANES, v);
    o[9] = __match_any_sync(GPU_ALL_LANES, v % 3);
    // Halves of a warp meet apart, and the upper one later.
    o[10] = 0;
    if (lane < 16) {
        o[10] = __reduce_add_sync(0x0000ffffu, v);
    } else {
        o[10] = __reduce_add_sync(0xffff0000u, v);
    }
}
GPU_EXPORT(conformance_warp)

/// One product of 16 x 16 and 16 x 8 by fragments; rows major, B by columns.
template <bool BF16> __device__ __forceinline__ void conformance_mma(const unsigned short* a, const unsigned short* b, float* d) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    const unsigned* left = reinterpret_cast<const unsigned*>(a);
    const unsigned* right = reinterpret_cast<const unsigned*>(b);
    unsigned fa[4] = {left[g * 8 + t], left[(g + 8) * 8 + t], left[g * 8 + t + 4], left[(g + 8) * 8 + t + 4]};
    unsigned fb[2] = {right[g * 8 + t], right[g * 8 + t + 4]};
    float fd[4] = {d[g * 8 + 2 * t], d[g * 8 + 2 * t + 1], d[(g + 8) * 8 + 2 * t], d[(g + 8) * 8 + 2 * t + 1]};
    if (BF16) {
        gpu_mma_16816_bf16(fd, fa, fb);
    } else {
        gpu_mma_16816_f16(fd, fa, fb);
    }
    d[g * 8 + 2 * t] = fd[0];
    d[g * 8 + 2 * t + 1] = fd[1];
    d[(g + 8) * 8 + 2 * t] = fd[2];
    d[(g + 8) * 8 + 2 * t + 1] = fd[3];
}
GPU_KERNEL conformance_mma_bf16(const unsigned short* a, const unsigned short* b, float* d) { conformance_mma<true>(a, b, d); }
GPU_EXPORT(conformance_mma_bf16)
GPU_KERNEL conformance_mma_f16(const unsigned short* a, const unsigned short* b, float* d) { conformance_mma<false>(a, b, d); }
GPU_EXPORT(conformance_mma_f16)

/// Several products in one meeting against one after the other: 1 where a bit differs.
GPU_KERNEL conformance_mma_groups(const unsigned* words, unsigned* differ) {
    unsigned a[16], b[8];
    float at[16], each[16];
    for (int i = 0; i < 16; i++) {
        a[i] = words[i * 32 + threadIdx.x];
        at[i] = each[i] = (float)i;
    }
    for (int i = 0; i < 8; i++) {
        b[i] = words[(16 + i) * 32 + threadIdx.x];
    }
    bool same = true;
    gpu_mma_16816_bf16_n<4, 4, 4, 2>(at, a, b);
    for (int i = 0; i < 4; i++) {
        gpu_mma_16816_bf16(each + 4 * i, a + 4 * i, b + 2 * i);
    }
    gpu_mma_16816_bf16_n<3, 0, 0, 2>(at, a, b);
    for (int i = 0; i < 3; i++) {
        gpu_mma_16816_bf16(each, a, b + 2 * i);
    }
    gpu_mma_16816_f16_n<4, 4, 0, 2>(at, a, b);
    for (int i = 0; i < 4; i++) {
        gpu_mma_16816_f16(each + 4 * i, a, b + 2 * i);
    }
    gpu_mma_16816_f16_n<2, 0, 4, 0>(at, a, b);
    for (int i = 0; i < 2; i++) {
        gpu_mma_16816_f16(each, a + 4 * i, b);
    }
    for (int i = 0; i < 16; i++) {
        same &= __float_as_uint(at[i]) == __float_as_uint(each[i]);
    }
    differ[threadIdx.x] = !same;
}
GPU_EXPORT(conformance_mma_groups)

/// Functions of one F32, by number.
GPU_KERNEL conformance_math(const unsigned* in, unsigned* out, int function, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    float x = __uint_as_float(in[i]);
    unsigned short high, mid, low;
    switch (function) {
        case 0: out[i] = __float_as_uint(gpu_exp(x)); break;
        case 1: out[i] = __float_as_uint(gpu_sigmoid(x)); break;
        case 2: out[i] = f32_to_bf16(x); break;
        case 3: out[i] = f32_to_e4m3(x); break;
        case 4: out[i] = __float_as_uint(e4m3_to_f32(in[i])); break;
        case 5: out[i] = f32_to_f16(x); break;
        case 6: out[i] = __float_as_uint(f16_to_f32((unsigned short)in[i])); break;
        case 7:
            split_bf16(x, high, mid, low);
            out[i] = __float_as_uint(__fadd_rn(__fadd_rn(bf16_to_f32(low), bf16_to_f32(mid)), bf16_to_f32(high)));
            break;
        default: __trap();
    }
}
GPU_EXPORT(conformance_math)

/// A copy of many bytes through a ring of two stages, counted by mbarriers; one thread begins the copies.
GPU_KERNEL conformance_bulk(const float* in, float* out, int steps) {
#if GPU_HAS_BULK
    GPU_DYN_SHARED(float, stage); // [2][4 * threads], then the barriers
    int floats = 4 * blockDim.x;
    GpuMbarrier* barrier = reinterpret_cast<GpuMbarrier*>(stage + 2 * floats);
    if (threadIdx.x == 0) {
        gpu_mbarrier_init(barrier, 1);
        gpu_mbarrier_init(barrier + 1, 1);
        gpu_mbarrier_fence();
    }
    __syncthreads();
    for (int i = 0; i < steps; i++) {
        if (threadIdx.x == 0) {
            for (int ahead = i == 0 ? 0 : i + 1; ahead <= i + 1 && ahead < steps; ahead++) {
                gpu_mbarrier_expect(barrier + ahead % 2, 4 * floats);
                gpu_bulk_copy(stage + ahead % 2 * floats, in + ahead * floats, 4 * floats, barrier + ahead % 2);
            }
        }
        gpu_mbarrier_wait(barrier + i % 2, i / 2 % 2);
        for (int j = 0; j < 4; j++) {
            out[i * floats + j * blockDim.x + threadIdx.x] = stage[i % 2 * floats + j * blockDim.x + threadIdx.x];
        }
        __syncthreads();
    }
#endif
}
GPU_EXPORT(conformance_bulk)

/// Two warps hand values to one another through named barriers; the third leaves at once.
GPU_KERNEL conformance_named_barriers(unsigned* out) {
    __shared__ unsigned box[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 2) {
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        if (warp == 0) {
            box[lane] = 100 * i + lane;
            gpu_bar_sync(1, 64);
            gpu_bar_sync(2, 64);
        } else {
            gpu_bar_sync(1, 64);
            out[i * 32 + lane] = box[31 - lane];
            gpu_bar_sync(2, 64);
        }
    }
    __syncthreads(); // of the threads that are left
}
GPU_EXPORT(conformance_named_barriers)

/// Integer sums of many blocks in one place, and the place of each thread in three dimensions.
GPU_KERNEL conformance_grid(unsigned long long* sum, unsigned* places) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
    places[i] = i;
    atomicAdd(sum, (unsigned long long)i);
}
GPU_EXPORT(conformance_grid)

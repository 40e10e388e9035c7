// Kernels with one mistake each, that a device may run for years without showing it. PlantedBugsTest says how the
// emulator finds each of them; none of this is in the product.
#include "port.h"

/// Turns a row of 64 around through shared memory, and does not wait for the others' part of it.
GPU_KERNEL planted_no_barrier(float* out) {
    GPU_DYN_SHARED(float, row);
    row[threadIdx.x] = (float)threadIdx.x;
    out[threadIdx.x] = row[63 - threadIdx.x];
}
GPU_EXPORT(planted_no_barrier)

/// The same with the barrier.
GPU_KERNEL planted_none(float* out) {
    GPU_DYN_SHARED(float, row);
    row[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = row[63 - threadIdx.x];
}
GPU_EXPORT(planted_none)

/// One barrier in each branch: undefined, and works on some devices.
GPU_KERNEL planted_two_barriers(float* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        out[threadIdx.x] = 1.0f;
        __syncthreads();
    }
}
GPU_EXPORT(planted_two_barriers)

/// A barrier for 64 threads, to which one warp of the two comes.
GPU_KERNEL planted_half_barrier(float* out) {
    if (threadIdx.x < 32) {
        gpu_bar_sync(1, 64);
    }
    out[threadIdx.x] = 1.0f;
}
GPU_EXPORT(planted_half_barrier)

/// The upper half shuffles under a mask of the lower one.
GPU_KERNEL planted_foreign_mask(float* out) {
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, (float)threadIdx.x, 1);
}
GPU_EXPORT(planted_foreign_mask)

/// Lanes name each other in their masks, and want different things.
GPU_KERNEL planted_split_shuffle(float* out) {
    float v = (float)threadIdx.x;
    if (threadIdx.x < 16) {
        v = __shfl_xor_sync(GPU_ALL_LANES, v, 1);
    } else {
        v = (float)__ballot_sync(GPU_ALL_LANES, v > 20.0f);
    }
    out[threadIdx.x] = v;
}
GPU_EXPORT(planted_split_shuffle)

/// One lane shuffles with all, who wait for it at the barrier.
GPU_KERNEL planted_lone_shuffle(float* out) {
    float v = (float)threadIdx.x;
    if (threadIdx.x == 0) {
        v = __shfl_sync(GPU_ALL_LANES, v, 5);
    }
    __syncthreads();
    out[threadIdx.x] = v;
}
GPU_EXPORT(planted_lone_shuffle)

/// Half a warp multiplies: the instruction needs all of it.
GPU_KERNEL planted_half_mma(float* out) {
    if (threadIdx.x < 16) {
        return;
    }
    unsigned a[4] = {}, b[2] = {};
    float d[4] = {};
    gpu_mma_16816_bf16(d, a, b);
    out[threadIdx.x] = d[0];
}
GPU_EXPORT(planted_half_mma)

/// Reads what an asynchronous copy brings, and did not wait for it.
GPU_KERNEL planted_no_wait(const float* in, float* out) {
    GPU_DYN_SHARED(float, stage);
    gpu_cp_async16(stage + 4 * threadIdx.x, in + 4 * threadIdx.x);
    gpu_cp_async_commit();
    gpu_cp_async_wait<1>();
    __syncthreads();
    out[threadIdx.x] = stage[threadIdx.x];
}
GPU_EXPORT(planted_no_wait)

/// A ring of one stage: begins the next copy while other threads still read the last one.
GPU_KERNEL planted_early_copy(const float* in, float* out) {
    GPU_DYN_SHARED(float, stage);
    float sum = 0.0f;
    for (int i = 0; i < 2; i++) {
        gpu_cp_async16(stage + 4 * threadIdx.x, in + 4 * (i * blockDim.x + threadIdx.x));
        gpu_cp_async_commit();
        gpu_cp_async_wait<0>();
        __syncthreads();
        sum = __fadd_rn(sum, stage[4 * (threadIdx.x ^ 1)]);
    }
    out[threadIdx.x] = sum;
}
GPU_EXPORT(planted_early_copy)

/// Copies into two stages in turn, and begins one too early by a step.
GPU_KERNEL planted_ring(const float* in, float* out, int steps) {
    GPU_DYN_SHARED(float, stage); // [2][4 * threads]
    int floats = 4 * blockDim.x;
    gpu_cp_async16(stage + 4 * threadIdx.x, in + 4 * threadIdx.x);
    gpu_cp_async_commit();
    float sum = 0.0f;
    for (int i = 0; i < steps; i++) {
        if (i + 1 < steps) {
            // Others may still read this stage in the step before: the barrier at the end is what is missing.
            gpu_cp_async16(stage + (i + 1) % 2 * floats + 4 * threadIdx.x, in + (i + 1) * floats + 4 * threadIdx.x);
        }
        gpu_cp_async_commit();
        gpu_cp_async_wait<1>();
        __syncthreads();
        sum = __fadd_rn(sum, stage[i % 2 * floats + 4 * (blockDim.x - 1 - threadIdx.x)]);
    }
    out[threadIdx.x] = sum;
}
GPU_EXPORT(planted_ring)

/// Writes one element more than there are.
GPU_KERNEL planted_out_of_bounds(float* out, int count) { out[threadIdx.x] = (float)count; }
GPU_EXPORT(planted_out_of_bounds)

/// The same in shared memory.
GPU_KERNEL planted_out_of_shared(float* out) {
    GPU_DYN_SHARED(float, row);
    row[threadIdx.x + 4] = 1.0f;
    out[threadIdx.x] = row[threadIdx.x];
}
GPU_EXPORT(planted_out_of_shared)

/// Counts in shared variables that nobody set to 0: what the block before left is on a device often just that.
GPU_KERNEL planted_unset_shared(unsigned* out) {
    __shared__ unsigned count;
    atomicAdd(&count, 1u);
    __syncthreads();
    out[blockIdx.x] = count;
}
GPU_EXPORT(planted_unset_shared)

GPU_KERNEL planted_misaligned(const unsigned char* in, unsigned* out) { out[threadIdx.x] = gpu_ld_stream16(in + 4).x; }
GPU_EXPORT(planted_misaligned)

/// Waits for a copy that nobody began.
GPU_KERNEL planted_no_copy(float* out) {
#if GPU_HAS_BULK
    GPU_DYN_SHARED(GpuMbarrier, barrier);
    if (threadIdx.x == 0) {
        gpu_mbarrier_init(barrier, 1);
        gpu_mbarrier_fence();
        gpu_mbarrier_expect(barrier, 16);
    }
    __syncthreads();
    gpu_mbarrier_wait(barrier, 0);
#endif
    out[threadIdx.x] = 1.0f;
}
GPU_EXPORT(planted_no_copy)

/// The first to come gets the first place: the order of blocks is nobody's promise.
GPU_KERNEL planted_order(unsigned* counter, unsigned* out) { out[blockIdx.x] = atomicAdd(counter, 1u); }
GPU_EXPORT(planted_order)

GPU_KERNEL planted_trap(float* out) {
    if (out[threadIdx.x] < 0.0f) {
        __trap();
    }
}
GPU_EXPORT(planted_trap)

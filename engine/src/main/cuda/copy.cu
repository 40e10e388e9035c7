// Copies of memory: what the bandwidth of a device is measured with.
#include "port.h"

/// `to[i] = from[i]` for `count` words of 16 bytes; any grid, blocks of any size.
GPU_KERNEL copy_words16(uint4* __restrict__ to, const uint4* __restrict__ from, unsigned long long count) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        to[i] = gpu_ld_stream16(from + i);
    }
}
GPU_EXPORT(copy_words16)

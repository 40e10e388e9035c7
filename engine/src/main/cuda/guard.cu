/* What LogitsCheck and Sampler ask of a row of logits before anything else: whether its numbers can be, and which is the
 * largest. */
#include "port.h"

#define GUARD_PART 4096 /* logits of a part */

__device__ __forceinline__ uint4 guard_both(uint4 a, uint4 b) {
    float x = __uint_as_float(a.z), y = __uint_as_float(b.z);
    bool second = y > x || (y == x && b.w < a.w);
    return make_uint4(max(a.x, b.x), a.y | b.y, second ? b.z : a.z, second ? b.w : a.w);
}

/* A block for each part (blockIdx.x) of each row (blockIdx.y). `found` is [rows][parts], for each part
 *   x  the largest bits of an absolute value: floats without their sign are in the order of their bits, NaN above all
 *   y  the bits in which some logit differs from the row's first
 *   z  the bits of the largest logit
 *   w  its index in the row, the lowest of several; not defined for a part with a NaN
 * Shared: 16 bytes for each warp. */
GPU_KERNEL guard_logits(uint4 *found, const float *logits, int stride, int vocab, int rows, const int *live) {
    GPU_DYN_SHARED(uint4, warps);
    int row = blockIdx.y;
    if (row >= live_rows(rows, live)) {
        return;
    }
    const float *values = logits + (size_t)row * stride;
    unsigned first = __float_as_uint(values[0]), largest = 0, differing = 0;
    int from = blockIdx.x * GUARD_PART, to = min(vocab, from + GUARD_PART);
    /* Whoever has none of its own takes the part's first, which changes nothing. */
    int index = from + (int)threadIdx.x < to ? from + (int)threadIdx.x : from;
    float best = values[index];
#pragma unroll 4
    for (int i = from + threadIdx.x; i < to; i += blockDim.x) {
        float v = values[i];
        unsigned bits = __float_as_uint(v);
        largest = max(largest, bits & 0x7fffffffu);
        differing |= bits ^ first;
        if (v > best) {
            best = v;
            index = i;
        }
    }
    uint4 mine = make_uint4(largest, differing, __float_as_uint(best), (unsigned)index);
#pragma unroll
    for (int o = 16; o; o /= 2) {
        uint4 other = make_uint4(__shfl_xor_sync(GPU_ALL_LANES, mine.x, o), __shfl_xor_sync(GPU_ALL_LANES, mine.y, o),
                                 __shfl_xor_sync(GPU_ALL_LANES, mine.z, o), __shfl_xor_sync(GPU_ALL_LANES, mine.w, o));
        mine = guard_both(mine, other);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = mine;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++) {
            mine = guard_both(mine, warps[w]);
        }
        found[(size_t)row * gridDim.x + blockIdx.x] = mine;
    }
}
GPU_EXPORT(guard_logits)
